//! Handles submissions, one job after the other.

mod planning;

use std::collections::VecDeque;
use std::sync::Arc;

use europa_api::rest::{Action, Change, ProblemDetails};
use planning::{For, Planning};

use crate::accepted::Accepted;
use crate::job::Job;
use crate::machine::{Machine, Note, Ticket, Time};
use crate::purpose::{Ended, Progress, Purpose};
use crate::question::{Plan, Quiet, Submitted};
use crate::submission::{Refusal, Reply, Submission, refused};
use crate::witness::{Effect, Record, Watched, Witness};

/// Accepts desired state and makes it real.
#[derive(Default)]
pub struct Engine {
    accepted: Accepted,
    job: Option<Job>,
    /// The plan that is being computed.
    planning: Option<Planning>,
    /// Submissions that arrived during a job.
    waiting: VecDeque<(Submission, Reply)>,
    /// The ticket of the last job or plan.
    ticket: Ticket,
    /// The last state in which the machine was found to be as desired.
    quiet: Option<Quiet>,
    witness: Option<Box<dyn Witness>>,
}

impl Engine {
    /// An engine with this accepted state.
    pub fn new(accepted: Accepted) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// The same engine with a witness of its effects.
    #[must_use]
    pub fn watched(mut self, witness: Option<Box<dyn Witness>>) -> Self {
        self.witness = witness;
        self
    }

    /// The accepted state.
    pub fn accepted(&self) -> &Accepted {
        &self.accepted
    }

    /// Whether no change is being carried out.
    pub fn is_settled(&self) -> bool {
        self.job.is_none() && self.planning.is_none() && self.waiting.is_empty()
    }

    /// Whether steps remain to be taken.
    pub fn has_steps(&self) -> bool {
        self.job.as_ref().is_some_and(Job::has_steps)
    }

    /// Takes a submission; `reply` gets its outcome.
    pub fn submit(&mut self, submission: Submission, reply: Reply) {
        self.waiting.push_back((submission, reply));
    }

    /// Makes accepted but missing objects again, unless a job runs.
    pub fn reconcile(&mut self, machine: &mut impl Machine) {
        if self.job.is_some() || self.planning.is_some() {
            return;
        }
        machine.probe();
        let mut witness = self.witness.take();
        let documents = self.accepted.documents.clone();
        self.ask(For::Restore, documents, &mut Watched { machine, witness: &mut witness });
        self.witness = witness;
    }

    /// Runs a turn of the current change, or begins the next one. Returns whether it can continue
    /// at once.
    pub fn turn(&mut self, machine: &mut impl Machine, now: Time) -> bool {
        let mut witness = self.witness.take();
        let more = self.turn_on(&mut Watched { machine, witness: &mut witness }, now);
        self.witness = witness;
        more
    }

    fn turn_on<M: Machine>(&mut self, machine: &mut Watched<'_, M>, now: Time) -> bool {
        self.hear_plan(machine, now);
        if self.job.is_none()
            && self.planning.is_none()
            && let Some((submission, reply)) = self.waiting.pop_front()
        {
            self.begin(submission, reply, machine);
        }
        let Some(mut job) = self.job.take() else {
            return self.planning.is_none() && !self.waiting.is_empty();
        };
        match job.turn(machine, now) {
            Progress::More => {
                self.job = Some(job);
                true
            }
            Progress::Waits => {
                self.job = Some(job);
                false
            }
            Progress::Again => {
                self.ask(For::Again, job.documents.clone(), machine);
                self.job = Some(job);
                false
            }
            Progress::Done => {
                self.finish(job, machine);
                true
            }
            Progress::Failed(problem) => {
                self.take_back(job, *problem, machine);
                true
            }
        }
    }

    /// The time of the engine's next turn if no event happens.
    pub fn due(&self) -> Option<Time> {
        self.job.as_ref().map(Job::due)
    }

    fn next_ticket(&mut self) -> Ticket {
        self.ticket = Ticket(self.ticket.0 + 1);
        self.ticket
    }

    fn begin<M: Machine>(
        &mut self,
        submission: Submission,
        reply: Reply,
        machine: &mut Watched<'_, M>,
    ) {
        let Submission { base, documents, kept, dry_run, at } = submission;
        if base != self.accepted.revision {
            return reply(Err(Refusal::Stale));
        }
        machine.probe();
        let (accepted, kept) = (self.accepted.clone(), Arc::new(kept));
        let submitted = Submitted { accepted, kept, at, dry_run };
        self.ask(For::Apply(submitted, reply), Arc::new(documents), machine);
    }

