//! An adopted switch serves the objects that are wanted, and no others.

use std::collections::HashMap;

use europa_substrate::Claims;
use europa_switch::orders::{Order, Served, Target};

use super::Objects;
use crate::NodeError;
use crate::switch::Switch;

impl Objects<'_> {
    /// Has the switch serve the claimed objects only. Correct objects are not touched: packets are
    /// under way there.
    pub(crate) fn correct(
        &self,
        switch: &mut Switch,
        claims: &Claims,
        served: &Served,
    ) -> Result<(), NodeError> {
        for pool in served.pools.iter().filter(|pool| !claims.pools.contains(pool)) {
            switch.order(&Order::RemovePool { pool: *pool }, &[])?;
        }
        let mut wanted: HashMap<u32, _> = HashMap::new();
        for router in self.routers {
            let Some(pool) = &router.pool else { continue };
            for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
                let to = self.leads_to(&interface.to);
                wanted.insert(*id, (Some(router), pool.id, to, interface.impairment));
            }
        }
        let mut backs = HashMap::new();
        for relay in self.relays.iter() {
            let (to, impairment) = (self.relay_leads_to(relay), relay.plan.impairment);
            wanted.insert(relay.interface, (None, relay.pool(), to, impairment));
            let port = self.ports.iter().find(|port| port.name == relay.plan.port);
            if let (Some(back), Some(port)) = (relay.back(), port) {
                let to = Some(Target::Port(port.id));
                wanted.insert(back, (None, relay.pool(), to, None));
                backs.insert(relay.interface, back);
            }
        }
        for there in &served.interfaces {
            let interface = there.interface;
            if !claims.pools.contains(&there.pool) {
                continue;
            }
            match wanted.get(&interface) {
                Some((_, pool, to, impairment)) if *pool == there.pool && *to == Some(there.to) => {
                    if *impairment != there.impairment {
                        let impairment = *impairment;
                        switch.order(&Order::Impair { interface, impairment }, &[])?;
                    }
                    wanted.remove(&interface);
                }
                _ => drop(switch.order(&Order::RemoveInterface { interface }, &[])?),
            }
        }
        for port in served.ports.iter().filter(|port| !claims.ports.contains(port)) {
            switch.order(&Order::RemovePort { port: *port }, &[])?;
        }
        for port in self.ports.iter().filter(|port| !served.ports.contains(&port.id)) {
            self.tell_port(switch, port)?;
        }
        for router in self.routers {
            if router.pool.as_ref().is_some_and(|pool| !served.pools.contains(&pool.id)) {
                self.tell_pool(switch, router)?;
            }
        }
        for (id, (router, ..)) in &wanted {
            if let Some(router) = router {
                self.tell_interface(switch, router, *id)?;
            }
        }
        let lacks = |id: &u32| wanted.contains_key(id);
        for relay in self.relays.iter().filter(|relay| {
            lacks(&relay.interface) || backs.get(&relay.interface).is_some_and(lacks)
        }) {
            if served.pools.contains(&relay.pool()) {
                switch.order(&Order::RemovePool { pool: relay.pool() }, &[])?;
            }
            self.tell_relay(switch, relay)?;
        }
        self.correct_tunnels(switch, served)
    }

    /// Has the switch have the wanted tunnels only, as they are wanted.
    fn correct_tunnels(&self, switch: &mut Switch, served: &Served) -> Result<(), NodeError> {
        let wanted = self.far_ends();
        for (id, _) in &served.tunnels {
            if !wanted.iter().any(|(_, ends)| ends.from == *id) {
                self.tunnels.remove(Some(&mut *switch), *id);
            }
        }
        for (end, ends) in &wanted {
            if !self.tunnels.is_told(end, *ends) {
                self.tunnels.tell(switch, end, *ends)?;
            }
        }
        Ok(())
    }
}
