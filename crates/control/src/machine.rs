//! All effects that the engine has on the machine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use europa_api::Documents;
use europa_plan::{Actual, Desired, Failure, Namespaces, RouterPlan, Step};

use crate::accepted::Commit;
use crate::question::Question;

/// A monotonic clock's reading, since a moment of the machine's choice.
pub type Time = Duration;

/// A machine that routers run on.
pub trait Machine {
    /// Network namespaces of this instance.
    fn namespaces(&self) -> Namespaces;

    /// Compares the objects with their recorded state: after this, [`Machine::actual`] is correct.
    fn probe(&mut self);

    /// The actual state, as far as it is known.
    fn actual(&self) -> Actual;

    /// Computes a plan by [`Question::answer`], and calls [`crate::Engine::planned`] with it.
    /// Because that takes up to a second, it must run in another thread than the engine.
    fn plan(&mut self, question: Question);

    /// Frees memory. For much memory this takes milliseconds.
    fn discard(&mut self, what: Box<dyn Send>);

    /// Checks that the machine has room for the documents' reservations.
    ///
    /// # Errors
    /// The first resource that is missing, and how much of it is left.
    fn admit(&mut self, desired: &Desired) -> Result<(), Failure>;

    /// Starts to test the configurations of these routers in a sandbox; [`Machine::verdict`]
    /// returns the result.
    ///
    /// # Errors
    /// They cannot be tested.
    fn check(&mut self, plans: &[Arc<RouterPlan>]) -> Result<(), Failure>;

    /// The results of the configurations that are tried.
    fn verdict(&mut self) -> Verdict;

    /// Whether another process may be started now.
    fn may_start(&self) -> bool;

    /// From now on these documents apply to all later starts.
    fn want(&mut self, documents: &Arc<Documents>);

    /// Takes a step. `ahead` contains the steps that follow; `ticket` identifies the answers to
    /// updates.
    ///
    /// # Errors
    /// The reason why a step failed; [`Machine::actual`] returns the state after it.
    fn take(&mut self, step: &Step, ahead: &VecDeque<Step>, ticket: Ticket) -> Result<Taken, Stop>;

    /// Applies the settings other than ports and routers: queues, meters, control groups.
    ///
    /// # Errors
    /// The parts that are impossible, or that are still to be applied.
    fn settle(&mut self) -> Result<(), Stop>;

    /// Reports on the running state.
    fn warnings(&self) -> Vec<String>;

    /// Starts to store a change of desired state, and calls [`crate::Engine::committed`]
    /// afterwards.
    fn commit(&mut self, commit: Commit);

    /// Reports an event.
    fn note(&mut self, note: Note<'_>);
}

/// The id of one change's updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The step is complete.
    Done,
    /// A router begins to start; [`crate::Engine::ready`] or [`crate::Engine::failed`] follows.
    Begun,
    /// A router has got updates.
    Told {
        /// Number of updates; [`crate::Engine::updated`] follows for each.
        updates: usize,
        /// The router is not ready yet: [`crate::Engine::ready`] or [`crate::Engine::failed`]
        /// follows, too.
        begins: bool,
    },
    /// Programs of this many slow paths reload their files; [`crate::Engine::reloaded`] follows for
    /// each.
    Reloading(usize),
}

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The step is impossible.
    Failed(Failure),
    /// The step can be tried again: its requirements will soon be met.
    NotNow(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// The results for configurations that are being tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The test still runs.
    NotYet,
    /// All are right; the warnings.
    Right(Vec<String>),
    /// A configuration is wrong: file, line and underlined text.
    Wrong(String),
    /// The attempt failed.
    Failed(String),
}

/// An event to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// A port's device is missing.
    Missing(&'a str, &'a str),
    /// A change was carried out: its differences.
    Applied(&'a str),
    /// A step of a change failed.
    Failed(&'a str),
    /// The machine is in its former state again, except these parts.
    TakenBack(&'a [String]),
    /// The stored state runs again, as far as possible.
    Restored,
}
