//! The switch and the routers: started, and given orders.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use europa_plan::{InterfacePlan, RouterId, To};
use europa_pool::Geometry;
use europa_sandbox::cgroup::Limits;
use europa_substrate::PoolHandle;
use europa_switch::orders::{Order, PoolOf, Target, Ways};

use super::Node;
use crate::NodeError;
use crate::link_tunnels::Ends;
use crate::ports::Port;
use crate::relays::Relay;
use crate::router::{Process, Router};
use crate::switch::{Switch, add_interface};

/// CPU weight of the switch, equal to ten routers: all of them wait for it.
const SWITCH_WEIGHT: u64 = 1000;

/// Interval of checks of a switch whose rules are being sent.
const LOADING: Duration = Duration::from_millis(20);

/// A switch whose rules and ways are being sent.
pub(crate) struct BegunSwitch {
    pub(super) switch: Switch,
    /// Routers added since its start: ways may have had no destination.
    pub(super) come: HashSet<RouterId>,
}

/// The ways that a switch has got.
enum ToldWays {
    /// All except those to these routers.
    AllBut(HashSet<RouterId>),
    /// No ways.
    No,
}

impl Node {
    /// Starts a switch and sends it all objects. If it gets rules, the objects follow behind these.
    pub(super) fn start_switch(&mut self) -> Result<(), NodeError> {
        let mut switch = self.begin_switch()?;
        // Before interfaces, so that no packet passes without rules.
        let control = self.control.clone();
        let then = move |loaded: Result<(), NodeError>| {
            control.tell(move |node| node.switch_has_filters(loaded));
        };
        match self.load_filters(&mut switch, true, then)? {
            true => self.switch_begun = Some(BegunSwitch { switch, come: HashSet::new() }),
            false => self.finish_switch(switch, &ToldWays::No)?,
        }
        Ok(())
    }

    /// The same at the start of a node, which waits for the end.
    pub(super) fn start_switch_now(&mut self) -> Result<(), NodeError> {
        let mut switch = self.begin_switch()?;
        self.load_filters_now(&mut switch)?;
        self.finish_switch(switch, &ToldWays::AllBut(HashSet::new()))
    }

    /// A new switch has its rules, or has ended.
    fn switch_has_filters(&mut self, loaded: Result<(), NodeError>) {
        let Some(BegunSwitch { switch, come }) = self.switch_begun.take() else { return };
        let ways = ToldWays::AllBut(come);
        if let Err(error) = loaded.and_then(|()| self.finish_switch(switch, &ways)) {
            tracing::error!("starting the switch: {error}");
            let due = self.revival.backoff.failed(Duration::ZERO, Instant::now());
            self.revival.due = Some(due);
        }
        self.more = true;
    }

    /// The time of the switch's next start.
    pub(super) fn switch_due(&self) -> Option<Instant> {
        let begun = self.switch_begun.as_ref().map(|_| Instant::now() + LOADING);
        self.revival.due.or(begun)
    }

    fn begin_switch(&mut self) -> Result<Switch, NodeError> {
        self.queues.forget();
        self.link_tunnels.forget();
        self.switch_group = self.switch_group.take().or_else(|| self.group("switch"));
        if let Some(group) = &self.switch_group {
            group.set(&Limits { cpu_weight: Some(SWITCH_WEIGHT), ..Limits::default() })?;
        }
        let log = self.log("switch")?;
        Switch::start(
            self.substrate()?,
            self.lasting()?,
            &self.kept,
            log.as_fd(),
            self.switch_group.as_ref(),
            &self.cores,
        )
    }

    fn finish_switch(&mut self, mut switch: Switch, ways: &ToldWays) -> Result<(), NodeError> {
        for port in &self.ports {
            self.tell_port(&mut switch, port)?;
        }
        for router in &self.routers {
            self.tell_pool(&mut switch, router)?;
        }
        for router in &self.routers {
            let name = &router.plan.name;
            let knows = matches!(ways, ToldWays::AllBut(others) if !others.contains(name));
            for id in &router.interfaces {
                if knows {
                    self.tell_interface_alone(&mut switch, router, *id)?;
                } else {
                    self.tell_interface(&mut switch, router, *id)?;
                }
            }
        }
        for relay in &self.relays {
            self.tell_relay(&mut switch, relay)?;
        }
        switch.note_complete(&self.kept, self.revival.restarts)?;
        let message = format!("process {}", switch.child.pid());
        self.events.note("switch", "", "Started", message);
        self.switch = Some(switch);
        self.free_orphans();
        self.follow_queues()
    }

