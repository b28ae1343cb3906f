//! This node takes over the running objects of a killed node.
//!
//! Everything is compared with the desired state. Equal objects continue without a gap. All others,
//! including incomplete and ended ones and those of another version, are removed here. The
//! following job makes the missing objects as after any change.

use std::collections::HashSet;
use std::sync::Arc;

use europa_api::Documents;
use europa_control::{Machine as _, Ticket};
use europa_sandbox::cgroup::Cgroups;
use europa_sandbox::{Child, Identity};
use europa_substrate::layout::MAX_TAPS;
use europa_substrate::tap::Taps;
use europa_substrate::{Claims, Substrate};
use europa_switch::orders::Served;
use nix::sys::signal::Signal;
use serde_json::Value;

use super::Node;
use super::switch::load_filters_now;
use crate::body::Body;
use crate::kept::Kept;
use crate::leftovers;
use crate::relays::Relay;
use crate::signallers::{self, SignallerRecord};
use crate::{NodeError, hosts, slices};

impl Node {
    /// Takes over the running and desired objects, and removes all others. If that fails, removes
    /// everything.
    pub(super) fn adopt(&mut self) -> Result<(), NodeError> {
        let documents = self.change.documents().clone();
        let adopted = self.try_adopt(&documents);
        if let Err(error) = &adopted {
            let message = format!("what runs cannot be adopted and is started anew: {error}");
            self.context.events.warn("node", "", "NotAdopted", message);
        }
        if !matches!(adopted, Ok(true)) {
            self.slow_paths.stop();
            self.routers.clear();
            drop(self.signallers.take_down());
            self.ports.clear();
            self.relays.clear();
            self.tunnels.clear();
            self.hosts.forget();
            self.switch.close();
            self.kernel.close();
            for line in leftovers::stop(&self.context.instance)? {
                tracing::warn!("{line}");
            }
            // The folder is there again.
            Kept::open(&self.context.instance)?;
        }
        Ok(())
    }

    /// Returns whether there were any objects.
    fn try_adopt(&mut self, documents: &Arc<Documents>) -> Result<bool, NodeError> {
        let context = self.context.clone();
        let noted = leftovers::noted(&context.instance)?;
        if !context.instance.pins().join("interfaces").exists() {
            return Ok(false);
        }
        let substrate = Substrate::open(&context.instance.pins())?;
        self.switch.adopt_lasting(&context)?;
        self.hosts.adopt(&context, documents)?;
        let ports = europa_plan::ports(&self.namespaces(), documents);
        self.slow_paths.adopt(&context.instance, &context.kept, documents, &ports)?;
        self.ports.adopt(documents, &ports, &substrate, &noted)?;
        let target = self.desired(documents);
        self.routers.adopt(&context, &substrate, &self.ports, documents, &target);
        self.adopt_signallers();
        self.adopt_relays(documents, &substrate);
        self.switch.adopt(&context)?;
        let served = self.served()?;
        self.kernel.begin_with(&context, &mut self.switch, substrate)?;
        self.routers.release(&context.cores);
        if !self.switch.runs() && self.routers.is_empty() {
            return Ok(false);
        }
        let claims = self.claims();
        self.end_others()?;
        self.adopt_served(&claims, &served)?;
        self.kernel.up()?.sweep(&claims)?;
        self.slow_paths.remove_others(&context.instance, &context.kept)?;
        self.routers.go_on(&context, &self.slow_paths)?;
        self.start_slow_paths(Ticket::default())?;
        self.ports.undo_others(&context, &noted);
        self.ports.note(&context)?;
        // The captures of the killed node have ended with it.
        let taps = Taps::open(&context.instance.pins())?;
        (0..MAX_TAPS).for_each(|number| taps.end(number));
        self.captures.expect_others();
        self.follow_scene();
        let (routers, ports) = (self.routers.len(), self.ports.len());
        let switch = if self.switch.runs() { "the switch" } else { "no switch" };
        let message = format!("{switch}, {routers} routers and {ports} ports go on");
        context.events.note("node", "", "Adopted", message);
        Ok(true)
    }

    /// The entries that the adopted objects have in the tables.
    fn claims(&self) -> Claims {
        let relays = &self.relays;
        let of_routers = self.routers.iter().flat_map(|r| r.interfaces.iter().copied());
        let pools_of_routers = self.routers.iter().filter_map(|r| Some(r.pool.as_ref()?.id));
        Claims {
            ports: self.ports.iter().map(|port| port.id).collect(),
            interfaces: of_routers.chain(relays.iter().flat_map(Relay::interfaces)).collect(),
            pools: pools_of_routers.chain(relays.iter().map(Relay::pool)).collect(),
        }
    }