    /// A job has failed: restores the former state, if anything was changed.
    fn take_back<M: Machine>(
        &mut self,
        job: Job,
        problem: ProblemDetails,
        machine: &mut Watched<'_, M>,
    ) {
        let Ended { purpose, touched, open, .. } = job.end(machine);
        match purpose {
            Purpose::Apply { reply } if touched => {
                machine.note(Note::Failed(&problem.detail));
                let documents = self.accepted.documents.clone();
                machine.want(&documents);
                let why = Box::new(problem);
                self.ask(For::Rollback { reply, why, open }, documents, machine);
            }
            Purpose::Apply { reply } => reply(refused(problem)),
            // A tolerant job does not fail as a whole.
            Purpose::Rollback { reply, why, .. } => {
                let why = format!("{}; going back failed too: {}", why.detail, problem.detail);
                reply(refused(ProblemDetails::failed(why)));
            }
            Purpose::Restore => machine.note(Note::Failed(&problem.detail)),
        }
    }

    fn finish<M: Machine>(&mut self, mut job: Job, machine: &mut Watched<'_, M>) {
        if let Some(next) = job.accepted() {
            let former = std::mem::replace(&mut self.accepted, next);
            machine.discard(Box::new(former));
        }
        let Ended { purpose, applied, .. } = job.end(machine);
        match purpose {
            Purpose::Apply { reply } => {
                if !applied.dry_run && !applied.changes.is_empty() {
                    let said: Vec<String> = applied.changes.iter().map(told).collect();
                    machine.note(Note::Applied(&said.join(", ")));
                }
                reply(Ok(applied));
            }
            Purpose::Rollback { reply, why, open } => {
                let documents = self.accepted.documents.clone();
                self.ask(For::Left { reply, why, open }, documents, machine);
            }
            Purpose::Restore => machine.note(Note::Restored),
        }
    }

    /// A plan was computed.
    pub fn planned(&mut self, plan: Plan) {
        // A plan for a job that has failed is useless.
        if let Some(planning) = self.planning.as_mut().filter(|one| one.ticket == plan.ticket) {
            planning.answer = Some(plan);
        }
    }

    /// A router runs its configuration.
    pub fn ready(&mut self, router: &str) {
        if let Some(job) = &mut self.job {
            job.ready(router);
        }
    }

    /// A router does not start, or has ended.
    pub fn failed(&mut self, router: &str, why: &str) {
        self.refused(Effect::AddRouter, router, Err(why));
        if let Some(job) = &mut self.job {
            job.failed(router, why);
        }
    }

    /// A router has carried out an update, or has refused it.
    pub fn updated(&mut self, ticket: Ticket, router: &str, outcome: Result<(), &str>) {
        self.refused(Effect::UpdateRouter, router, outcome);
        if let Some(job) = &mut self.job {
            job.updated(ticket, router, outcome);
        }
    }

    /// Programs of a router's slow path have reloaded their files, or a program has failed to do
    /// so.
    pub fn reloaded(&mut self, ticket: Ticket, router: &str, outcome: Result<(), &str>) {
        self.refused(Effect::StartSlowPaths, router, outcome);
        if let Some(job) = &mut self.job {
            job.reloaded(ticket, router, outcome);
        }
    }

    /// A router with pending updates has ended: its new process starts with their contents.
    pub fn no_updates(&mut self, router: &str) {
        if let Some(job) = &mut self.job {
            job.no_updates(router);
        }
    }

    /// The store has stored the current change, or has failed to.
    pub fn committed(&mut self, outcome: Result<(), String>) {
        self.refused(Effect::Commit, "", outcome.as_ref().map(drop).map_err(String::as_str));
        if let Some(job) = &mut self.job {
            job.committed(outcome);
        }
    }

    /// The witness is informed of an answer that is a refusal.
    fn refused(&mut self, effect: Effect, object: &str, outcome: Result<(), &str>) {
        if let (Some(witness), Err(why)) = (&mut self.witness, outcome) {
            witness.hear(Record::later(effect, object, why));
        }
    }
}

/// A change in a few words.
fn told(change: &Change) -> String {
    let mark = match change.action {
        Action::Add => "+",
        Action::Change => "~",
        Action::Remove => "-",
    };
    let how = change.how.as_ref().map_or(String::new(), |how| format!(" ({how})"));
    format!("{mark} {} {}{how}", change.kind, change.name)
}
