//! Files and sockets that routers are granted: the node opens them, as their processes may not.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};

use europa_api::{Fault, Key};
use europa_plan::RouterPlan;
use europa_resource::{Access, Resource};

use crate::NodeError;

/// Grants that outlive a router's processes: listening sockets, as two cannot have the same place.
#[derive(Default)]
pub(crate) struct Granted(RefCell<Vec<(Resource, OwnedFd)>>);

impl Granted {
    /// Whether this node has all sockets of a router that others find: only the process of an
    /// adopted router has its sockets, as the former node opened them.
    pub(crate) fn covers(&self, plan: &RouterPlan) -> bool {
        let kept = self.0.borrow();
        let mut found = plan.grants.iter().filter(|grant| grant.access() == Access::Listen);
        found.all(|grant| kept.iter().any(|(known, _)| known == grant))
    }

    /// Opens all grants of a router, in their order, for a process or a configuration that is
    /// about to begin.
    ///
    /// # Errors
    /// Which of them this machine refuses.
    pub(crate) fn open(&self, plan: &RouterPlan) -> Result<Vec<OwnedFd>, NodeError> {
        let mut kept = self.0.borrow_mut();
        kept.retain(|(resource, _)| plan.grants.contains(resource));
        let mut open = |resource: &Resource| {
            if resource.access() != Access::Listen {
                return resource.open_granted();
            }
            if !kept.iter().any(|(known, _)| known == resource) {
                kept.push((resource.clone(), resource.open_granted()?));
            }
            let (_, socket) = kept
                .iter()
                .find(|(known, _)| known == resource)
                .ok_or(std::io::ErrorKind::NotFound)?;
            socket.as_fd().try_clone_to_owned()
        };
        plan.grants
            .iter()
            .map(|resource| open(resource).map_err(|error| fault(plan, resource, &error)))
            .collect()
    }
}

/// Opens descriptors that ended with their node again, for an adopted router: its connector.
/// Returns names and descriptors.
///
/// # Errors
/// The grants that this machine refuses.
pub(crate) fn renewed(plan: &RouterPlan) -> Result<(Vec<String>, Vec<OwnedFd>), NodeError> {
    let ended =
        |resource: &&Resource| resource.access() == Access::Connect && resource.shares_memory();
    let open = |resource: &Resource| {
        let opened = resource.open_granted().map_err(|error| fault(plan, resource, &error))?;
        Ok((resource.to_string(), opened))
    };
    plan.grants.iter().filter(ended).map(open).collect()
}

/// Opens a substitute for each grant, to test a configuration.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn stand_ins(plan: &RouterPlan) -> Result<Vec<OwnedFd>, NodeError> {
    let all = plan.grants.iter();
    all.map(|resource| resource.stand_in().map_err(|error| fault(plan, resource, &error))).collect()
}

/// Removes the socket files of routers that have ended.
pub(crate) fn clear(grants: &[Resource]) {
    for resource in grants {
        if let Err(error) = resource.clear() {
            tracing::warn!("removing the socket of {resource}: {error}");
        }
    }
}

fn fault(plan: &RouterPlan, resource: &Resource, error: &std::io::Error) -> NodeError {
    let what = resource.what();
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or(&text);
    let path = ["grants", what.as_str()];
    Fault::new(Key::new("router", &*plan.name), &path, format!("{what}: {reason}")).into()
}