    /// Has the adopted switch serve what is claimed, or starts another one.
    fn adopt_served(&mut self, claims: &Claims, served: &Served) -> Result<(), NodeError> {
        if let (objects, Some(switch)) = self.with_switch() {
            load_filters_now(objects, switch)?;
            objects.correct(switch, claims, served)?;
            return objects.tell_filtered(switch, None);
        }
        self.switch.count();
        self.start_switch_now()?;
        // The former node's entries in lists of pools that are swept away.
        let pools: Vec<u32> = self.kernel.up()?.pools().collect();
        if let Some(switch) = self.switch.get() {
            let mut stray = pools.into_iter().filter(|pool| !claims.pools.contains(pool));
            if !stray.all(|pool| switch.forget_pool(pool)) {
                return Err(NodeError::Refused("the switch has ended again".into()));
            }
        }
        Ok(())
    }

    /// Takes over the ways of hosts' frames over links, as far as they are wanted.
    fn adopt_relays(&mut self, documents: &Arc<Documents>, substrate: &Substrate) {
        let plans = self.desired(documents).relays;
        let mut relays = std::mem::take(&mut self.relays);
        let leads = |relay: &Relay| self.objects().relay_leads_to(relay).is_some();
        relays.adopt(&self.context, &plans, substrate, leads);
        self.relays = relays;
    }

    /// Signallers of slices without signalling end when flows are followed.
    fn adopt_signallers(&mut self) {
        let kept = &self.context.kept;
        for found in kept.records::<SignallerRecord>(signallers::KIND) {
            if let Err(why) = self.signallers.adopt(&found, kept) {
                let message = format!("a signaller: {why}");
                self.context.events.warn("node", "", "NotAdopted", message);
            }
        }
    }

    /// The objects of an adopted switch. Takes over its tunnels, with their sockets.
    fn served(&mut self) -> Result<Served, NodeError> {
        let Some(switch) = self.switch.get() else { return Ok(Served::default()) };
        let served = switch.describe()?;
        self.tunnels.adopt(switch, &served.tunnels)?;
        Ok(served)
    }

    /// Ends every process of this instance that was not adopted.
    fn end_others(&self) -> Result<(), NodeError> {
        let kept = &self.context.kept;
        let mut own: HashSet<u32> = self.routers.pids().chain(self.switch.pid()).collect();
        own.extend(self.slow_paths.adopted());
        own.extend(self.signallers.pids());
        let mut children = Vec::new();
        let adopted = self.routers.record_names();
        for found in kept.records::<Value>("") {
            if Body::is_record_of_one_inside(&found.name) && !adopted.contains(&found.name) {
                // It goes with its pool, if not with the switch.
                kept.forget(&found.name);
            }
            let Some(Identity { pid, .. }) = found.process else { continue };
            if own.contains(&pid) {
                continue;
            }
            if let Some(child) = found.process.map(Child::adopt).transpose()?.flatten() {
                child.kill(Signal::SIGKILL)?;
                children.push(child);
            }
            kept.forget(&found.name);
        }
        for mut child in children {
            child.wait()?;
        }
        self.remove_other_groups()
    }

    /// Removes the control groups that are not of adopted objects: also those whose records could
    /// not be written.
    fn remove_other_groups(&self) -> Result<(), NodeError> {
        let of_routers = self.routers.iter().map(|router| slices::router_group(&router.plan.name));
        let mut groups: HashSet<String> = of_routers.collect();
        let of_slices = groups.iter().filter_map(|group| Some(group.split_once('/')?.0.to_owned()));
        groups.extend(of_slices.collect::<Vec<_>>());
        groups.extend(self.switch.runs().then(|| "switch".to_owned()));
        groups.extend(self.signallers.groups());
        groups.extend(self.slow_paths.routers().map(europa_slowpath::environment::group));
        groups.extend(self.hosts.made().iter().map(|host| hosts::group(&host.name)));
        let (all, instance) = (Cgroups::detect()?, self.context.instance.name());
        for name in all.names(instance)? {
            if !groups.contains(&name) {
                all.remove(instance, &name)?;
            }
        }
        Ok(())
    }
}
