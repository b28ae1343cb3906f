//! One change: it is checked, carried out step by step, and committed or undone.
//!
//! Desired state is stored last, once all its objects exist. A node that is killed earlier finds
//! the former state in its store and restores that state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use europa_api::rest::{Applied, ProblemDetails};
use europa_api::{Documents, Fault, Key};
use europa_plan::{Actual, Desired, Failure, PortId, RouterChange, RouterId, Step, Subject};

use crate::accepted::{Accepted, Commit};
use crate::machine::{Machine, Note, Stop, Taken, Ticket, Time, Verdict};
use crate::purpose::{Ended, Progress, Purpose};
use crate::question::Planned;

/// Time in which routers must become ready after all steps are taken.
const PATIENCE: Duration = Duration::from_secs(120);

/// The phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Configurations are tried.
    Checking,
    /// Steps are taken.
    Steps,
    /// New steps are being computed, because facts about a device have changed.
    Planning,
    /// Desired state is written down.
    Committing,
}

/// Desired state that is being carried out.
pub(crate) struct Job {
    pub(crate) purpose: Purpose,
    pub(crate) documents: Arc<Documents>,
    desired: Desired,
    steps: VecDeque<Step>,
    pub(crate) applied: Applied,
    phase: Phase,
    /// Whether something was changed: then a failure must be undone.
    pub(crate) touched: bool,
    /// Routers that must become ready.
    awaited: BTreeSet<RouterId>,
    /// Outstanding answers to updates, by router.
    updates: BTreeMap<RouterId, usize>,
    /// Number of slow paths whose programs must still reload their files.
    reloads: usize,
    /// The id of this job's updates and reloads: answers with another id are ignored.
    ticket: Ticket,
    failure: Option<Failure>,
    /// Objects in doubt after a failed step of a tolerant job: steps that need them are skipped.
    doubts: BTreeSet<Subject>,
    until: Time,
    /// Ports that were open when the job began.
    pub(crate) open: Vec<PortId>,
    /// The state after the job, and the change to be stored.
    next: Option<(Accepted, Commit)>,
    /// The state that is written down.
    written: Option<Accepted>,
    committed: Option<Result<(), String>>,
}

