//! This node takes over the running objects of a killed node.
//!
//! Everything is compared with the desired state. Equal objects continue without a gap. All others,
//! including incomplete and ended ones and those of another version, are removed here. The
//! following job makes the missing objects as after any change.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use europa_api::Documents;
use europa_control::{Machine as _, Ticket};
use europa_plan::{Needs, PortId};
use europa_router::orders::Order as RouterOrder;
use europa_sandbox::cgroup::Cgroups;
use europa_sandbox::{Child, Identity};
use europa_substrate::layout::MAX_TAPS;
use europa_substrate::tap::Taps;
use europa_substrate::{Claims, Substrate};
use europa_switch::orders::{Order, Served, Target};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::Node;
use crate::body::Body;
use crate::kept::Kept;
use crate::leftovers::{self, Noted};
use crate::link_tunnels::LinkTunnels;
use crate::ports::Port;
use crate::relays::Relay;
use crate::router::{ANOTHER_VERSION, Asked, Process, Router, RouterRecord, name_of};
use crate::signallers::{self, SignallerRecord};
use crate::switch::{Lasting, Switch, SwitchRecord};
use crate::{NodeError, grants, hosts, slices};

impl Node {
    /// Takes over the running and desired objects, and removes all others. If that fails, removes
    /// everything.
    pub(super) fn adopt(&mut self) -> Result<(), NodeError> {
        let documents = self.documents.clone();
        let adopted = self.try_adopt(&documents);
        if let Err(error) = &adopted {
            let message = format!("what runs cannot be adopted and is started anew: {error}");
            self.events.warn("node", "", "NotAdopted", message);
        }
        if !matches!(adopted, Ok(true)) {
            self.slow_paths.stop();
            self.routers.clear();
            drop(self.signallers.take_down());
            self.ports.clear();
            self.relays.clear();
            self.link_tunnels = LinkTunnels::default();
            self.hosts.clear();
            self.hosts_made = Arc::default();
            (self.switch, self.lasting, self.substrate) = (None, None, None);
            for line in leftovers::stop(&self.instance)? {
                tracing::warn!("{line}");
            }
            self.kept = Kept::open(&self.instance)?;
        }
        Ok(())
    }

    /// Returns whether there were any objects.
    fn try_adopt(&mut self, documents: &Arc<Documents>) -> Result<bool, NodeError> {
        let noted = leftovers::noted(&self.instance)?;
        if !self.instance.pins().join("interfaces").exists() {
            return Ok(false);
        }
        let substrate = Substrate::open(&self.instance.pins())?;
        let lasting = Lasting::open(&self.kept, self.settings.workers)?;
        if lasting.workers() != self.settings.workers {
            let message = format!(
                "the switch goes on with {} workers: a number of {} counts after `europa down`",
                lasting.workers(),
                self.settings.workers
            );
            self.events.warn("switch", "", "Workers", message);
        }
        self.lasting = Some(lasting);
        self.adopt_hosts(documents)?;
        let ports = europa_plan::ports(&self.namespaces(), documents);
        self.slow_paths.adopt(&self.instance, &self.kept, documents, &ports)?;
        self.adopt_ports(documents, &substrate, &noted)?;
        self.adopt_routers(documents, &substrate)?;
        self.adopt_signallers();
        self.adopt_relays(&self.desired(documents).relays, &substrate);
        self.adopt_switch()?;
        let served = self.served()?;
        self.begin_with(substrate)?;
        self.release();
        if self.switch.is_none() && self.routers.is_empty() {
            return Ok(false);
        }
        let relays = &self.relays;
        let of_routers = self.routers.iter().flat_map(|r| r.interfaces.iter().copied());
        let pools_of_routers = self.routers.iter().filter_map(|r| Some(r.pool.as_ref()?.id));
        let claims = Claims {
            ports: self.ports.iter().map(|port| port.id).collect(),
            interfaces: of_routers.chain(relays.iter().flat_map(Relay::interfaces)).collect(),
            pools: pools_of_routers.chain(relays.iter().map(Relay::pool)).collect(),
        };
        self.end_others()?;
        if let Some(mut switch) = self.switch.take() {
            let told = self
                .load_filters_now(&mut switch)
                .and_then(|()| self.correct(&mut switch, &claims, &served))
                .and_then(|()| self.tell_filtered(&mut switch, None));
            self.switch = Some(switch);
            told?;
        } else {
            self.revival.restarts += 1;
            self.start_switch_now()?;
            // The former node's entries in lists of pools that are swept away.
            let pools: Vec<u32> = self.substrate()?.pools().collect();
            if let Some(switch) = &mut self.switch {
                let mut stray = pools.into_iter().filter(|pool| !claims.pools.contains(pool));
                if !stray.all(|pool| switch.forget_pool(pool)) {
                    return Err(NodeError::Refused("the switch has ended again".into()));
                }
            }
        }
        if let Some(substrate) = &self.substrate {
            substrate.sweep(&claims)?;
        }
        self.slow_paths.remove_others(&self.instance, &self.kept)?;
        for router in &mut self.routers {
            if let Some(process) = &mut router.process {
                if router.plan.cage.is_none() {
                    self.slow_paths.follow_on(&router.plan.name, process, &self.events)?;
                }
                let (names, opened) = grants::renewed(&router.plan)?;
                if !names.is_empty() {
                    let descriptors: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
                    process.order_with(&RouterOrder::Grant(names), &descriptors, Asked::Nobody);
                }
            }
        }
        self.start_slow_paths(Ticket::default())?;
        self.undo_others(&noted);
        self.note_ports()?;
        // The captures of the killed node have ended with it.
        let taps = Taps::open(&self.instance.pins())?;
        (0..MAX_TAPS).for_each(|number| taps.end(number));
        self.show_scene();
        let (routers, ports) = (self.routers.len(), self.ports.len());
        let switch = if self.switch.is_some() { "the switch" } else { "no switch" };
        let message = format!("{switch}, {routers} routers and {ports} ports go on");
        self.events.note("node", "", "Adopted", message);
        Ok(true)
    }

