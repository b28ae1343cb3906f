//! Submissions, one job after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use europa_api::rest::{Applied, ProblemDetails};
use europa_api::{Documents, Kept};
use europa_plan::{Actual, Desired, difference};

use crate::accepted::Accepted;
use crate::job::{Job, Progress, Purpose, answer, refused, told};
use crate::machine::{Machine, Note, Ticket, Time};
use crate::store::Stored;
use crate::witness::{Effect, Record, Watched, Witness};

/// How long routers may take to become ready once all steps are taken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Desired state that was read and checked as text.
pub struct Submission {
    /// Revision that it was checked against.
    pub base: u64,
    /// All documents.
    pub documents: Documents,
    /// The same, as they are kept.
    pub kept: Vec<Kept>,
    /// Only list the changes.
    pub dry_run: bool,
    /// When it came, as RFC 3339 has it.
    pub at: String,
}

/// Why nothing was changed.
pub enum Refusal {
    /// Desired state is another one by now: check again.
    Stale,
    /// The mistakes.
    Problem(Box<ProblemDetails>),
}

/// The result of a submission.
pub type Outcome = Result<Applied, Refusal>;

/// Gets the outcome of a submission.
pub type Reply = Box<dyn FnOnce(Outcome) + Send>;

/// Accepts desired state and makes it real.
#[derive(Default)]
pub struct Engine {
    accepted: Accepted,
    job: Option<Job>,
    /// Submissions that came while there was a job.
    waiting: VecDeque<(Submission, Reply)>,
    /// That of the last job.
    ticket: Ticket,
    /// The last state that a look has found to be as desired.
    quiet: Option<Quiet>,
    witness: Option<Box<dyn Witness>>,
}

/// A state whose plan has no steps and lacks nothing.
struct Quiet {
    documents: Arc<Documents>,
    actual: Actual,
}

impl Engine {
    /// One that has accepted this before.
    pub fn new(accepted: Accepted) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// The same with a witness of its effects.
    #[must_use]
    pub fn watched(mut self, witness: Option<Box<dyn Witness>>) -> Self {
        self.witness = witness;
        self
    }

    /// The accepted state.
    pub fn accepted(&self) -> &Accepted {
        &self.accepted
    }

    /// Whether nothing is being carried out.
    pub fn is_settled(&self) -> bool {
        self.job.is_none() && self.waiting.is_empty()
    }

    /// Whether steps are still to be taken.
    pub fn has_steps(&self) -> bool {
        self.job.as_ref().is_some_and(Job::has_steps)
    }

    /// The result of the current change.
    pub fn target(&self) -> Option<&Desired> {
        self.job.as_ref().map(Job::desired)
    }

    /// Takes a submission; `reply` gets its outcome.
    pub fn submit(&mut self, submission: Submission, reply: Reply) {
        self.waiting.push_back((submission, reply));
    }

    /// Makes accepted but missing objects again, unless a job runs.
    pub fn reconcile(&mut self, machine: &mut impl Machine, now: Time) {
        let mut witness = self.witness.take();
        self.reconcile_on(&mut Watched { machine, witness: &mut witness }, now);
        self.witness = witness;
    }

    fn reconcile_on(&mut self, machine: &mut impl Machine, now: Time) {
        if self.job.is_some() {
            return;
        }
        machine.probe();
        if self.is_quiet(machine) {
            return;
        }
        let documents = self.accepted.documents.clone();
        let job = Job::new(Purpose::Restore, documents.clone(), self.next_ticket(), machine, now);
        let is_quiet = job.is_empty() && job.desired().missing.is_empty();
        self.quiet = is_quiet.then(|| Quiet { documents, actual: machine.actual() });
        for (port, why) in &job.desired().missing {
            machine.note(Note::Missing(port, &why.text));
        }
        if !job.is_empty() {
            self.job = Some(job);
        }
    }

    /// Whether everything that a plan depends on is as it was when there was nothing to do. A plan of
    /// many routers takes far longer than this.
    fn is_quiet(&self, machine: &mut impl Machine) -> bool {
        self.quiet.as_ref().is_some_and(|quiet| {
            let ports = &quiet.actual.ports;
            Arc::ptr_eq(&quiet.documents, &self.accepted.documents)
                && quiet.actual == machine.actual()
                && ports
                    .iter()
                    .all(|port| machine.look(&port.document).is_ok_and(|facts| facts == port.facts))
        })
    }

    /// Gives the current change a turn, or begins the next. Returns whether there is more to do at
    /// once.
    pub fn turn(&mut self, machine: &mut impl Machine, now: Time) -> bool {
        let mut witness = self.witness.take();
        let more = self.turn_on(&mut Watched { machine, witness: &mut witness }, now);
        self.witness = witness;
        more
    }

    fn turn_on(&mut self, machine: &mut impl Machine, now: Time) -> bool {
        if self.job.is_none()
            && let Some((submission, reply)) = self.waiting.pop_front()
        {
            self.begin(submission, reply, machine, now);
        }
        let Some(mut job) = self.job.take() else { return !self.waiting.is_empty() };
        match job.turn(&self.accepted, machine, now) {
            Progress::More => {
                self.job = Some(job);
                true
            }
            Progress::Waits => {
                self.job = Some(job);
                false
            }
            Progress::Done => {
                self.finish(job, machine);
                true
            }
            Progress::Failed(problem) => {
                self.take_back(job, *problem, machine, now);
                true
            }
        }
    }

