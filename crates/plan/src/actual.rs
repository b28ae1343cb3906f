//! The actual state, in the terms of the desired state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use europa_api::{Filters, Host, Port, Router};

use crate::facts::PortFacts;
use crate::ids::{RouterId, SliceId};
use crate::needs::Needs;
use crate::relays::RelayPlan;
use crate::router::RouterPlan;
use crate::slow_path_change::Tools;

/// A port that is open.
#[derive(Clone, Debug, PartialEq)]
pub struct ActualPort {
    /// The document from which the port was made.
    pub document: Port,
    /// The facts about its device.
    pub facts: PortFacts,
    /// The present abilities of the port's device.
    pub needs: Needs,
    /// Whether the port's device was removed, or another device now has its name.
    pub stale: bool,
}

/// An existing router, whether or not its process runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ActualRouter {
    /// The document from which the port was made.
    pub plan: Arc<RouterPlan>,
    /// Whether its configuration is unknown, because an update was refused halfway.
    pub astray: bool,
    /// Whether its removal failed halfway: it does not run, and its remains must be removed.
    pub half: bool,
}

/// All objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actual {
    /// Open ports.
    pub ports: Vec<ActualPort>,
    /// Hosts, as far as they are made.
    pub hosts: Arc<Vec<Host>>,
    /// Documents from which slow paths were made, by router.
    pub slow_paths: BTreeMap<RouterId, Router>,
    /// Slow paths whose programs have not been started, or have not finished a change.
    pub idle: BTreeSet<RouterId>,
    /// Programs of this machine that reload those of slow paths.
    pub tools: Tools,
    /// Relays.
    pub relays: Vec<RelayPlan>,
    /// Routers.
    pub routers: Vec<ActualRouter>,
    /// Documents whose rules are in force.
    pub filters: Arc<Vec<Filters>>,
    /// Slices whose numbered rules are in force, by name.
    pub numbered: BTreeSet<SliceId>,
    /// Slices whose numbered rules are no longer in force but still stored, because the slice is
    /// being removed.
    pub parked: BTreeSet<SliceId>,
    /// Whether a switch runs, or is about to be restarted.
    pub switch: bool,
}

/// Whether two values are identical or equal.
fn is_shared<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl ActualPort {
    /// Whether the document names the port's device, and that is still the same device.
    pub fn is(&self, document: &Port) -> bool {
        !self.stale && same_device(&self.document, document)
    }

    /// Whether the port's device meets the needs.
    pub fn can(&self, needs: Needs) -> bool {
        // If a match has switched off a VLAN offload, it stays off.
        (self.needs.vlan || !needs.vlan) && self.needs.promiscuous == needs.promiscuous
    }
}

/// Whether two documents describe the same port with the same device.
pub fn same_device(one: &Port, other: &Port) -> bool {
    one.name == other.name
        && one.device == other.device
        && one.namespace == other.namespace
        && one.receive == other.receive
}

impl Actual {
    /// Whether two states are the same. Costs little if they share their large parts.
    pub fn is_same(&self, other: &Actual) -> bool {
        let Actual {
            ports,
            hosts,
            slow_paths,
            idle,
            tools,
            relays,
            routers,
            filters,
            numbered,
            parked,
            switch,
        } = self;
        let is_same_router = |(one, other): (&ActualRouter, &ActualRouter)| {
            let ActualRouter { plan, astray, half } = one;
            (astray, half) == (&other.astray, &other.half) && is_shared(plan, &other.plan)
        };
        routers.len() == other.routers.len()
            && routers.iter().zip(&other.routers).all(is_same_router)
            && is_shared(hosts, &other.hosts)
            && is_shared(filters, &other.filters)
            && (ports, slow_paths, idle) == (&other.ports, &other.slow_paths, &other.idle)
            && (tools, relays, switch) == (&other.tools, &other.relays, &other.switch)
            && (numbered, parked) == (&other.numbered, &other.parked)
    }

    /// The open port of a document.
    pub fn port(&self, document: &Port) -> Option<&ActualPort> {
        self.ports.iter().find(|port| port.is(document))
    }
}