impl Job {
    /// A job that realises `documents` by a plan for the state `actual`. Nothing is done yet.
    pub(crate) fn new(
        purpose: Purpose,
        documents: Arc<Documents>,
        planned: Planned,
        actual: &Actual,
        ticket: Ticket,
        now: Time,
    ) -> Self {
        let Planned { desired, steps, applied, next } = planned;
        Self {
            open: open(actual).collect(),
            purpose,
            documents,
            desired,
            steps,
            applied,
            phase: Phase::Steps,
            touched: false,
            awaited: BTreeSet::new(),
            updates: BTreeMap::new(),
            reloads: 0,
            ticket,
            failure: None,
            doubts: BTreeSet::new(),
            until: now + PATIENCE,
            next,
            written: None,
            committed: None,
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The desired state after it.
    pub(crate) fn desired(&self) -> &Desired {
        &self.desired
    }

    /// Whether steps remain to be taken.
    pub(crate) fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// A tolerant job does as much as possible, and does not fail as a whole.
    fn is_tolerant(&self) -> bool {
        !matches!(self.purpose, Purpose::Apply { .. })
    }

    /// Checks everything that can be checked before a change.
    pub(crate) fn check(&mut self, machine: &mut impl Machine) -> Result<(), Box<ProblemDetails>> {
        let wrong =
            |why: Failure| Box::new(ProblemDetails::configuration(why.text).faults(why.faults));
        if let Some(why) = self.desired.refusal() {
            return Err(wrong(why));
        }
        machine.admit(&self.desired).map_err(wrong)?;
        let new: Vec<_> = self.steps.iter().filter_map(tried).collect();
        if !new.is_empty() {
            machine.check(&new).map_err(wrong)?;
            self.phase = Phase::Checking;
        }
        Ok(())
    }

    /// Runs until it has to wait.
    pub(crate) fn turn(&mut self, machine: &mut impl Machine, now: Time) -> Progress {
        match self.phase {
            Phase::Checking => self.hear_checks(machine),
            Phase::Planning => Progress::Waits,
            Phase::Steps if self.applied.dry_run => Progress::Done,
            Phase::Steps => self.take_steps(machine, now),
            Phase::Committing => match self.committed.take() {
                None => Progress::Waits,
                Some(Ok(())) => Progress::Done,
                Some(Err(why)) => Progress::Failed(Box::new(ProblemDetails::failed(why))),
            },
        }
    }

    fn hear_checks(&mut self, machine: &mut impl Machine) -> Progress {
        match machine.verdict() {
            Verdict::NotYet => Progress::Waits,
            Verdict::Right(warnings) => {
                self.applied.warnings = warnings;
                self.phase = Phase::Steps;
                Progress::More
            }
            Verdict::Wrong(why) => Progress::Failed(Box::new(ProblemDetails {
                rendered: Some(why.into()),
                ..ProblemDetails::configuration("a Click configuration is not right")
            })),
            Verdict::Failed(why) => Progress::Failed(Box::new(ProblemDetails::failed(why))),
        }
    }

    fn take_steps(&mut self, machine: &mut impl Machine, now: Time) -> Progress {
        let idle = self.is_empty() && self.applied.changes.is_empty();
        if !self.touched && !idle {
            self.touched = true;
            machine.want(&self.documents);
        }
        let is_awaited = !self.awaited.is_empty() || !self.updates.is_empty() || self.reloads > 0;
        let waits = self.steps.is_empty() && is_awaited;
        if waits && self.until <= now && self.failure.is_none() {
            self.failure = Some(self.late());
            self.awaited.clear();
            self.updates.clear();
            self.reloads = 0;
        }
        if let Some(why) = self.failure.take() {
            if !self.is_tolerant() {
                return Progress::Failed(Box::new(problem(why)));
            }
            machine.note(Note::Failed(&why.text));
            return Progress::More;
        }
        match self.steps.pop_front() {
            Some(step) => self.take(step, machine, now),
            None if waits => Progress::Waits,
            None => self.settle(machine, now),
        }
    }

    fn take(&mut self, step: Step, machine: &mut impl Machine, now: Time) -> Progress {
        if step.starts_a_process() && !machine.may_start() {
            self.steps.push_front(step);
            return Progress::Waits;
        }
        if step.needs().iter().any(|needed| self.doubts.contains(needed)) {
            self.doubts.extend(step.makes());
            return Progress::More;
        }
        match machine.take(&step, &self.steps, self.ticket) {
            Ok(Taken::Done) => {}
            Ok(Taken::Begun) => {
                if let Step::AddRouter(plan) | Step::UpdateRouter { to: plan, .. } = &step {
                    self.awaited.insert(plan.name.clone());
                }
            }
            Ok(Taken::Told { updates, begins }) => {
                let Step::UpdateRouter { to, .. } = &step else { return Progress::More };
                if updates > 0 {
                    *self.updates.entry(to.name.clone()).or_default() += updates;
                }
                if begins {
                    self.awaited.insert(to.name.clone());
                }
            }
            Ok(Taken::Reloading(slow_paths)) => self.reloads += slow_paths,
            Err(Stop::NotNow(_)) if now < self.until => {
                self.steps.push_front(step);
                return Progress::Waits;
            }
            Err(Stop::Failed(why) | Stop::NotNow(why)) => {
                self.failure = Some(why);
                self.doubts.extend(step.makes());
                return Progress::More;
            }
        }
        // Slow work may also continue after the last step.
        self.until = now + PATIENCE;
        // The step may show that a device has fewer abilities than the plan assumes.
        if matches!(step, Step::AdaptPort { .. }) && !self.desired.knows_ports_of(&machine.actual())
        {
            self.phase = Phase::Planning;
            return Progress::Again;
        }
        if step.is_long() {
            machine.discard(Box::new(step));
        }
        Progress::More
    }

    /// Another plan has arrived: its steps replace the remaining ones.
    pub(crate) fn replanned(&mut self, planned: Planned, machine: &mut impl Machine) {
        self.phase = Phase::Steps;
        let Planned { desired, steps, .. } = planned;
        if desired.routers == self.desired.routers {
            return machine.discard(Box::new((desired, steps)));
        }
        self.failure = desired.refusal();
        let former = (
            std::mem::replace(&mut self.steps, steps),
            std::mem::replace(&mut self.desired, desired),
        );
        machine.discard(Box::new(former));
    }

    /// No other plan could be computed.
    pub(crate) fn unplanned(&mut self, why: &str) {
        self.phase = Phase::Steps;
        self.failure = Some(why.to_owned().into());
    }

    /// All objects exist: the additional settings follow, and the state is stored.
    fn settle(&mut self, machine: &mut impl Machine, now: Time) -> Progress {
        match machine.settle() {
            Ok(()) => {}
            Err(Stop::NotNow(_)) if now < self.until => return Progress::Waits,
            Err(Stop::Failed(why) | Stop::NotNow(why)) if !self.is_tolerant() => {
                return Progress::Failed(Box::new(problem(why)));
            }
            Err(Stop::Failed(why) | Stop::NotNow(why)) => machine.note(Note::Failed(&why.text)),
        }
        self.applied.warnings.extend(machine.warnings());
        let Some((next, commit)) = self.next.take() else { return Progress::Done };
        self.applied.revision = next.revision;
        self.written = Some(next);
        self.phase = Phase::Committing;
        machine.commit(commit);
        Progress::More
    }

    fn late(&self) -> Failure {
        let names = self.awaited.iter().chain(self.updates.keys());
        let names: BTreeSet<&str> = names.map(|name| &**name).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let names =
            if names.is_empty() { "programs of slow paths".into() } else { names.join(", ") };
        format!("not ready within {} s: {names}", PATIENCE.as_secs()).into()
    }

    /// The time of the engine's next turn if no event happens.
    pub(crate) fn due(&self) -> Time {
        self.until
    }

    /// A router runs its configuration.
    pub(crate) fn ready(&mut self, router: &str) {
        self.awaited.remove(router);
    }

    /// A router does not start.
    pub(crate) fn failed(&mut self, router: &str, why: &str) {
        if self.awaited.remove(router) {
            self.failure = Some(of_router(router, why));
        }
    }

    /// A router has carried out an update, or has refused it.
    pub(crate) fn updated(&mut self, ticket: Ticket, router: &str, outcome: Result<(), &str>) {
        if ticket != self.ticket {
            return;
        }
        if let Some(left) = self.updates.get_mut(router) {
            *left -= 1;
            if *left == 0 {
                self.updates.remove(router);
            }
        }
        if let Err(why) = outcome {
            self.failure = Some(of_router(router, why));
        }
    }

    /// Programs of a router's slow path have reloaded their files, or a program has failed to do
    /// so.
    pub(crate) fn reloaded(&mut self, ticket: Ticket, router: &str, outcome: Result<(), &str>) {
        if ticket != self.ticket {
            return;
        }
        self.reloads = self.reloads.saturating_sub(1);
        if let Err(why) = outcome {
            self.failure = Some(of_router(router, why));
        }
    }

    /// A router accepts no updates any more: they are part of its next configuration.
    pub(crate) fn no_updates(&mut self, router: &str) {
        self.updates.remove(router);
    }

    /// The store has stored the state, or has failed to.
    pub(crate) fn committed(&mut self, outcome: Result<(), String>) {
        if self.phase == Phase::Committing {
            self.committed = Some(outcome);
        }
    }

    /// The state that has been stored.
    pub(crate) fn accepted(&mut self) -> Option<Accepted> {
        self.written.take()
    }

    /// Ends the job; its remaining memory is freed outside the loop.
    pub(crate) fn end(self, machine: &mut impl Machine) -> Ended {
        let Self { purpose, applied, touched, open, documents, desired, steps, next, .. } = self;
        machine.discard(Box::new((documents, desired, steps, next)));
        Ended { purpose, applied, touched, open }
    }
}

/// Ports that are open, with their devices.
fn open(actual: &Actual) -> impl Iterator<Item = PortId> {
    let fit = actual.ports.iter().filter(|port| !port.stale);
    fit.map(|port| PortId::new(&*port.document.name.value))
}

/// The router, if the step starts a configuration that no process has run yet.
fn tried(step: &Step) -> Option<Arc<europa_plan::RouterPlan>> {
    let plan = match step {
        Step::AddRouter(plan) => plan,
        Step::UpdateRouter { to, change: RouterChange::Swap, .. } => to,
        _ => return None,
    };
    plan.program().is_empty().then(|| plan.clone())
}

/// A router that does not start as desired.
fn of_router(name: &str, why: &str) -> Failure {
    // A router's error about its configuration already shows the place.
    let faults = match why.contains('\n') {
        true => Vec::new(),
        false => vec![Fault::new(Key::new("router", name), &[], why)],
    };
    Failure { text: format!("router {name}: {why}"), faults }
}

fn problem(why: Failure) -> ProblemDetails {
    ProblemDetails::failed(why.text).faults(why.faults)
}
