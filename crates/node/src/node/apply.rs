//! New desired state: checked, kept, carried out step by step.
//!
//! The loop does one short step at a time, so that everything else goes on meanwhile.
//! What fails a check changes nothing. What fails afterwards is taken back: the desired
//! state of before is carried out.

use std::collections::VecDeque;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_api::rest::{Applied, Change, ProblemDetails};
use europa_api::{Documents, Fault, Kept, Key};

use super::Node;
use super::steps::{Step, Target};
use crate::checker::{Checker, Verdict};
use crate::control::Reply;
use crate::difference::difference;
use crate::plan::RouterPlan;
use crate::store::{Snapshot, StoreError, Stored};
use crate::{NodeError, slices};

/// How long everything together may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Desired state, at hand.
#[derive(Default)]
pub(super) struct Desired {
    pub(super) revision: u64,
    pub(super) stored: Arc<Vec<Stored>>,
    pub(super) documents: Documents,
}

/// Desired state that was read and checked outside of the loop.
pub(crate) struct Submission {
    /// Revision that it was checked against.
    pub(crate) base: u64,
    /// All documents.
    pub(crate) documents: Documents,
    /// The same, as they are kept.
    pub(crate) kept: Vec<Kept>,
    /// Only tell what would change.
    pub(crate) dry_run: bool,
}

/// Why nothing was changed.
pub(crate) enum Refusal {
    /// Desired state is another one by now: check again.
    Stale,
    /// What is wrong.
    Problem(Box<ProblemDetails>),
}

/// What becomes of a submission.
pub(crate) type Outcome = Result<Applied, Refusal>;

/// A submission and who waits for its outcome.
pub(crate) struct Order {
    pub(crate) submission: Submission,
    pub(crate) reply: Reply<Outcome>,
}

/// Why a change is not carried out.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure {
    /// For people.
    pub(super) text: String,
    /// Objects and fields that are at fault, if some are.
    pub(super) faults: Vec<Fault>,
}

impl From<&NodeError> for Failure {
    fn from(error: &NodeError) -> Failure {
        let faults = match error {
            NodeError::Fault(fault) => vec![(**fault).clone()],
            _ => Vec::new(),
        };
        Failure { text: error.to_string(), faults }
    }
}

impl Failure {
    /// A router that does not come up as it is to be.
    pub(super) fn of_router(name: &str, why: &str) -> Failure {
        // What a router says of its configuration shows the place itself.
        let faults = match why.contains('\n') {
            true => Vec::new(),
            false => vec![Fault::new(Key::new("router", name), &[], why)],
        };
        Failure { text: format!("router {name}: {why}"), faults }
    }

    fn problem(self) -> ProblemDetails {
        ProblemDetails::failed(self.text).faults(self.faults)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure { text, faults: Vec::new() }
    }
}

/// Why a job is done.
enum Purpose {
    /// Somebody wants it.
    Apply(Reply<Outcome>),
    /// The node has just started, or a device has come: as much as can be is done.
    Restore,
    /// To be told once the state of before is back.
    Rollback(Reply<Outcome>, Box<ProblemDetails>),
}

/// Desired state that is being carried out.
pub(super) struct Job {
    purpose: Purpose,
    documents: Documents,
    kept: Vec<Kept>,
    dry_run: bool,
    target: Target,
    applied: Applied,
    checker: Option<Checker>,
    /// None before the checks have passed.
    steps: Option<VecDeque<Step>>,
    /// Routers that must become ready.
    pub(super) awaited: Vec<String>,
    /// Answers to updates that are still to come.
    pub(super) updates: usize,
    pub(super) failure: Option<Failure>,
    /// The state of before.
    before: Option<Desired>,
    until: Instant,
    gated: bool,
}