    fn adopt_ports(
        &mut self,
        documents: &Documents,
        substrate: &Substrate,
        noted: &[Noted],
    ) -> Result<(), NodeError> {
        for document in &europa_plan::ports(&self.namespaces(), documents) {
            for noted in noted {
                let Some(mut port) = Port::adopt(noted, document, substrate)? else { continue };
                port.adapt(Needs::of(documents, &port.name))?;
                self.ports.push(port);
                break;
            }
        }
        Ok(())
    }

    fn adopt_routers(
        &mut self,
        documents: &Arc<Documents>,
        substrate: &Substrate,
    ) -> Result<(), NodeError> {
        let target = self.desired(documents);
        for found in self.kept.records::<RouterRecord>("router.") {
            let name = found.record.as_ref().map(name_of).unwrap_or_default();
            let open = |port: &PortId| self.ports.iter().any(|other| other.name == *port);
            let plan = target.feasible(name);
            let adopted = match (&found.record, plan) {
                (None, _) => Err(ANOTHER_VERSION.to_owned()),
                (_, None) => Err("it is not wanted any more".to_owned()),
                (_, Some(plan)) if !plan.ports().all(open) => {
                    Err("a port of it is another one".to_owned())
                }
                (_, Some(plan)) => Router::adopt(&found, plan, substrate, &self.kept),
            };
            match adopted {
                Ok(mut router) => {
                    let group = |router: &Router| self.router_group(&router.plan.name);
                    router.group = (!router.plan.is_inline()).then(|| group(&router)).flatten();
                    self.routers.push(router);
                }
                Err(why) => {
                    let name = if name.is_empty() { &found.name } else { name };
                    self.events.warn("router", name, "NotAdopted", why);
                }
            }
        }
        // Sorted in the order of documents, as the order of their start is unknown.
        let place = |router: &Router| {
            documents.routers.iter().position(|document| router.plan.name == document.full_name())
        };
        self.routers.sort_by_key(place);
        Ok(())
    }

    /// Signallers of slices without signalling end when flows are followed.
    fn adopt_signallers(&mut self) {
        for found in self.kept.records::<SignallerRecord>(signallers::KIND) {
            if let Err(why) = self.signallers.adopt(&found, &self.kept) {
                self.events.warn("node", "", "NotAdopted", format!("a signaller: {why}"));
            }
        }
    }

    fn adopt_switch(&mut self) -> Result<(), NodeError> {
        for found in self.kept.records::<SwitchRecord>("switch.") {
            if let Some(record) = found.record {
                self.revival.restarts = self.revival.restarts.max(record.restarts);
            }
            let workers = self.lasting()?.workers();
            match Switch::adopt(&found, &self.kept, workers)? {
                Some(switch) if self.switch.is_none() => {
                    self.switch_group = self.group("switch");
                    self.switch = Some(switch);
                }
                _ => {
                    let message = "it has ended or is half-made: it is started anew";
                    self.events.warn("switch", "", "NotAdopted", message);
                }
            }
        }
        Ok(())
    }