    /// When it is to have a turn, though nothing has happened.
    pub fn due(&self) -> Option<Time> {
        self.job.as_ref().map(Job::due)
    }

    fn next_ticket(&mut self) -> Ticket {
        self.ticket = Ticket(self.ticket.0 + 1);
        self.ticket
    }

    fn begin(
        &mut self,
        submission: Submission,
        reply: Reply,
        machine: &mut impl Machine,
        now: Time,
    ) {
        let Submission { base, documents, kept, dry_run, at } = submission;
        if base != self.accepted.revision {
            return answer(reply, Err(Refusal::Stale));
        }
        machine.probe();
        let old: Vec<Kept> = self.accepted.stored.iter().map(Stored::kept).collect();
        let (changes, unchanged) = difference(&old, &kept);
        let purpose = Purpose::Apply { reply, kept, at };
        let mut job = Job::new(purpose, Arc::new(documents), self.next_ticket(), machine, now);
        job.applied.dry_run = dry_run;
        job.applied.revision = self.accepted.revision;
        match job.check(changes, unchanged, machine) {
            Ok(()) => self.job = Some(job),
            Err(problem) => self.take_back(job, *problem, machine, now),
        }
    }

    /// A job has failed: the state of before comes back, if anything was changed.
    fn take_back(
        &mut self,
        job: Job,
        problem: ProblemDetails,
        machine: &mut impl Machine,
        now: Time,
    ) {
        match job.purpose {
            Purpose::Apply { reply, .. } if job.touched => {
                machine.note(Note::Failed(&problem.detail));
                let documents = self.accepted.documents.clone();
                machine.want(&documents);
                let purpose = Purpose::Rollback { reply, why: Box::new(problem), open: job.open };
                let mut back = Job::new(purpose, documents, self.next_ticket(), machine, now);
                back.touched = true;
                self.job = Some(back);
            }
            Purpose::Apply { reply, .. } => answer(reply, refused(problem)),
            // A tolerant job has no failure of its own.
            Purpose::Rollback { reply, why, .. } => {
                let why = format!("{}; going back failed too: {}", why.detail, problem.detail);
                answer(reply, refused(ProblemDetails::failed(why)));
            }
            Purpose::Restore => machine.note(Note::Failed(&problem.detail)),
        }
    }

    fn finish(&mut self, mut job: Job, machine: &mut impl Machine) {
        if let Some(next) = job.accepted() {
            self.accepted = next;
        }
        let left = match &job.purpose {
            Purpose::Rollback { open, .. } => job.left(open, machine),
            _ => Vec::new(),
        };
        match job.purpose {
            Purpose::Apply { reply, .. } => {
                if !job.applied.dry_run && !job.applied.changes.is_empty() {
                    let said: Vec<String> = job.applied.changes.iter().map(told).collect();
                    machine.note(Note::Applied(&said.join(", ")));
                }
                answer(reply, Ok(job.applied));
            }
            Purpose::Rollback { reply, why, .. } => {
                machine.note(Note::TakenBack(&left));
                let mut problem = ProblemDetails::taken_back(&why.detail).faults(why.faults);
                if !left.is_empty() {
                    let what = left.join("; ");
                    problem = ProblemDetails::failed(format!(
                        "{}; going back failed, and is tried again: {what}",
                        why.detail
                    ));
                }
                answer(reply, refused(problem));
            }
            Purpose::Restore => machine.note(Note::Restored),
        }
    }

    /// A router runs its configuration.
    pub fn ready(&mut self, router: &str) {
        if let Some(job) = &mut self.job {
            job.ready(router);
        }
    }

    /// A router does not come up, or has ended.
    pub fn failed(&mut self, router: &str, why: &str) {
        self.refused(Effect::AddRouter, router, Err(why));
        if let Some(job) = &mut self.job {
            job.failed(router, why);
        }
    }

    /// A router has carried out an update, or refuses it.
    pub fn updated(&mut self, ticket: Ticket, router: &str, outcome: Result<(), &str>) {
        self.refused(Effect::UpdateRouter, router, outcome);
        if let Some(job) = &mut self.job {
            job.updated(ticket, router, outcome);
        }
    }

    /// Programs of a router's slow path have read their files again, or one has failed to.
    pub fn reloaded(&mut self, ticket: Ticket, router: &str, outcome: Result<(), &str>) {
        self.refused(Effect::StartSlowPaths, router, outcome);
        if let Some(job) = &mut self.job {
            job.reloaded(ticket, router, outcome);
        }
    }

    /// A router has ended that was to answer updates: it begins again with their contents.
    pub fn no_updates(&mut self, router: &str) {
        if let Some(job) = &mut self.job {
            job.no_updates(router);
        }
    }

    /// The store has written the current change down, or not.
    pub fn committed(&mut self, outcome: Result<(), String>) {
        self.refused(Effect::Commit, "", outcome.as_ref().map(drop).map_err(String::as_str));
        if let Some(job) = &mut self.job {
            job.committed(outcome);
        }
    }

    /// The witness hears of an answer that is a refusal.
    fn refused(&mut self, effect: Effect, object: &str, outcome: Result<(), &str>) {
        if let (Some(witness), Err(why)) = (&mut self.witness, outcome) {
            witness.hear(Record::later(effect, object, why));
        }
    }
}