impl Job {
    /// What to wait for while configurations are checked.
    pub(super) fn checker(&self) -> Option<BorrowedFd<'_>> {
        self.checker.as_ref().map(Checker::fd)
    }

    /// When to look at it next.
    pub(super) fn due(&self, now: Instant) -> Instant {
        let idle = self.steps.as_ref().is_some_and(VecDeque::is_empty);
        let waits = idle && (!self.awaited.is_empty() || self.updates > 0);
        if self.failure.is_none() && (self.checker.is_some() || self.gated || waits) {
            self.until
        } else {
            now
        }
    }

    /// What it leads to.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether something is still to be done.
    pub(super) fn has_steps(&self) -> bool {
        self.steps.as_ref().is_some_and(|steps| !steps.is_empty())
    }

    /// Routers that are still to be added, but for the one in hand.
    pub(super) fn additions(&self) -> impl Iterator<Item = &RouterPlan> {
        let steps = self.steps.iter().flatten();
        steps.filter_map(move |step| match step {
            Step::AddRouter(name) => self.target.plan(name),
            _ => None,
        })
    }

    /// More is known now.
    pub(super) fn retarget(&mut self, target: Target) {
        self.target = target;
    }

    /// It is as much as can be, not all or nothing.
    pub(super) fn is_tolerant(&self) -> bool {
        !matches!(self.purpose, Purpose::Apply(_))
    }
}

impl Node {
    /// The desired state, to check another one against.
    pub(crate) fn desired(&self) -> (u64, Arc<Vec<Stored>>) {
        (self.desired.revision, self.desired.stored.clone())
    }

    /// Whether nothing is being carried out.
    pub(crate) fn is_settled(&self) -> bool {
        self.job.is_none() && self.waiting.is_empty()
    }

    /// Takes a submission; `reply` gets its outcome.
    pub(crate) fn submit(&mut self, submission: Submission, reply: Reply<Outcome>) {
        self.waiting.push_back(Order { submission, reply });
        self.work();
    }

    /// Brings up what the store says; if another node has left something, what of it goes on.
    pub(super) fn restore(&mut self, left: bool) -> Result<(), NodeError> {
        let Snapshot { revision, documents } = self.store.load()?;
        if documents.is_empty() {
            self.desired.revision = revision;
            return if left { self.adopt(&Documents::default()) } else { Ok(()) };
        }
        let kept: Vec<Kept> = documents.iter().map(Stored::kept).collect();
        let mut checked = europa_api::Bundle::default().merge(&kept).map_err(|problems| {
            let error = problems.render(false);
            StoreError::Damaged { what: "the node's desired state".into(), error }
        })?;
        checked.complete();
        let count = documents.len();
        self.events.note("node", "", "Restoring", format!("{count} documents of the last run"));
        self.desired = Desired { revision, stored: Arc::new(documents), documents: checked };
        self.restore_filters(left)?;
        if left {
            let documents = self.desired.documents.clone();
            self.adopt(&documents)?;
        }
        self.reconcile();
        Ok(())
    }

    /// Carries out again what could not be done before.
    pub(super) fn reconcile(&mut self) {
        if self.job.is_some() {
            return;
        }
        let documents = self.desired.documents.clone();
        let target = self.target(&documents);
        for (port, why) in &target.missing {
            self.events.warn("port", port, "Missing", why.to_string());
        }
        let steps = self.steps(&target);
        if steps.is_empty() {
            return;
        }
        self.job = Some(Job {
            purpose: Purpose::Restore,
            kept: Vec::new(),
            documents,
            dry_run: false,
            target,
            applied: Applied::default(),
            checker: None,
            steps: Some(steps),
            awaited: Vec::new(),
            updates: 0,
            failure: None,
            before: None,
            until: Instant::now() + PATIENCE,
            gated: false,
        });
    }

    /// One step of the job there is, or the beginning of the next.
    pub(super) fn work(&mut self) {
        if self.job.is_none()
            && let Some(order) = self.waiting.pop_front()
        {
            self.begin(order);
        }
        let Some(mut job) = self.job.take() else { return };
        match self.advance(&mut job) {
            Ok(false) => self.job = Some(job),
            Ok(true) => self.finish(job),
            Err(problem) => self.refuse(job, problem),
        }
    }

