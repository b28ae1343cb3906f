//! Steps from the actual to the desired state: their subjects, needs and inverses.

use std::sync::Arc;

use europa_api::{Filters, Host, Port, Router};

use crate::ids::{PortId, RouterId};
use crate::needs::Needs;
use crate::relays::RelayPlan;
use crate::router::{RouterChange, RouterPlan};
use crate::{hosts, slow_paths, wires};

/// One step. It contains the states before and after its change, so its inverse is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A router ends.
    RemoveRouter(Arc<RouterPlan>),
    /// A host's packets from this port enter the router directly again.
    RemoveRelay(RelayPlan),
    /// A device is Linux's again.
    ClosePort(Port),
    /// Hosts and interfaces that do not stay are removed.
    TrimHosts {
        /// Former hosts.
        from: Vec<Host>,
        /// Desired hosts.
        to: Vec<Host>,
    },
    /// Hosts and their interfaces begin, and change.
    MakeHosts {
        /// Hosts as they were before the step that trimmed them.
        from: Vec<Host>,
        /// Desired hosts.
        to: Vec<Host>,
    },
    /// Slow paths end, change and begin.
    ChangeSlowPaths {
        /// Documents of routers that have a slow path.
        from: Vec<Router>,
        /// Documents of routers that will have a slow path.
        to: Vec<Router>,
    },
    /// A device becomes a port.
    OpenPort(Port),
    /// The settings of a port change, except its device.
    ChangePort {
        /// The port's former document.
        from: Port,
        /// The port's new document.
        to: Port,
    },
    /// A port's device gets the abilities that interfaces need.
    AdaptPort {
        /// The port.
        port: PortId,
        /// Its abilities.
        from: Needs,
        /// The needed abilities.
        to: Needs,
    },
    /// A switch starts.
    StartSwitch,
    /// Other rules hold for routers' packets.
    ChangeFilters {
        /// Documents in force.
        from: Vec<Filters>,
        /// Desired documents.
        to: Vec<Filters>,
    },
    /// The effects of the link on a host's packets change.
    ImpairRelay {
        /// The present relay.
        from: RelayPlan,
        /// The desired relay.
        to: RelayPlan,
    },
    /// A router begins.
    AddRouter(Arc<RouterPlan>),
    /// A router changes.
    UpdateRouter {
        /// Its present plan.
        from: Arc<RouterPlan>,
        /// The desired plan.
        to: Arc<RouterPlan>,
        /// The kind of change.
        change: RouterChange,
    },
    /// A host's packets from this port now pass the queue of its link.
    MakeRelay(RelayPlan),
    /// Programs of slow paths start, and link states are followed.
    StartSlowPaths,
}

/// Objects that steps make, and other steps need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A router.
    Router(RouterId),
    /// A port.
    Port(PortId),
    /// All hosts.
    Hosts,
    /// All slow paths.
    SlowPaths,
}

impl Step {
    /// Whether the step starts a process, which costs CPU time.
    pub fn starts_a_process(&self) -> bool {
        matches!(self, Step::AddRouter(_))
    }

    /// Whether the step names so many objects that freeing its memory takes milliseconds.
    pub fn is_long(&self) -> bool {
        matches!(
            self,
            Step::ChangeFilters { .. }
                | Step::TrimHosts { .. }
                | Step::MakeHosts { .. }
                | Step::ChangeSlowPaths { .. }
        )
    }

    /// The objects in doubt when the step fails.
    pub fn makes(&self) -> Vec<Subject> {
        match self {
            Step::RemoveRouter(plan) | Step::AddRouter(plan) => {
                vec![Subject::Router(plan.name.clone())]
            }
            Step::UpdateRouter { to, .. } => vec![Subject::Router(to.name.clone())],
            Step::RemoveRelay(relay) | Step::MakeRelay(relay) => {
                vec![Subject::Port(relay.port.clone())]
            }
            Step::ClosePort(port) | Step::OpenPort(port) | Step::ChangePort { to: port, .. } => {
                vec![Subject::Port(PortId::new(&*port.name.value))]
            }
            Step::TrimHosts { .. } | Step::MakeHosts { .. } => vec![Subject::Hosts],
            Step::ChangeSlowPaths { .. } => vec![Subject::SlowPaths],
            Step::ImpairRelay { .. }
            | Step::AdaptPort { .. }
            | Step::StartSwitch
            | Step::ChangeFilters { .. }
            | Step::StartSlowPaths => Vec::new(),
        }
    }

    /// The objects whose state must be known before the step is taken.
    pub fn needs(&self) -> Vec<Subject> {
        let ports = |plan: &RouterPlan| plan.ports().cloned().map(Subject::Port).collect();
        match self {
            Step::AddRouter(plan) => {
                let mut all: Vec<Subject> = ports(plan);
                all.push(Subject::Router(plan.name.clone()));
                all
            }
            Step::OpenPort(port) => {
                let name = &*port.name.value;
                let made_by = match port.namespace {
                    Some(_) if slow_paths::is_hidden(name) => Some(Subject::SlowPaths),
                    Some(_) if wires::is_wire(name) => None,
                    Some(_) => Some(Subject::Hosts),
                    None => None,
                };
                self.makes().into_iter().chain(made_by).collect()
            }
            Step::TrimHosts { from, to } => {
                let mut all: Vec<Subject> =
                    hosts::cut_ports(from, to).into_iter().map(Subject::Port).collect();
                all.push(Subject::Hosts);
                all
            }
            Step::ChangeSlowPaths { from, .. } => {
                let hidden = from.iter().flat_map(|router| {
                    let name = router.full_name();
                    let all = router.interfaces.0.iter();
                    all.map(move |(interface, _)| slow_paths::port_name(&name, interface))
                });
                let hidden = hidden.map(|port| Subject::Port(PortId::new(port)));
                hidden.chain([Subject::SlowPaths]).collect()
            }
            Step::RemoveRouter(_) | Step::RemoveRelay(_) => Vec::new(),
            _ => self.makes(),
        }
    }

    /// The step that undoes this one; `None` if there is nothing to undo.
    pub fn inverse(&self) -> Option<Step> {
        Some(match self.clone() {
            Step::RemoveRouter(plan) => Step::AddRouter(plan),
            Step::AddRouter(plan) => Step::RemoveRouter(plan),
            Step::RemoveRelay(plan) => Step::MakeRelay(plan),
            Step::MakeRelay(plan) => Step::RemoveRelay(plan),
            Step::ClosePort(port) => Step::OpenPort(port),
            Step::OpenPort(port) => Step::ClosePort(port),
            Step::TrimHosts { from, to } => Step::MakeHosts { from: to, to: from },
            Step::MakeHosts { from, to } => Step::TrimHosts { from: to, to: from },
            Step::ChangeSlowPaths { from, to } => Step::ChangeSlowPaths { from: to, to: from },
            Step::ChangePort { from, to } => Step::ChangePort { from: to, to: from },
            Step::AdaptPort { port, from, to } => Step::AdaptPort { port, from: to, to: from },
            Step::ChangeFilters { from, to } => Step::ChangeFilters { from: to, to: from },
            Step::ImpairRelay { from, to } => Step::ImpairRelay { from: to, to: from },
            Step::UpdateRouter { from, to, .. } => {
                // Handlers get their former values back.
                let change = to.change(false, &from);
                Step::UpdateRouter { from: to, to: from, change }
            }
            // An idle switch costs nothing, and programs end with their slow paths.
            Step::StartSwitch | Step::StartSlowPaths => return None,
        })
    }
}
