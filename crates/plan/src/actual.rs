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
    /// The document that it was made from.
    pub document: Port,
    /// The facts about its device.
    pub facts: PortFacts,
    /// The present abilities of its device.
    pub needs: Needs,
    /// Its device was removed, or another one has its name.
    pub stale: bool,
}

/// An existing router, whether or not its process runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ActualRouter {
    /// The document that it was made from.
    pub plan: Arc<RouterPlan>,
    /// Whether its configuration is unknown: an update was refused half-way.
    pub astray: bool,
    /// Its removal failed half-way: it does not run, and its remains must be removed.
    pub half: bool,
}

/// All objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actual {
    /// Open ports.
    pub ports: Vec<ActualPort>,
    /// Hosts, as far as they are made.
    pub hosts: Arc<Vec<Host>>,
    /// Documents that slow paths were made from, by router.
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
    /// Slices that have numbered rules of their own in force, by name.
    pub numbered: BTreeSet<SliceId>,
    /// Slices with numbered rules that were taken out of force but are still stored, because their
    /// slice is being removed.
    pub parked: BTreeSet<SliceId>,
    /// A switch runs, or is about to be started again.
    pub switch: bool,
}

/// Whether two values are identical or equal.
fn is_shared<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl ActualPort {
    /// Whether the document names its device, and that is still the same one.
    pub fn is(&self, document: &Port) -> bool {
        !self.stale && same_device(&self.document, document)
    }

    /// Whether its device meets the needs.
    pub fn can(&self, needs: Needs) -> bool {
        // A VLAN offload that a match has switched off stays off.
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