    /// Applies the documents' settings beside routers. Costs little without a change.
    pub(super) fn follow(&mut self) {
        if let Err(error) = self.follow_queues() {
            // If the switch has just ended, the next one gets the order at its start.
            self.events.warn("switch", "", "Failed", error.to_string());
        }
        self.follow_meters();
        self.follow_cages();
        self.follow_slices();
        self.follow_signallers();
        self.follow_scene();
    }

    /// Signals flows according to the documents.
    fn follow_signallers(&mut self) {
        // Both apart, as their logs and groups are the node's.
        let mut signallers = std::mem::take(&mut self.signallers);
        let mut routers = std::mem::take(&mut self.routers);
        let (kept, documents, events) = (&self.kept, self.documents.clone(), &self.events);
        let mut equip = |slice: &str| {
            let log = self.log(&format!("signaller.{slice}"))?;
            Ok((log, self.group(&crate::signallers::group(slice))))
        };
        signallers.follow(kept, &documents, &mut routers, events, &mut equip);
        (self.signallers, self.routers) = (signallers, routers);
    }

    /// Sets the queues of ports according to the documents.
    pub(super) fn follow_queues(&mut self) -> Result<(), NodeError> {
        let Some(switch) = &mut self.switch else { return Ok(()) };
        self.queues.follow(&self.kept, switch, &self.ports, &self.documents, &self.routers)
    }

    /// Applies the documents' received rates of ports.
    fn follow_meters(&mut self) {
        if let Some(substrate) = &self.substrate {
            self.meters.follow(substrate, &self.documents, &self.routers);
        }
    }

    /// Sets the routers' CPU and memory to the slices' reservations.
    fn follow_slices(&mut self) {
        let documents = &self.documents;
        let followed =
            self.slices.follow(&self.cgroups, self.instance.name(), documents, &self.routers);
        for error in followed {
            self.events.warn("node", "", "Failed", format!("control group of a slice: {error}"));
        }
    }

