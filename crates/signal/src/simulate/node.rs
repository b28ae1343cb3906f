//! A router of the simulation: signaller, admission, data plane, clock, and the LSPs of its head.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::demand::Demand;
use crate::id::{Adjacency, InterfaceId, LspKey, Time};
use crate::input::Tunnel;
use crate::output::Entry;
use crate::signaller::Signaller;
use crate::wire::AbstractNode;
use crate::world::{Admit, Holder, Lack, Offer, Resource, Route};

use super::topology::{Topology, node_of, router};

/// Bytes a second of every link.
pub(crate) const CAPACITY: f64 = 1000.0;

/// Admission and routes.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) node: usize,
    pub(crate) topology: Rc<Topology>,
    pub(crate) held: BTreeMap<InterfaceId, f64>,
}

impl Admit for Surroundings {
    fn exchange(
        &mut self,
        interface: InterfaceId,
        _: &Holder,
        old: Option<&Demand>,
        new: Option<&Demand>,
    ) -> Result<(), Lack> {
        let held = self.held.entry(interface).or_default();
        let rate = |demand: Option<&Demand>| demand.map_or(0.0, Demand::reserved);
        let after = *held - rate(old) + rate(new);
        if after > CAPACITY && rate(new) > rate(old) {
            return Err(Lack { resource: Resource::Rate, left: CAPACITY - *held });
        }
        *held = after;
        Ok(())
    }

    fn offer(&self, _: InterfaceId) -> Offer {
        Offer { bandwidth: CAPACITY, ..Offer::default() }
    }
}

impl Route for Surroundings {
    fn next_hop(&self, to: IpAddr) -> Option<Adjacency> {
        self.topology.next_hop(self.node, node_of(to)?)
    }

    fn neighbour_in(&self, node: &AbstractNode) -> Option<Adjacency> {
        match node {
            AbstractNode::Prefix(address, _) => self.topology.neighbour(self.node, *address),
            _ => None,
        }
    }

    fn node_of(&self, neighbour: Adjacency) -> Option<IpAddr> {
        self.topology.end(self.node, neighbour.interface).map(|end| router(end.far_node))
    }
}

/// A head's view of a requested LSP.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) tunnel: Tunnel,
    pub(crate) is_up: bool,
    /// Time of the last error about the LSP, by the true clock.
    pub(crate) failed: Option<u64>,
}

/// A router.
#[derive(Debug)]
pub(crate) struct Node {
    /// `None` while it is down.
    pub(crate) signaller: Option<Signaller>,
    pub(crate) surroundings: Surroundings,
    pub(crate) table: BTreeMap<LspKey, Entry>,
    pub(crate) wanted: BTreeMap<LspKey, Wanted>,
    pub(crate) incarnation: u64,
    pub(crate) sequence: u64,
    /// Relative drift of its clock.
    pub(crate) drift: f64,
    /// Number of the planned tick.
    pub(crate) tick: u64,
    /// Time when the data plane has carried out its last order.
    pub(crate) programmed_ns: u64,
}

impl Node {
    /// The time of its clock.
    pub(crate) fn clock(&self, now_ns: u64) -> Time {
        Time::after(Duration::from_nanos((now_ns as f64 * self.drift) as u64 + 1_000_000_000))
    }

    /// When its clock will show this.
    pub(crate) fn when(&self, clock: Time) -> u64 {
        let local = clock.since_origin().as_nanos() as f64 - 1e9;
        (local / self.drift).max(0.0) as u64 + 1
    }
}