    fn begin(&mut self, order: Order) {
        let Order { submission, reply } = order;
        if submission.base != self.desired.revision {
            let _ = reply.send(Err(Refusal::Stale));
            return;
        }
        let Submission { documents, kept, dry_run, .. } = submission;
        let old: Vec<Kept> = self.desired.stored.iter().map(Stored::kept).collect();
        let (changes, unchanged) = difference(&old, &kept);
        let target = self.target(&documents);
        let mut job = Job {
            purpose: Purpose::Apply(reply),
            documents,
            kept,
            dry_run,
            applied: Applied {
                dry_run,
                revision: self.desired.revision,
                changes,
                unchanged,
                warnings: Vec::new(),
            },
            checker: None,
            steps: None,
            awaited: Vec::new(),
            updates: 0,
            failure: None,
            before: None,
            until: Instant::now() + PATIENCE,
            gated: false,
            target,
        };
        if let Some(why) = job.target.refusal() {
            let problem = ProblemDetails::configuration(why.text).faults(why.faults);
            self.refuse(job, problem);
            return;
        }
        let reserved = slices::check(&job.documents, &self.cgroups, self.cores.len());
        if let Err(error) = self.check_filters(&job.documents).and(reserved) {
            let why = Failure::from(&error);
            let problem = ProblemDetails::configuration(why.text).faults(why.faults);
            self.refuse(job, problem);
            return;
        }
        for change in &mut job.applied.changes {
            change.how = self.how(&job.target, change);
        }
        let checks = match self.to_be_checked(&job.target) {
            Ok(checks) => checks,
            Err(error) => {
                let why = Failure::from(&error);
                let problem = ProblemDetails::configuration(why.text).faults(why.faults);
                self.refuse(job, problem);
                return;
            }
        };
        if !checks.is_empty() {
            match self.start_checker(checks) {
                Ok(checker) => job.checker = Some(checker),
                Err(error) => {
                    self.refuse(job, ProblemDetails::failed(error.to_string()));
                    return;
                }
            }
        }
        self.job = Some(job);
    }

    /// Whether the job is done.
    fn advance(&mut self, job: &mut Job) -> Result<bool, ProblemDetails> {
        if let Some(checker) = &mut job.checker {
            match checker.go_on() {
                Verdict::NotYet => return Ok(false),
                Verdict::Right(warnings) => {
                    job.applied.warnings = warnings;
                    job.checker = None;
                }
                Verdict::Wrong(why) => {
                    return Err(ProblemDetails {
                        rendered: Some(why.into()),
                        ..ProblemDetails::configuration("a Click configuration is not right")
                    });
                }
                Verdict::Failed(why) => return Err(ProblemDetails::failed(why)),
            }
        }
        if job.steps.is_none() {
            if job.dry_run || job.applied.changes.is_empty() {
                // What could not be done before may be possible now.
                return Ok(true);
            }
            self.commit(job).map_err(|error| ProblemDetails::failed(error.to_string()))?;
            job.steps = Some(self.steps(&job.target));
        }
        if job.until <= Instant::now() && job.failure.is_none() {
            let names = job.awaited.join(", ");
            let why = format!("not ready within {} s: {names}", PATIENCE.as_secs());
            job.failure = Some(why.into());
        }
        if let Some(why) = &job.failure {
            if !job.is_tolerant() {
                return Err(why.clone().problem());
            }
            self.events.warn("node", "", "Failed", why.text.clone());
            job.failure = None;
            if job.until <= Instant::now() {
                return Ok(true);
            }
        }
        let Some(steps) = &mut job.steps else { return Ok(false) };
        let Some(step) = steps.front() else {
            return Ok(job.awaited.is_empty() && job.updates == 0);
        };
        job.gated = step.starts_a_process() && self.starting() >= self.cores.len().max(2);
        if job.gated {
            return Ok(false);
        }
        if let Some(step) = steps.pop_front()
            && let Err(error) = self.take_step(&step, job)
        {
            job.failure = Some(Failure::from(&error));
        }
        Ok(false)
    }