    /// The objects of an adopted switch. Takes over its tunnels, with their sockets.
    fn served(&mut self) -> Result<Served, NodeError> {
        let Some(switch) = &mut self.switch else { return Ok(Served::default()) };
        let served = switch.describe()?;
        self.link_tunnels.adopt(switch, &served.tunnels)?;
        Ok(served)
    }

    /// Leaves the switch only the desired tunnels, in their desired form.
    fn correct_tunnels(&self, switch: &mut Switch, served: &Served) -> Result<(), NodeError> {
        let wanted = self.far_ends();
        for (id, _) in &served.tunnels {
            if !wanted.iter().any(|(_, ends)| ends.from == *id) {
                self.link_tunnels.remove(Some(&mut *switch), *id);
            }
        }
        for (end, ends) in &wanted {
            if !self.link_tunnels.is_told(end, *ends) {
                self.link_tunnels.tell(switch, end, *ends)?;
            }
        }
        Ok(())
    }

    /// Ends every process of this instance that was not adopted.
    fn end_others(&self) -> Result<(), NodeError> {
        let routers = self.routers.iter().filter_map(|router| router.process.as_ref());
        let switch = self.switch.iter().map(|switch| switch.child.pid());
        let mut own: HashSet<u32> =
            routers.filter_map(|process| process.body.pid()).chain(switch).collect();
        own.extend(self.slow_paths.adopted());
        own.extend(self.signallers.pids());
        let mut children = Vec::new();
        let adopted = self.routers.iter().filter_map(|router| router.process.as_ref());
        let adopted: HashSet<String> = adopted.map(Process::name).collect();
        for found in self.kept.records::<Value>("") {
            if Body::is_record_of_one_inside(&found.name) && !adopted.contains(&found.name) {
                // The switch frees it with its pool, at the latest at its end.
                self.kept.forget(&found.name);
            }
            let Some(Identity { pid, .. }) = found.process else { continue };
            if own.contains(&pid) {
                continue;
            }
            if let Some(child) = found.process.map(Child::adopt).transpose()?.flatten() {
                child.kill(Signal::SIGKILL)?;
                children.push(child);
            }
            self.kept.forget(&found.name);
        }
        for mut child in children {
            child.wait()?;
        }
        // The records that could not be written.
        let of_routers = self.routers.iter().map(|router| slices::router_group(&router.plan.name));
        let mut groups: HashSet<String> = of_routers.collect();
        let of_slices = groups.iter().filter_map(|group| Some(group.split_once('/')?.0.to_owned()));
        groups.extend(of_slices.collect::<Vec<_>>());
        groups.extend(self.switch.iter().map(|_| "switch".to_owned()));
        groups.extend(self.signallers.groups());
        groups.extend(self.slow_paths.routers().map(europa_slowpath::environment::group));
        groups.extend(self.hosts_made.iter().map(|host| hosts::group(&host.name)));
        let all = Cgroups::detect()?;
        for name in all.names(self.instance.name())? {
            if !groups.contains(&name) {
                all.remove(self.instance.name(), &name)?;
            }
        }
        Ok(())
    }

    /// Leaves the switch only the claimed objects. Correct objects are not changed, because packets
    /// are in them.
    fn correct(
        &self,
        switch: &mut Switch,
        claims: &Claims,
        served: &Served,
    ) -> Result<(), NodeError> {
        for pool in served.pools.iter().filter(|pool| !claims.pools.contains(pool)) {
            switch.order(&Order::RemovePool { pool: *pool }, &[])?;
        }
        let mut wanted: HashMap<u32, _> = HashMap::new();
        for router in &self.routers {
            let Some(pool) = &router.pool else { continue };
            for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
                let to = self.leads_to(&interface.to);
                wanted.insert(*id, (Some(router), pool.id, to, interface.impairment));
            }
        }
        let mut backs = HashMap::new();
        for relay in &self.relays {
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
        for router in &self.routers {
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

    /// Puts the devices back that are no ports any more.
    fn undo_others(&self, noted: &[Noted]) {
        let is_own = |noted: &&Noted| self.ports.iter().any(|port| port.undo == noted.undo);
        for noted in noted.iter().filter(|noted| !is_own(noted)) {
            if let Err(error) = noted.undo.undo() {
                let message = format!("a device was not put back as it was: {error}");
                self.events.warn("node", "", "NotPutBack", message);
            }
        }
    }
}
