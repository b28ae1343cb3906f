//! The surroundings of a router's state machine: routes, neighbours, admission.

use std::collections::BTreeMap;
use std::net::IpAddr;

use europa_admit::{
    Budget, Bytes, BytesPerSecond, Flow, FlowId, Machine, Resource as Wanted, Seconds, Service,
    Timing,
};
use europa_signal::wire::AbstractNode;
use europa_signal::{Adjacency, Admit, Demand, Holder, InterfaceId, Lack, Offer, Resource, Route};

use crate::convert;
use crate::orders::{InterfacePlan, RouterPlan};

/// The number of labels of a router: 16 to 1,048,575.
const LABELS: u64 = (1 << 20) - 16;
/// The assumed cost of a labelled packet until it has been measured on this machine.
const PACKET_COST: Seconds = Seconds(2e-7);
/// The longest wait of a packet behind packets of other flows: one poll and a full device.
const LONGEST_D: Seconds = Seconds(0.01);
/// Bytes before an IP packet: Ethernet header, VLAN tag, label.
const HEADER_BYTES: f64 = 22.0;

/// An interface: its capacity, and the flows that it carries.
struct Link {
    plan: InterfacePlan,
    budget: Budget,
    held: BTreeMap<Holder, FlowId>,
    next: u64,
}

/// Surroundings of one router.
pub(crate) struct Surroundings {
    plan: RouterPlan,
    links: Vec<Link>,
}

fn machine(plan: &InterfacePlan, slots: u32) -> Machine {
    Machine {
        rate: BytesPerSecond(plan.reservable),
        longest: Bytes(f64::from(plan.mtu) + HEADER_BYTES),
        class: None,
        slots: slots.into(),
        cores: 1.0,
        packet_cost: PACKET_COST,
        labels: LABELS,
        queue_nodes: LABELS,
        timing: Timing {
            look: Seconds(1e-4),
            kick: Seconds(2e-5),
            ahead: Bytes(plan.reservable * 2e-4),
        },
        longest_d: LONGEST_D,
    }
}

impl Surroundings {
    pub(crate) fn new(plan: RouterPlan) -> Self {
        let link = |interface: &InterfacePlan| Link {
            plan: interface.clone(),
            budget: Budget::new(machine(interface, plan.slots)),
            held: BTreeMap::new(),
            next: 1,
        };
        Self { links: plan.interfaces.iter().map(link).collect(), plan }
    }

    /// Takes other routes.
    pub(crate) fn set_routes(&mut self, plan: &RouterPlan) {
        self.plan.routes.clone_from(&plan.routes);
    }

    /// The name of the interface at this index.
    pub(crate) fn name(&self, interface: usize) -> Option<&str> {
        self.links.get(interface).map(|link| link.plan.name.as_str())
    }

    /// Interfaces: name, bandwidth for reservations and the unreserved part, in bytes a second.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&str, f64, f64)> {
        self.links
            .iter()
            .map(|link| (link.plan.name.as_str(), link.plan.reservable, link.budget.left().rate.0))
    }

    fn link(&self, interface: InterfaceId) -> Option<&Link> {
        self.links.get(interface.0.checked_sub(1)? as usize)
    }

    /// The neighbour with this address, if an interface's subnet contains the address and it is not
    /// the router's own.
    fn neighbour(&self, address: IpAddr) -> Option<Adjacency> {
        if self.plan.addresses.contains(&address) {
            return None;
        }
        let has = |link: &Link| link.plan.addresses.iter().any(|net| net.contains(&address));
        let place = self.links.iter().position(has)?;
        Some(Adjacency { interface: convert::interface(place as u32), address })
    }
}

/// A demand in the form that admission needs; `None` if nothing is reserved.
fn flow(demand: &Demand) -> Option<Flow> {
    if demand.reserved() <= 0.0 {
        return None;
    }
    let largest = f64::from(demand.largest);
    let service = match demand.guaranteed {
        Some(guaranteed) => Service::Guaranteed { rate: BytesPerSecond(guaranteed.rate) },
        None => Service::ControlledLoad,
    };
    let sizes = (Bytes(f64::from(demand.smallest.max(1))), Bytes(largest));
    let depth = Bytes(demand.depth.max(largest));
    // The numbers of a demand have been checked, so this cannot fail.
    Flow::new(BytesPerSecond(demand.rate), depth, BytesPerSecond(demand.peak), sizes, service).ok()
}

fn lacking(resource: Wanted) -> Resource {
    match resource {
        Wanted::Mtu => Resource::Mtu,
        Wanted::Rate => Resource::Rate,
        Wanted::Buffer => Resource::Buffer,
        Wanted::Cpu => Resource::Cpu,
        Wanted::Labels => Resource::Labels,
        Wanted::QueueNodes => Resource::QueueNodes,
        Wanted::Delay => Resource::Delay,
    }
}

impl Admit for Surroundings {
    fn exchange(
        &mut self,
        interface: InterfaceId,
        holder: &Holder,
        _: Option<&Demand>,
        new: Option<&Demand>,
    ) -> Result<(), Lack> {
        let place = interface.0.checked_sub(1).map(|place| place as usize);
        let Some(link) = place.and_then(|place| self.links.get_mut(place)) else {
            return Err(Lack { resource: Resource::Rate, left: 0.0 });
        };
        let known = link.held.get(holder).copied();
        let Some(flow) = new.and_then(flow) else {
            if let Some(id) = known {
                link.budget.release(id);
                link.held.remove(holder);
            }
            return Ok(());
        };
        let id = known.unwrap_or(FlowId(link.next));
        match link.budget.admit(id, flow) {
            Ok(_) => {
                if known.is_none() {
                    link.next += 1;
                    link.held.insert(*holder, id);
                }
                Ok(())
            }
            Err(lack) => Err(Lack { resource: lacking(lack.resource), left: lack.left }),
        }
    }

    fn offer(&self, interface: InterfaceId) -> Offer {
        let bandwidth = self.link(interface).map_or(0.0, |link| link.plan.reservable);
        Offer { bandwidth, ..Offer::default() }
    }
}

impl Route for Surroundings {
    fn next_hop(&self, to: IpAddr) -> Option<Adjacency> {
        if let Some(neighbour) = self.neighbour(to) {
            return Some(neighbour);
        }
        let routes = self.plan.routes.iter().filter(|route| route.to.contains(&to));
        let best = routes.max_by_key(|route| route.to.prefix_len())?;
        self.neighbour(best.via?)
    }

    fn neighbour_in(&self, node: &AbstractNode) -> Option<Adjacency> {
        match node {
            AbstractNode::Prefix(address, 32 | 128) => self.neighbour(*address),
            _ => None,
        }
    }

    fn node_of(&self, _: Adjacency) -> Option<IpAddr> {
        None
    }
}
