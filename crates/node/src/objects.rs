//! The objects that the switch serves, and the orders about them.
//!
//! `correct`: an adopted switch serves the objects that are wanted.

mod correct;

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use europa_plan::{FarEnd, InterfacePlan, To};
use europa_pool::Geometry;
use europa_substrate::{PoolHandle, PortAttachment, Substrate};
use europa_switch::orders::{FilteredBy, Order, PoolOf, Target, Way, Ways};

use crate::NodeError;
use crate::filters::{Filtering, WAYS_AT_ONCE, WayOrder, WayTo};
use crate::link_tunnels::{Ends, LinkTunnels};
use crate::ports::{Port, Ports};
use crate::relays::{Relay, Relays};
use crate::routers::Router;
use crate::switch::{Switch, unless_gone};

/// The objects, as they are: nothing here changes them.
#[derive(Clone, Copy)]
pub(crate) struct Objects<'a> {
    pub(crate) substrate: Option<&'a Substrate>,
    pub(crate) ports: &'a Ports,
    pub(crate) routers: &'a [Router],
    pub(crate) relays: &'a Relays,
    pub(crate) tunnels: &'a LinkTunnels,
    pub(crate) filters: &'a Filtering,
}

impl Objects<'_> {
    /// The attachment of a port, if it is there.
    fn attachment(&self, port: &str) -> Option<&PortAttachment> {
        self.ports.iter().find(|other| other.name == *port)?.attachment.as_ref()
    }

    /// Gives a port that was opened again to the interfaces that stayed without it.
    pub(crate) fn connect(
        &self,
        mut switch: Option<&mut Switch>,
        port: &str,
    ) -> Result<(), NodeError> {
        let Some(attachment) = self.attachment(port) else { return Ok(()) };
        let mut connected = Ok(());
        for (router, interface, id) in self.on_port(port) {
            let done = self.substrate.ok_or_else(not_up);
            let done = done.and_then(|s| Ok(s.connect(id, &interface.spec, attachment)?));
            connected = connected.and(done.and_then(|()| match &mut switch {
                Some(switch) => unless_gone(self.tell_interface(switch, router, id)),
                None => Ok(()),
            }));
        }
        connected
    }

    /// Takes a port that goes from the interfaces that stay. Packets of their routers wait.
    pub(crate) fn disconnect(
        &self,
        mut switch: Option<&mut Switch>,
        port: &str,
    ) -> Result<(), NodeError> {
        let Some(attachment) = self.attachment(port) else { return Ok(()) };
        let mut disconnected = Ok(());
        for (_, interface, id) in self.on_port(port) {
            if let Some(switch) = &mut switch {
                // A switch that has just ended never learns of it.
                let _ = switch.order(&Order::RemoveInterface { interface: id }, &[]);
            }
            let done = self.substrate.ok_or_else(not_up);
            let done = done.and_then(|s| Ok(s.disconnect(id, &interface.spec, attachment)?));
            disconnected = disconnected.and(done);
        }
        disconnected
    }

    /// Routers' interfaces on a port, with their numbers.
    fn on_port(&self, port: &str) -> impl Iterator<Item = (&Router, &InterfacePlan, u32)> {
        let all = self.routers.iter().flat_map(|router| {
            let ids = router.plan.interfaces.iter().zip(&router.interfaces);
            ids.map(move |(interface, id)| (router, interface, *id))
        });
        all.filter(move |(_, interface, _)| interface.to.is_port(port))
    }

    /// All links to other machines: each far end, and the interfaces of the near one.
    pub(crate) fn far_ends(&self) -> Vec<(FarEnd, Ends)> {
        let of_routers = self.routers.iter().flat_map(|router| {
            let all = router.plan.interfaces.iter().zip(&router.interfaces);
            all.filter_map(|(interface, id)| {
                let most_frame_bytes = interface.spec.max_frame;
                let ends = Ends { from: *id, to: *id, most_frame_bytes };
                Some((interface.to.far()?.clone(), ends))
            })
        });
        let of_hosts = self.relays.iter().filter_map(Relay::far);
        of_routers.chain(of_hosts).collect()
    }

    pub(crate) fn tell_port(&self, switch: &mut Switch, port: &Port) -> Result<(), NodeError> {
        let ways = port.ways();
        let mut descriptors: Vec<_> = port.sockets().map(AsFd::as_fd).into();
        if ways == Ways::Ask {
            descriptors.push(self.substrate.ok_or_else(not_up)?.drained_program()?.as_fd());
        }
        let order = Order::AddPort {
            port: port.id,
            device: port.device.index,
            rate_bits: port.rate_bits,
            live: port.live,
            ways,
            segments: port.segments,
        };
        switch.order(&order, &descriptors).map(drop)
    }

    /// Interfaces of other routers on links to router `name`.
    fn peers(&self, name: &str) -> Vec<(&Router, u32)> {
        let linked = |to: &To| matches!(to, To::Link(end) if end.router == *name);
        let others = self.routers.iter().filter(|router| router.plan.name != name);
        others
            .flat_map(|router| {
                let ids = router.plan.interfaces.iter().zip(&router.interfaces);
                ids.map(move |(interface, id)| (router, &interface.to, *id))
            })
            .filter(|(_, to, _)| linked(to))
            .map(|(router, _, id)| (router, id))
            .collect()
    }

    /// A router has come: links to it lead somewhere.
    pub(crate) fn tell_peers(&self, switch: &mut Switch, name: &str) -> Result<(), NodeError> {
        for (router, id) in self.peers(name) {
            // It may be there, leading to the former router.
            switch.order(&Order::RemoveInterface { interface: id }, &[])?;
            self.tell_interface(switch, router, id)?;
        }
        Ok(())
    }

    /// Tells the switch that a router is removed: links to it lead nowhere, and its numbers may
    /// soon be another router's. A switch that has just ended learns of it when it starts.
    pub(crate) fn tell_of_loss(&self, switch: &mut Switch, gone: &Router) {
        for (_, id) in self.peers(&gone.plan.name) {
            let _ = switch.order(&Order::RemoveInterface { interface: id }, &[]);
        }
    }

    /// The interface that sends by a port of a link, and receives from the link.
    pub(crate) fn behind(&self, port: &str) -> Option<u32> {
        self.routers.iter().find_map(|router| {
            let mut all = router.plan.interfaces.iter().zip(&router.interfaces);
            let found = all.find(|(interface, _)| interface.to.is_port(port));
            found.map(|(_, id)| *id)
        })
    }

    pub(crate) fn tell_pool(&self, switch: &mut Switch, router: &Router) -> Result<(), NodeError> {
        router.pool.as_ref().map_or(Ok(()), |pool| tell_pool_of(switch, router, pool))
    }

    pub(crate) fn tell_interfaces(
        &self,
        switch: &mut Switch,
        router: &Router,
    ) -> Result<(), NodeError> {
        router.interfaces.iter().try_for_each(|id| self.tell_interface(switch, router, *id))
    }

    pub(crate) fn tell_interface(
        &self,
        switch: &mut Switch,
        router: &Router,
        id: u32,
    ) -> Result<(), NodeError> {
        match self.tell_interface_alone(switch, router, id)? {
            Some(interface) => self.tell_ways_to(switch, router, interface),
            None => Ok(()),
        }
    }

    /// The same without the ways that lead to the interface. Returns it, if it leads somewhere.
    pub(crate) fn tell_interface_alone<'r>(
        &self,
        switch: &mut Switch,
        router: &'r Router,
        id: u32,
    ) -> Result<Option<&'r InterfacePlan>, NodeError> {
        let Some(pool) = &router.pool else { return Ok(None) };
        let mut all = router.plan.interfaces.iter().zip(&router.interfaces);
        let Some((interface, _)) = all.find(|(_, other)| **other == id) else { return Ok(None) };
        // The other end of the link may come later: see `tell_peers`.
        let Some(to) = self.leads_to(&interface.to) else { return Ok(None) };
        if let To::Far(end) = &interface.to {
            let ends = Ends { from: id, to: id, most_frame_bytes: interface.spec.max_frame };
            if !self.tunnels.is_told(end, ends) {
                self.tunnels.tell(switch, end, ends)?;
            }
        }
        let filtered_by = self.filtered_by(router, interface);
        switch.order(&add_interface(id, pool.id, to, interface, filtered_by), &[])?;
        Ok(Some(interface))
    }

    /// Where an interface's frames go, as far as it is there.
    pub(crate) fn leads_to(&self, to: &To) -> Option<Target> {
        match to {
            To::Port(name) => {
                self.ports.iter().find(|p| p.name == **name).map(|p| Target::Port(p.id))
            }
            To::Link(end) => self
                .routers
                .iter()
                .find(|other| other.plan.name == end.router)
                .and_then(|other| other.number_of(&end.name))
                .map(Target::Link),
            To::Far(_) => Some(Target::Tunnel),
            To::Nowhere => None,
        }
    }

    /// Tells a switch of a relay, if its other end is there.
    pub(crate) fn tell_relay(&self, switch: &mut Switch, relay: &Relay) -> Result<(), NodeError> {
        match (self.relay_leads_to(relay), relay.far()) {
            (Some(to), None) => relay.tell(switch, to),
            (Some(to), Some((end, ends))) => {
                relay.tell(switch, to)?;
                let port = self.ports.iter().find(|port| port.name == relay.plan.port);
                port.map_or(Ok(()), |port| relay.tell_back(switch, port.id))?;
                self.tunnels.tell(switch, &end, ends)
            }
            (None, _) => Ok(()),
        }
    }

    /// Where a relay's frames go.
    pub(crate) fn relay_leads_to(&self, relay: &Relay) -> Option<Target> {
        match &relay.plan.far {
            Some(_) => Some(Target::Tunnel),
            None => self.behind(&relay.plan.port).map(Target::Link),
        }
    }

    /// The slice whose rules hold for an interface's packets.
    fn filtered_by(&self, router: &Router, interface: &InterfacePlan) -> Option<FilteredBy> {
        let name = &router.plan.name;
        let (slice, number) = self.filters.of(name.slice(), name.name(), &interface.name)?;
        let linux = router.number_of(&format!("{}@host", interface.name));
        Some(FilteredBy { slice, interface: number, linux })
    }

    /// Sends the slice whose rules hold for the interfaces' packets, of a slice or of all.
    pub(crate) fn tell_filtered(
        &self,
        switch: &mut Switch,
        slice: Option<&str>,
    ) -> Result<(), NodeError> {
        let routers = self.routers.iter().filter(|router| {
            router.pool.is_some() && slice.is_none_or(|slice| router.plan.name.slice() == slice)
        });
        let orders = routers.flat_map(|router| {
            let interfaces = router.plan.interfaces.iter().zip(&router.interfaces);
            // One without a target yet is sent with its other settings.
            let led = interfaces.filter(|(interface, _)| self.leads_to(&interface.to).is_some());
            led.map(|(interface, id)| {
                let filtered_by = self.filtered_by(router, interface);
                Order::Filter { interface: *id, filtered_by }
            })
        });
        switch.order_all(orders)
    }

    /// Sends the ways that lead to a new interface.
    pub(crate) fn tell_ways_to(
        &self,
        switch: &mut Switch,
        router: &Router,
        interface: &InterfacePlan,
    ) -> Result<(), NodeError> {
        let ways = self.filters.ways_to(&router.plan.name, &interface.name);
        if ways.len() > WAYS_AT_ONCE {
            self.filters.tell_ways_to(&router.plan.name, &interface.name);
            return Ok(());
        }
        if ways.is_empty() {
            return Ok(());
        }
        switch.order(&self.ways(ways), &[]).map(drop)
    }

    /// The order that says where ways lead.
    pub(crate) fn ways(&self, ways: &[WayOrder]) -> Order {
        let named: HashSet<&str> = ways.iter().map(|(_, to)| to.router.as_str()).collect();
        let routers = self.routers.iter().filter(|router| named.contains(&*router.plan.name));
        let routers: HashMap<&str, &Router> =
            routers.map(|router| (&*router.plan.name, router)).collect();
        let leads = |to: &WayTo| {
            let router = routers.get(to.router.as_str())?;
            let interface = router.plan.interfaces.iter().find(|one| one.name == to.interface)?;
            let interface_number = router.number_of(&to.interface)?;
            // On a port, an interface sends from its own Ethernet address only.
            let own_source = !to.mirror || matches!(interface.to, To::Port(_));
            Some(Way { interface: interface_number, destination: to.destination, own_source })
        };
        Order::Ways { ways: ways.iter().map(|(number, to)| (*number, leads(to))).collect() }
    }
}

/// Tells the switch of a pool that is a router's, or will be.
pub(crate) fn tell_pool_of(
    switch: &mut Switch,
    router: &Router,
    pool: &PoolHandle,
) -> Result<(), NodeError> {
    let Geometry { slots, slot_bytes, interfaces } = pool.layout.geometry;
    let of = if router.plan.is_inline() { PoolOf::Inline } else { PoolOf::Process };
    let worker = switch.worker_of(router.number);
    let (pool_id, busy) = (pool.id, router.plan.busy);
    let order = Order::AddPool { pool: pool_id, slots, slot_bytes, interfaces, of, worker, busy };
    switch.order(&order, &[pool.as_fd(), pool.waker()?.as_fd(), router.wake.rung.as_fd()])?;
    Ok(())
}

/// The order that adds an interface.
fn add_interface(
    interface: u32,
    pool: u32,
    to: Target,
    planned: &InterfacePlan,
    filtered_by: Option<FilteredBy>,
) -> Order {
    let bound = planned.spec.bound.clone();
    let (local, impairment) = (planned.spec.local, planned.impairment);
    Order::AddInterface { interface, pool, local, to, bound, impairment, filtered_by }
}

fn not_up() -> NodeError {
    NodeError::Refused("this node is not up".into())
}
