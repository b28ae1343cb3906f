//! Counters of all objects, gathered a few at a time: reading those of a thousand routers takes
//! tens of milliseconds.

use std::collections::HashSet;
use std::time::Instant;

use europa_api::stats::{NodeStats, PortStats, RouterStats, SwitchStats};
use europa_plan::RouterId;

use super::Node;
use crate::router::Router;
use crate::stats::{
    End, Gathered, OfSwitch, cpu_ns, inline as inline_stats, interface as interface_stats,
    memory_bytes, now_ns,
};
use crate::switch::Switch;

impl Node {
    /// The counters of the node and its switch, and the objects that have separate counters.
    pub(crate) fn stats_begun(&mut self) -> Gathered {
        let switch = self.switch.as_mut().and_then(Switch::stats);
        let at_ns = now_ns();
        let tunnels = self.tunnel_stats(switch.as_ref());
        if self.substrate.is_none() {
            return Gathered::default();
        }
        let relays = self.relays.iter().map(|relay| End {
            interface: relay.interface,
            link: relay.plan.link.to_string(),
            from: relay.plan.port.to_string(),
        });
        let switch_cpu_ns = cpu_ns(self.switch_group.as_ref());
        let stats = NodeStats {
            at_ns,
            hosts: self.hosts.clone(),
            tunnels,
            queues: self.queues.stats(&self.routers),
            switch_restarts: self.revival.restarts,
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
            switch: switch.map(OfSwitch::from).unwrap_or_default(),
            routers: self.routers.iter().map(|router| router.plan.name.clone()).collect(),
            ports: self.ports.iter().map(|port| port.name.clone()).collect(),
            of_routers: Vec::new(),
            of_hosts: relays.collect(),
        }
    }

    /// The counters of some routers, with their ends of links.
    pub(crate) fn stats_of_routers(
        &self,
        names: &HashSet<RouterId>,
        switch: &OfSwitch,
    ) -> Vec<(RouterStats, Vec<End>)> {
        let routers = self.routers.iter().filter(|router| names.contains(&router.plan.name));
        routers.filter_map(|router| Some((self.stats_of(router, switch)?, ends(router)))).collect()
    }

    fn stats_of(&self, router: &Router, switch: &OfSwitch) -> Option<RouterStats> {
        let substrate = self.substrate.as_ref()?;
        let pool = router.pool.as_ref();
        let inline = pool.and_then(|pool| switch.inline.get(&pool.id)).map(inline_stats);
        let group = router.group.as_ref();
        let kernel_ns = router.interfaces.iter().map(|id| substrate.counters(*id).rx_kernel_ns);
        let interfaces = router.plan.interfaces.iter().zip(&router.interfaces);
        Some(RouterStats {
            name: router.plan.name.to_string(),
            inline,
            ledger: None,
            by_linux: self.slow_paths.by_linux(&router.plan.name),
            state: router.state(Instant::now()),
            pid: router.process.as_ref().and_then(|process| process.body.pid()),
            restarts: router.restarts,
            cpu_ns: inline.map(|of| of.spent_ns).or_else(|| cpu_ns(group)),
            kernel_ns: kernel_ns.sum(),
            memory_bytes: inline.map(|of| of.memory_bytes).or_else(|| memory_bytes(group)),
            pool_bytes: pool.map_or(0, |pool| pool.layout.memory_bytes() as u64),
            wakes: pool.map_or(0, |pool| substrate.pool_state(pool.id).wakes),
            interfaces: interfaces
                .map(|(interface, id)| interface_stats(interface, &substrate.counters(*id)))
                .collect(),
        })
    }

    /// The counters of some ports.
    pub(crate) fn stats_of_ports(
        &mut self,
        names: &HashSet<String>,
        switch: &OfSwitch,
    ) -> Vec<PortStats> {
        let Some(substrate) = &self.substrate else { return Vec::new() };
        let ports = self.ports.iter_mut().filter(|port| names.contains(&port.name));
        let of = ports.map(|port| {
            let entry = substrate.port_entry(port.id).unwrap_or_default();
            let queue = switch.ports.get(&port.id).cloned().unwrap_or_default();
            PortStats {
                name: port.name.clone(),
                device: port.device.name.clone(),
                to_linux: entry.to_linux,
                copies_refused: entry.copies_refused,
                malformed: entry.malformed,
                queued: queue.queued,
                queued_peak: queue.queued_peak,
                device_drops: port.lost(),
            }
        });
        of.collect()
    }
}

/// A router's ends of links.
fn ends(router: &Router) -> Vec<End> {
    let interfaces = router.plan.interfaces.iter().zip(&router.interfaces);
    let end = interfaces.filter_map(|(interface, id)| {
        let from = format!("{}.{}", router.plan.name, interface.name);
        Some(End { interface: *id, link: interface.link.as_ref()?.to_string(), from })
    });
    end.collect()
}
