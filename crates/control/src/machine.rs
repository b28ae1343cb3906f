//! Everything that the engine has done to the world.

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

    /// Compares the objects with their former state: [`Machine::actual`] is true then.
    fn probe(&mut self);

    /// The actual state, as far as it is known.
    fn actual(&self) -> Actual;

    /// Has a plan computed by [`Question::answer`], and calls [`crate::Engine::planned`] with it. That
    /// takes up to a second: not in the thread that others wait for.
    fn plan(&mut self, question: Question);

    /// Frees memory, which takes milliseconds if it is much.
    fn discard(&mut self, what: Box<dyn Send>);

    /// Whether the machine has room for the documents' reservations.
    ///
    /// # Errors
    /// The first resource that is lacking, and how much is left.
    fn admit(&mut self, desired: &Desired) -> Result<(), Failure>;

    /// Has the configurations of these routers tried in a sandbox; [`Machine::verdict`] tells.
    ///
    /// # Errors
    /// They cannot be tried.
    fn check(&mut self, plans: &[Arc<RouterPlan>]) -> Result<(), Failure>;

    /// The results of the configurations that are tried.
    fn verdict(&mut self) -> Verdict;

    /// Whether a further process may be started now.
    fn may_start(&self) -> bool;

    /// From now on these documents hold for all later starts.
    fn want(&mut self, documents: &Arc<Documents>);

    /// Takes a step. `ahead` are those that follow; `ticket` goes with the answers to updates.
    ///
    /// # Errors
    /// The reason why a step failed; [`Machine::actual`] has the state after it.
    fn take(&mut self, step: &Step, ahead: &VecDeque<Step>, ticket: Ticket) -> Result<Taken, Stop>;

    /// Has all that stands beside ports and routers (queues, meters, control groups) be as wanted.
    ///
    /// # Errors
    /// The parts that are impossible.
    fn settle(&mut self) -> Result<(), Failure>;

    /// Reports on the running state.
    fn warnings(&self) -> Vec<String>;

    /// Has a change of desired state written down, and calls [`crate::Engine::committed`] when it
    /// is.
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
    /// It is done.
    Done,
    /// A router begins; [`crate::Engine::ready`] or [`crate::Engine::failed`] follows.
    Begun,
    /// A router has been told changes.
    Told {
        /// How many; [`crate::Engine::updated`] follows for each.
        updates: usize,
        /// It is not ready yet: [`crate::Engine::ready`] or [`crate::Engine::failed`] follows, too.
        begins: bool,
    },
    /// Programs of this many slow paths read their files again; [`crate::Engine::reloaded`]
    /// follows for each.
    Reloading(usize),
}

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It cannot be taken.
    Failed(Failure),
    /// It can be tried again: its needs are about to come back.
    NotNow(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// The answers about configurations that are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are still tried.
    NotYet,
    /// All are right; the warnings.
    Right(Vec<String>),
    /// One is wrong: file, line and the text underlined.
    Wrong(String),
    /// The attempt failed.
    Failed(String),
}

/// Something that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// A port's device is not there.
    Missing(&'a str, &'a str),
    /// A change was carried out: its differences.
    Applied(&'a str),
    /// A step of a change failed.
    Failed(&'a str),
    /// The state of before is back, except these parts.
    TakenBack(&'a [String]),
    /// The stored state runs again, as far as possible.
    Restored,
}
