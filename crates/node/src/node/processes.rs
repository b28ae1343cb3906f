//! The switch and the routers: started, and told what to do.

use std::os::fd::AsFd;

use europa_pool::Geometry;
use europa_switch::orders::{Order, Target};

use super::Node;
use crate::NodeError;
use crate::plan::To;
use crate::router::Router;
use crate::switch::{Switch, add_interface};

impl Node {
    /// Starts a switch and tells it everything.
    pub(super) fn start_switch(&mut self) -> Result<(), NodeError> {
        let log = self.log("switch")?;
        let mut switch = Switch::start(
            self.substrate()?,
            self.lasting()?,
            log.as_fd(),
            self.switch_group.as_ref(),
            self.cores.last().map_or(&[], std::slice::from_ref),
        )?;
        for port in &self.ports {
            let order = Order::AddPort {
                port: port.id,
                device: port.device.index,
                rate_bits: port.rate_bits,
                live: port.live,
                ways_join: port.ways_join(),
            };
            switch.order(&order, &port.sockets().map(AsFd::as_fd))?;
        }
        for router in &self.routers {
            self.tell_pool(&mut switch, router)?;
        }
        for router in &self.routers {
            self.tell_interfaces(&mut switch, router)?;
        }
        for relay in &self.relays {
            if let Some(to) = self.behind(&relay.plan.port) {
                relay.tell(&mut switch, to)?;
            }
        }
        self.switch = Some(switch);
        Ok(())
    }

    /// The interface that sends by a port of a link, and takes what comes over the link.
    fn behind(&self, port: &str) -> Option<u32> {
        self.routers.iter().find_map(|router| {
            let mut all = router.plan.interfaces.iter().zip(&router.interfaces);
            let found =
                all.find(|(interface, _)| matches!(&interface.to, To::Port(p) if p == port));
            found.map(|(_, id)| *id)
        })
    }

    pub(super) fn tell_pool(&self, switch: &mut Switch, router: &Router) -> Result<(), NodeError> {
        let Some(pool) = &router.pool else { return Ok(()) };
        let Geometry { slots, slot_bytes, interfaces } = pool.layout.geometry;
        let order = Order::AddPool { pool: pool.id, slots, slot_bytes, interfaces, relay: false };
        switch.order(&order, &[pool.as_fd(), pool.waker()?.as_fd(), router.wake.rung.as_fd()])?;
        Ok(())
    }

    pub(super) fn tell_interfaces(
        &self,
        switch: &mut Switch,
        router: &Router,
    ) -> Result<(), NodeError> {
        let Some(pool) = &router.pool else { return Ok(()) };
        for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
            let to = match &interface.to {
                To::Port(name) => {
                    self.ports.iter().find(|p| p.name == *name).map(|p| Target::Port(p.id))
                }
                To::Link { router, interface } => self
                    .routers
                    .get(*router)
                    .and_then(|other| other.interfaces.get(*interface))
                    .map(|id| Target::Link(*id)),
            };
            let Some(to) = to else { continue };
            switch.order(&add_interface(*id, pool.id, to, interface), &[])?;
        }
        Ok(())
    }

    /// Starts a router's process on the pool it has.
    pub(super) fn begin_router(&mut self, index: usize) -> Result<(), NodeError> {
        let Some(router) = self.routers.get(index) else { return Ok(()) };
        let process = router.spawn(self.log(&router.plan.name)?.as_fd(), &self.cores)?;
        if let Some(pool) = &router.pool {
            process.begin(router, pool, self.lasting()?)?;
        }
        if let Some(router) = self.routers.get_mut(index) {
            router.process = Some(process);
            router.due = None;
        }
        Ok(())
    }
}