    pub(super) fn tell_port(&self, switch: &mut Switch, port: &Port) -> Result<(), NodeError> {
        let ways = port.ways();
        let mut descriptors: Vec<_> = port.sockets().map(AsFd::as_fd).into();
        if ways == Ways::Ask {
            descriptors.push(self.substrate()?.drained_program()?.as_fd());
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

    /// Connects links to a router that was added.
    pub(super) fn tell_peers(&self, switch: &mut Switch, name: &str) -> Result<(), NodeError> {
        for (router, id) in self.peers(name) {
            // The link may exist and lead to the former router.
            switch.order(&Order::RemoveInterface { interface: id }, &[])?;
            self.tell_interface(switch, router, id)?;
        }
        Ok(())
    }

    /// Disconnects links to a router that is removed, as another router may soon have its numbers.
    /// A switch that has just ended gets this state when it starts.
    pub(super) fn tell_of_loss(&self, switch: &mut Switch, gone: &Router) {
        for (_, id) in self.peers(&gone.plan.name) {
            let _ = switch.order(&Order::RemoveInterface { interface: id }, &[]);
        }
    }

    /// The interface that sends by a port of a link, and receives from the link.
    pub(super) fn behind(&self, port: &str) -> Option<u32> {
        self.routers.iter().find_map(|router| {
            let mut all = router.plan.interfaces.iter().zip(&router.interfaces);
            let found = all.find(|(interface, _)| interface.to.is_port(port));
            found.map(|(_, id)| *id)
        })
    }

    pub(super) fn tell_pool(&self, switch: &mut Switch, router: &Router) -> Result<(), NodeError> {
        router.pool.as_ref().map_or(Ok(()), |pool| Self::tell_pool_of(switch, router, pool))
    }

    /// Sends the switch a pool that a router has or will have.
    pub(super) fn tell_pool_of(
        switch: &mut Switch,
        router: &Router,
        pool: &PoolHandle,
    ) -> Result<(), NodeError> {
        let Geometry { slots, slot_bytes, interfaces } = pool.layout.geometry;
        let of = if router.plan.is_inline() { PoolOf::Inline } else { PoolOf::Process };
        let worker = switch.worker_of(router.number);
        let (pool_id, busy) = (pool.id, router.plan.busy);
        let order =
            Order::AddPool { pool: pool_id, slots, slot_bytes, interfaces, of, worker, busy };
        switch.order(&order, &[pool.as_fd(), pool.waker()?.as_fd(), router.wake.rung.as_fd()])?;
        Ok(())
    }

    pub(super) fn tell_interfaces(
        &self,
        switch: &mut Switch,
        router: &Router,
    ) -> Result<(), NodeError> {
        router.interfaces.iter().try_for_each(|id| self.tell_interface(switch, router, *id))
    }

    pub(super) fn tell_interface(
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

    /// The same without the ways to the interface. Returns the interface if it has a destination.
    fn tell_interface_alone<'r>(
        &self,
        switch: &mut Switch,
        router: &'r Router,
        id: u32,
    ) -> Result<Option<&'r InterfacePlan>, NodeError> {
        let Some(pool) = &router.pool else { return Ok(None) };
        let mut all = router.plan.interfaces.iter().zip(&router.interfaces);
        let Some((interface, _)) = all.find(|(_, other)| **other == id) else { return Ok(None) };
        // The other end of the link may be added later: see `tell_peers`.
        let Some(to) = self.leads_to(&interface.to) else { return Ok(None) };
        if let To::Far(end) = &interface.to {
            let ends = Ends { from: id, to: id, most_frame_bytes: interface.spec.max_frame };
            if !self.link_tunnels.is_told(end, ends) {
                self.link_tunnels.tell(switch, end, ends)?;
            }
        }
        let filtered_by = self.filtering.by(router, interface);
        switch.order(&add_interface(id, pool.id, to, interface, filtered_by), &[])?;
        Ok(Some(interface))
    }

    /// The destination of an interface's frames, if it exists.
    pub(super) fn leads_to(&self, to: &To) -> Option<Target> {
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

    /// Sends a switch a relay, if its other end exists.
    pub(super) fn tell_relay(&self, switch: &mut Switch, relay: &Relay) -> Result<(), NodeError> {
        match (self.relay_leads_to(relay), relay.far()) {
            (Some(to), None) => relay.tell(switch, to),
            (Some(to), Some((end, ends))) => {
                relay.tell(switch, to)?;
                let port = self.ports.iter().find(|port| port.name == relay.plan.port);
                port.map_or(Ok(()), |port| relay.tell_back(switch, port.id))?;
                self.link_tunnels.tell(switch, &end, ends)
            }
            (None, _) => Ok(()),
        }
    }

    /// The destination of a relay's frames.
    pub(super) fn relay_leads_to(&self, relay: &Relay) -> Option<Target> {
        match &relay.plan.far {
            Some(_) => Some(Target::Tunnel),
            None => self.behind(&relay.plan.port).map(Target::Link),
        }
    }

    /// Starts a router's process on the pool it has.
    pub(super) fn begin_router(&mut self, index: usize) -> Result<(), NodeError> {
        let due = self.switch_due();
        if self.switch.is_none()
            && let Some(router) = self.routers.get_mut(index)
            && router.plan.is_inline()
        {
            // There will be a switch in which it can run.
            router.due = Some(due.unwrap_or_else(Instant::now));
            return Ok(());
        }
        let mut switch = self.switch.take();
        let begun = self.begin_process(index, switch.as_mut());
        self.switch = switch;
        let Some(process) = begun? else { return Ok(()) };
        if let Some(router) = self.routers.get_mut(index) {
            router.process = Some(process);
            router.due = None;
        }
        Ok(())
    }

    fn begin_process(
        &self,
        index: usize,
        switch: Option<&mut Switch>,
    ) -> Result<Option<Process>, NodeError> {
        let Some(router) = self.routers.get(index) else { return Ok(None) };
        let mut process = router.spawn(self.log(&router.plan.name)?, &self.cores_for(router))?;
        if let Some(pool) = &router.pool {
            process.begin(router, pool, self.lasting()?, &self.kept, switch)?;
            // The tables of a kernel router's program are handled separately.
            if router.plan.cage.is_none() {
                self.slow_paths.follow(&router.plan.name, &mut process, &self.events)?;
            }
        }
        Ok(Some(process))
    }
}