    /// Makes the job's documents the desired state.
    fn commit(&mut self, job: &mut Job) -> Result<(), NodeError> {
        let now = crate::events::now();
        let old = &self.desired.stored;
        let mut order = old.iter().map(|stored| stored.order).max().unwrap_or(0);
        let mut put = Vec::new();
        let mut all = Vec::new();
        for kept in &job.kept {
            let before = old.iter().find(|stored| stored.key == kept.key);
            if let Some(before) = before.filter(|before| before.kept() == *kept) {
                all.push(before.clone());
                continue;
            }
            order += u64::from(before.is_none());
            let stored = Stored {
                key: kept.key.clone(),
                order: before.map_or(order, |before| before.order),
                generation: before.map_or(1, |before| before.generation + 1),
                changed: now.clone(),
                document: kept.document.clone(),
                configuration: kept.configuration.as_ref().map(Into::into),
            };
            put.push(stored.clone());
            all.push(stored);
        }
        all.sort_by_key(|stored| stored.order);
        let gone: Vec<Key> = old
            .iter()
            .filter(|stored| !job.kept.iter().any(|kept| kept.key == stored.key))
            .map(|stored| stored.key.clone())
            .collect();
        let revision = self.desired.revision + 1;
        self.store.change(revision, &put, &gone)?;
        let documents = mem::take(&mut job.documents);
        let new = Desired { revision, stored: Arc::new(all), documents };
        job.before = Some(mem::replace(&mut self.desired, new));
        job.applied.revision = revision;
        Ok(())
    }

    fn refuse(&mut self, mut job: Job, problem: ProblemDetails) {
        let before = job.before.take();
        match (job.purpose, before) {
            (Purpose::Apply(reply), Some(before)) => {
                self.events.warn("node", "", "Failed", problem.detail.clone());
                self.take_back(before, reply, problem);
            }
            (Purpose::Apply(reply), None) => {
                let _ = reply.send(Err(Refusal::Problem(Box::new(problem))));
            }
            (Purpose::Rollback(reply, why), _) => {
                let why = format!("{}; going back failed too: {}", why.detail, problem.detail);
                let problem = ProblemDetails::failed(why);
                let _ = reply.send(Err(Refusal::Problem(Box::new(problem))));
            }
            (Purpose::Restore, _) => {
                self.events.warn("node", "", "Failed", problem.detail);
            }
        }
    }

    /// Carries out the state of before.
    fn take_back(&mut self, before: Desired, reply: Reply<Outcome>, why: ProblemDetails) {
        let put: Vec<Stored> = before.stored.iter().cloned().collect();
        let now = &self.desired.stored;
        let gone: Vec<Key> = now
            .iter()
            .filter(|stored| !put.iter().any(|other| other.key == stored.key))
            .map(|stored| stored.key.clone())
            .collect();
        let revision = self.desired.revision + 1;
        if let Err(error) = self.store.change(revision, &put, &gone) {
            self.events.warn("node", "", "Failed", format!("keeping desired state: {error}"));
        }
        self.desired = Desired { revision, ..before };
        let documents = self.desired.documents.clone();
        let target = self.target(&documents);
        let steps = self.steps(&target);
        self.job = Some(Job {
            purpose: Purpose::Rollback(reply, Box::new(why)),
            documents,
            kept: Vec::new(),
            dry_run: false,
            target,
            applied: Applied::default(),
            checker: None,
            steps: Some(steps),
            awaited: Vec::new(),
            updates: 0,
            failure: None,
            before: None,
            until: Instant::now() + PATIENCE,
            gated: false,
        });
    }

    fn finish(&mut self, mut job: Job) {
        // Whoever is told that it is done finds it so.
        self.follow();
        job.applied.warnings.extend(self.warnings());
        match job.purpose {
            Purpose::Apply(reply) => {
                if !job.dry_run && !job.applied.changes.is_empty() {
                    let said: Vec<String> = job.applied.changes.iter().map(told).collect();
                    self.events.note("node", "", "Applied", said.join(", "));
                }
                let _ = reply.send(Ok(job.applied));
            }
            Purpose::Rollback(reply, why) => {
                self.events.note("node", "", "TakenBack", "the state of before is back");
                let problem = ProblemDetails::taken_back(&why.detail).faults(why.faults);
                let _ = reply.send(Err(Refusal::Problem(Box::new(problem))));
            }
            Purpose::Restore => {
                let running = self.routers.iter().filter(|r| r.process.is_some()).count();
                self.events.note("node", "", "Restored", format!("{running} routers run"));
            }
        }
    }
}

fn told(change: &Change) -> String {
    use europa_api::rest::Action;
    let mark = match change.action {
        Action::Add => "+",
        Action::Change => "~",
        Action::Remove => "-",
    };
    let how = change.how.as_ref().map_or(String::new(), |how| format!(" ({how})"));
    format!("{mark} {} {}{how}", change.kind, change.name)
}
