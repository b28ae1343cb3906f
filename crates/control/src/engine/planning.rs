//! Plans for the next job. Another thread computes them. A plan is used only if the machine is
//! still in the state for which it was computed.

use std::sync::Arc;

use europa_api::Documents;
use europa_api::rest::ProblemDetails;
use europa_plan::{Actual, PortId};

use super::Engine;
use crate::job::Job;
use crate::machine::{Machine, Note, Ticket, Time};
use crate::purpose::Purpose;
use crate::question::{About, Found, Plan, Planned, Question, Quiet, Submitted};
use crate::submission::{Reply, refused};
use crate::witness::Watched;

/// Most successive plans that may be outdated when they arrive.
const MOST_TRIES: u32 = 5;

/// A plan that is being computed.
pub(crate) struct Planning {
    pub(crate) ticket: Ticket,
    purpose: For,
    documents: Arc<Documents>,
    /// Number of earlier plans that were outdated.
    tries: u32,
    pub(crate) answer: Option<Plan>,
}

/// The purpose of a plan.
pub(crate) enum For {
    /// A change was submitted.
    Apply(Submitted, Reply),
    /// Parts of the accepted state may be missing.
    Restore,
    /// The former state must be restored.
    Rollback { reply: Reply, why: Box<ProblemDetails>, open: Vec<PortId> },
    /// The current job needs other steps.
    Again,
    /// The parts that a rollback did not restore.
    Left { reply: Reply, why: Box<ProblemDetails>, open: Vec<PortId> },
}

impl Engine {
    /// Requests a plan of `documents`.
    pub(crate) fn ask<M: Machine>(
        &mut self,
        purpose: For,
        documents: Arc<Documents>,
        machine: &mut Watched<'_, M>,
    ) {
        self.ask_again(purpose, documents, 0, machine);
    }

    fn ask_again<M: Machine>(
        &mut self,
        purpose: For,
        documents: Arc<Documents>,
        tries: u32,
        machine: &mut Watched<'_, M>,
    ) {
        let about = match &purpose {
            For::Apply(submitted, _) => About::Change(submitted.clone()),
            For::Restore => About::Rest(self.quiet.clone()),
            For::Rollback { .. } | For::Again => About::Steps,
            For::Left { open, .. } => About::Left(open.clone()),
        };
        let (namespaces, actual) = (machine.namespaces(), Arc::new(machine.actual()));
        let ticket = self.next_ticket();
        let of = documents.clone();
        self.planning = Some(Planning { ticket, purpose, documents, tries, answer: None });
        machine.plan(Question { ticket, namespaces, documents: of, actual, about });
    }

    /// Continues with a plan that has arrived.
    pub(crate) fn hear_plan<M: Machine>(&mut self, machine: &mut Watched<'_, M>, now: Time) {
        let Some(planning) = self.planning.take_if(|planning| planning.answer.is_some()) else {
            return;
        };
        let Planning { ticket, purpose, documents, tries, answer: Some(plan) } = planning else {
            return;
        };
        machine.looked(plan.blind.as_ref());
        let is_computed = !matches!(plan.found, Found::Failed | Found::Left(_));
        let is_late = is_computed && !plan.actual.is_same(&machine.actual());
        if is_late && tries < MOST_TRIES {
            machine.discard(Box::new(plan));
            return self.ask_again(purpose, documents, tries + 1, machine);
        }
        let Plan { actual, found, .. } = plan;
        match (purpose, found) {
            (For::Apply(submitted, reply), Found::Planned(planned)) => {
                machine.discard(Box::new(submitted));
                if is_late {
                    machine.discard(planned);
                    return reply(refused(ProblemDetails::failed(LATE)));
                }
                let purpose = Purpose::Apply { reply };
                let mut job = Job::new(purpose, documents, *planned, &actual, ticket, now);
                match job.check(machine) {
                    Ok(()) => self.job = Some(job),
                    Err(problem) => self.take_back(job, *problem, machine),
                }
            }
            (For::Restore, Found::Planned(planned)) => {
                let job = Job::new(Purpose::Restore, documents, *planned, &actual, ticket, now);
                self.restore(job, actual, machine);
            }
            (For::Restore, _) => {}
            (For::Rollback { reply, why, open }, Found::Planned(planned)) => {
                // Steps of an outdated plan may fail; the next check repairs the rest.
                let purpose = Purpose::Rollback { reply, why, open };
                let mut job = Job::new(purpose, documents, *planned, &actual, ticket, now);
                job.touched = true;
                self.job = Some(job);
            }
            (For::Left { reply, why, .. }, Found::Left(left)) => {
                taken_back(reply, &why, &left, machine);
            }
            (For::Again, Found::Planned(planned)) => self.go_on(*planned, machine),
            (purpose, _) => self.unplanned(purpose),
        }
    }

    /// Makes missing objects again.
    fn restore<M: Machine>(&mut self, job: Job, actual: Arc<Actual>, machine: &mut Watched<'_, M>) {
        for (port, why) in &job.desired().missing {
            machine.note(Note::Missing(port, &why.text));
        }
        let is_quiet = job.is_empty() && job.desired().missing.is_empty();
        let documents = job.documents.clone();
        self.quiet = is_quiet.then_some(Quiet { documents, actual });
        if job.is_empty() {
            drop(job.end(machine));
        } else {
            self.job = Some(job);
        }
    }

    fn go_on<M: Machine>(&mut self, planned: Planned, machine: &mut Watched<'_, M>) {
        if let Some(job) = &mut self.job {
            job.replanned(planned, machine);
        }
    }

    /// The thread of plans has failed.
    fn unplanned(&mut self, purpose: For) {
        match purpose {
            For::Apply(_, reply) => reply(refused(ProblemDetails::failed(UNPLANNED))),
            For::Rollback { reply, why, .. } | For::Left { reply, why, .. } => {
                let why = format!("{}; going back failed too: {UNPLANNED}", why.detail);
                reply(refused(ProblemDetails::failed(why)));
            }
            For::Again => {
                if let Some(job) = &mut self.job {
                    job.unplanned(UNPLANNED);
                }
            }
            For::Restore => {}
        }
    }
}

/// The reason if plans are always outdated and nothing was done.
const LATE: &str =
    "objects of the node changed while each of several plans was computed; apply again";
/// The reason if no plan could be computed and nothing was done.
const UNPLANNED: &str = "computing the plan failed; the log of the node says more";

/// The machine is in its former state again, except `left`.
fn taken_back(reply: Reply, why: &ProblemDetails, left: &[String], machine: &mut impl Machine) {
    machine.note(Note::TakenBack(left));
    let problem = match left {
        [] => ProblemDetails::taken_back(&why.detail).faults(why.faults.clone()),
        _ => {
            let what = left.join("; ");
            ProblemDetails::failed(format!(
                "{}; going back failed, and is tried again: {what}",
                why.detail
            ))
        }
    };
    reply(refused(problem));
}
