//! Questions for a plan, and the answers. Both own or share all data that they need, so any thread
//! can compute an answer.

use std::collections::VecDeque;
use std::sync::Arc;

use europa_api::rest::{Applied, Change};
use europa_api::{Documents, Kept, Port};
use europa_plan::{
    Actual, Desired, Failure, Namespaces, PortFacts, PortId, Step, changes, diff, difference, list,
};

use crate::accepted::{Accepted, Commit};
use crate::machine::Ticket;
use crate::store::Stored;

/// A question for a plan.
pub struct Question {
    pub(crate) ticket: Ticket,
    pub(crate) namespaces: Namespaces,
    pub(crate) documents: Arc<Documents>,
    pub(crate) actual: Arc<Actual>,
    pub(crate) about: About,
}

/// The purpose of a plan.
pub(crate) enum About {
    /// A change of the accepted state.
    Change(Submitted),
    /// The remaining steps, unless everything that a plan depends on is as in this state.
    Rest(Option<Quiet>),
    /// The steps.
    Steps,
    /// The missing parts, given the ports that were open at the start.
    Left(Vec<PortId>),
}

/// Documents that were submitted.
#[derive(Clone)]
pub(crate) struct Submitted {
    /// The state that they change.
    pub(crate) accepted: Accepted,
    pub(crate) kept: Arc<Vec<Kept>>,
    pub(crate) at: String,
    pub(crate) dry_run: bool,
}

/// A state whose plan has no steps, and in which nothing is missing.
#[derive(Clone)]
pub(crate) struct Quiet {
    pub(crate) documents: Arc<Documents>,
    pub(crate) actual: Arc<Actual>,
}

/// The answer to a question.
pub struct Plan {
    pub(crate) ticket: Ticket,
    /// The state that the plan was computed for.
    pub(crate) actual: Arc<Actual>,
    pub(crate) found: Found,
    /// The first failure to examine a device.
    pub(crate) blind: Option<Failure>,
}

/// The result of a plan.
pub(crate) enum Found {
    Planned(Box<Planned>),
    /// There is nothing to do.
    Quiet,
    /// Missing parts.
    Left(Vec<String>),
    /// The plan could not be computed.
    Failed,
}

/// The steps to desired state, and their description for users.
pub(crate) struct Planned {
    pub(crate) desired: Desired,
    pub(crate) steps: VecDeque<Step>,
    pub(crate) applied: Applied,
    /// The accepted state after a change, and the change itself; `None` if the documents stay the
    /// same.
    pub(crate) next: Option<(Accepted, Commit)>,
}

impl Question {
    /// The question's number; see [`Plan::failed`].
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The documents that a plan is asked for.
    pub fn documents(&self) -> &Arc<Documents> {
        &self.documents
    }

    /// Computes the answer. `look` looks at a port's device.
    pub fn answer(self, mut look: impl FnMut(&Port) -> Result<PortFacts, Failure>) -> Plan {
        let mut blind = None;
        let mut look = |port: &Port| {
            let found = look(port);
            if let (Err(why), None) = (&found, &blind) {
                blind = Some(why.clone());
            }
            found
        };
        let Self { ticket, namespaces, documents, actual, about } = self;
        let found = match about {
            About::Rest(Some(quiet)) if quiet.still_holds(&documents, &actual, &mut look) => {
                Found::Quiet
            }
            about => {
                let desired = Desired::new(&namespaces, &documents, &actual, &mut look);
                let steps = diff(&desired, &actual);
                match about {
                    About::Change(submitted) => {
                        Found::Planned(Box::new(submitted.planned(desired, steps, &actual)))
                    }
                    About::Left(open) => Found::Left(left(&open, &desired, &steps, &actual)),
                    About::Rest(_) | About::Steps => Found::Planned(Box::new(Planned {
                        desired,
                        steps: steps.into(),
                        applied: Applied::default(),
                        next: None,
                    })),
                }
            }
        };
        Plan { ticket, actual, found, blind }
    }
}

impl Plan {
    /// The answer to a question whose computation failed.
    pub fn failed(ticket: Ticket) -> Self {
        Self { ticket, actual: Arc::default(), found: Found::Failed, blind: None }
    }
}

impl Quiet {
    /// Whether everything that a plan depends on is as it was when there was nothing to do.
    /// Computing a plan of many routers takes far longer than this check.
    fn still_holds(
        &self,
        documents: &Arc<Documents>,
        actual: &Actual,
        look: &mut impl FnMut(&Port) -> Result<PortFacts, Failure>,
    ) -> bool {
        let mut ports = self.actual.ports.iter();
        Arc::ptr_eq(&self.documents, documents)
            && self.actual.is_same(actual)
            && ports.all(|port| look(&port.document).is_ok_and(|facts| facts == port.facts))
    }
}

impl Submitted {
    /// The change, and its description for the sender of the documents.
    fn planned(self, desired: Desired, steps: Vec<Step>, actual: &Actual) -> Planned {
        let before: Vec<Kept> = self.accepted.stored.iter().map(Stored::kept).collect();
        let (mut all, unchanged): (Vec<Change>, u64) = difference(&before, &self.kept);
        let written = all.len();
        changes(&steps, actual, &mut all);
        // Documents of removed objects that are otherwise unchanged.
        let moved = all.len().saturating_sub(written) as u64;
        let applied = Applied {
            dry_run: self.dry_run,
            revision: self.accepted.revision,
            unchanged: unchanged.saturating_sub(moved),
            steps: list(&steps, actual),
            changes: all,
            ..Applied::default()
        };
        let next = (!self.dry_run)
            .then(|| self.accepted.next(desired.documents.clone(), &self.kept, &self.at));
        let next = next.filter(|(_, commit)| !commit.put.is_empty() || !commit.remove.is_empty());
        Planned { desired, steps: steps.into(), applied, next }
    }
}

/// The missing parts of desired state, given the ports that were `open` at the start.
fn left(open: &[PortId], desired: &Desired, steps: &[Step], actual: &Actual) -> Vec<String> {
    let mut left = list(steps, actual);
    // A port whose device is missing cannot be opened or changed.
    let lost = open.iter().filter(|port| desired.missing.contains_key(*port));
    left.extend(lost.map(|port| format!("open port {port}")));
    left
}
