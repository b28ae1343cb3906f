//! Descriptions and counters of all objects: a few objects at a time, as those of a thousand routers
//! take tens of milliseconds.

use std::collections::HashSet;
use std::sync::Arc;

use europa_api::rest::{NodeInfo, ProblemDetails, Status};
use europa_api::stats::{NodeStats, PortStats, RouterStats, SwitchStats, TunnelStats};
use europa_plan::{FarEnd, RouterId};
use europa_switch::orders::SwitchStats as OfSwitchItself;

use super::Node;
use crate::Lifetime;
use crate::link_tunnels::{Ends, LinkTunnels};
use crate::ports::Look;
use crate::stats::{End, Gathered, OfSwitch, cpu_ns, now_ns};
use crate::switch::{Lasting, Switch};

impl Node {
    /// About the node itself.
    pub(crate) fn info(&self) -> NodeInfo {
        let settings = &self.context.settings;
        NodeInfo {
            instance: self.context.instance.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            long_turns: self.turns.long(),
            longest_turn_us: self.turns.longest_us(),
            since: self.context.since.clone(),
            revision: self.change.accepted().revision,
            temporary: self.context.lifetime == Lifetime::Temporary,
            settled: self.change.is_settled(),
            metrics_at: None,
            listens_at: None,
            ssh_at: settings.ssh_at.map(|at| at.to_string()),
            workers: self.switch.lasting().map_or(settings.workers, Lasting::workers),
        }
    }

    /// The states of objects of a kind.
    pub(crate) fn states(&self, kind: &str, names: &[String]) -> Vec<Status> {
        let state = |name: &String| match kind {
            "port" => self.ports.status(name),
            "router" => self.routers.status(&self.slow_paths, name),
            "host" => self.hosts.status(name),
            "flow" => self.signallers.status(name),
            _ => Status { state: "active".into(), ..Status::default() },
        };
        names.iter().map(state).collect()
    }

    /// Whether there is a router `of`, or a program `of` of a router's slow path.
    pub(crate) fn known_log(&self, of: &str) -> Result<(), ProblemDetails> {
        let (router, program) = match of.split_once('.') {
            Some((router, program)) => (router, Some(program)),
            None => (of, None),
        };
        self.routers.known(router)?;
        let programs = self.slow_paths.programs(router);
        match program {
            Some(program) if !programs.contains(&program) => {
                let all = programs.join(", ");
                let detail = format!("router {router} has no program {program:?}; it has: {all}");
                Err(ProblemDetails::not_found(detail))
            }
            _ => Ok(()),
        }
    }

    /// The counters of the node and its switch, and the objects that have others.
    pub(crate) fn stats_begun(&mut self) -> Gathered {
        let switch = self.switch.get().and_then(Switch::stats);
        let at_ns = now_ns();
        let tunnels = self.tunnel_stats(switch.as_ref());
        if self.kernel.substrate().is_none() {
            return Gathered::default();
        }
        let relays = self.relays.iter().map(|relay| End {
            interface: relay.interface,
            link: relay.plan.link.to_string(),
            from: relay.plan.port.to_string(),
        });
        let switch_cpu_ns = cpu_ns(self.switch.group());
        let stats = NodeStats {
            at_ns,
            hosts: self.hosts.stats().to_vec(),
            tunnels,
            switch_restarts: self.switch.restarts(),
            switch: switch.as_ref().map(|switch| SwitchStats {
                cpu_ns: switch_cpu_ns,
                kicks: switch.kicks,
                live_frames: switch.live_frames,
                socket_calls: switch.socket_calls,
                socket_frames: switch.socket_frames,
                link_frames: switch.link_frames,
                foreign_packets: switch.foreign_packets,
                malformed_packets: switch.malformed_packets,
                sleeps: switch.sleeps,
            }),
            ..NodeStats::default()
        };
        Gathered {
            stats,
            queues: self.queues.counters(&self.routers),
            switch: switch.map(OfSwitch::from).unwrap_or_default(),
            routers: self.routers.iter().map(|router| router.plan.name.clone()).collect(),
            ports: self.ports.iter().map(|port| port.name.clone()).collect(),
            of_routers: Vec::new(),
            of_hosts: relays.collect(),
            of_ports: Vec::new(),
        }
    }

    /// The counters of some routers, with their ends of links.
    pub(crate) fn stats_of_routers(
        &self,
        names: &HashSet<RouterId>,
        switch: &OfSwitch,
    ) -> Vec<(RouterStats, Vec<End>)> {
        let Some(substrate) = self.kernel.substrate() else { return Vec::new() };
        self.routers.stats(substrate, &self.slow_paths, names, switch)
    }

    /// The counters of some ports. A thread still has to read the losses of their devices.
    pub(crate) fn stats_of_ports(
        &self,
        names: &HashSet<String>,
        switch: &OfSwitch,
    ) -> Vec<(PortStats, Arc<Look>)> {
        let Some(substrate) = self.kernel.substrate() else { return Vec::new() };
        self.ports.stats(substrate, names, switch)
    }

    /// The counters of all links to other machines.
    fn tunnel_stats(&self, switch: Option<&OfSwitchItself>) -> Vec<TunnelStats> {
        let counted = switch.map_or(&[][..], |switch| &switch.tunnels);
        let far = self.objects().far_ends();
        let name = |from: u32| {
            let of_router = self.routers.iter().find_map(|router| {
                let at = router.interfaces.iter().position(|id| *id == from)?;
                let interface = router.plan.interfaces.get(at)?;
                Some(format!("{}.{}", router.plan.name, interface.name))
            });
            let relay = self.relays.iter().find(|relay| relay.interface == from);
            of_router.or_else(|| relay.map(|relay| relay.plan.port.to_string()))
        };
        let of = |(end, ends): &(FarEnd, Ends)| {
            let found = counted.iter().find(|one| one.interface == ends.from).copied();
            let at = name(ends.from).unwrap_or_default();
            LinkTunnels::stats(end.link.to_string(), end, at, &found.unwrap_or_default())
        };
        far.iter().map(of).collect()
    }
}
