//! What is told of everything.

use std::time::Instant;

use super::Node;
use crate::stats::{InterfaceStats, LinkStats, NodeStats, PortStats, RouterStats};
use crate::switch::Switch;

impl Node {
    pub(super) fn summary(&self) -> Vec<String> {
        let ports = self.ports.iter().flat_map(|port| {
            let way = if port.live { "" } else { ", by socket only" };
            let line = format!(
                "port {} is {} ({}, MTU {}{way})",
                port.name, port.device.name, port.device.kind, port.mtu
            );
            let warnings = port.limitations.iter().map(|what| format!("  warning: {what}"));
            std::iter::once(line).chain(warnings).collect::<Vec<_>>()
        });
        let routers = self.routers.iter().map(|router| {
            let pid = router.process.as_ref().map_or(0, |process| process.child.pid());
            let names: Vec<&str> =
                router.plan.interfaces.iter().map(|interface| interface.name.as_str()).collect();
            format!("router {} runs as process {pid}: {}", router.plan.name, names.join(", "))
        });
        let hosts = self.hosts.iter().map(|host| {
            let names: Vec<&str> = host.interfaces.iter().map(|i| i.name.as_str()).collect();
            format!("host {} is in {}: {}", host.name, host.namespace, names.join(", "))
        });
        ports.chain(routers).chain(hosts).collect()
    }

    pub(super) fn stats(&mut self) -> NodeStats {
        let now = Instant::now();
        let switch = self.switch.as_mut().and_then(Switch::stats);
        let Some(substrate) = &self.substrate else { return NodeStats::default() };
        let routers = self.routers.iter().map(|router| RouterStats {
            name: router.plan.name.clone(),
            state: router.state(now),
            pid: router.process.as_ref().map(|process| process.child.pid()),
            restarts: router.restarts,
            pool_bytes: router.pool.as_ref().map_or(0, |pool| pool.layout.memory_bytes() as u64),
            wakes: router.pool.as_ref().map_or(0, |pool| substrate.pool_state(pool.id).wakes),
            interfaces: router
                .plan
                .interfaces
                .iter()
                .zip(&router.interfaces)
                .map(|(interface, id)| InterfaceStats::of(interface, &substrate.counters(*id)))
                .collect(),
        });
        let ports = self.ports.iter().map(|port| {
            let entry = substrate.port_entry(port.id).unwrap_or_default();
            let queue = switch
                .as_ref()
                .and_then(|switch| switch.ports.iter().find(|p| p.port == port.id))
                .cloned()
                .unwrap_or_default();
            PortStats {
                name: port.name.clone(),
                device: port.device.name.clone(),
                to_linux: entry.to_linux,
                copies_refused: entry.copies_refused,
                malformed: entry.malformed,
                queued: queue.queued,
                queued_peak: queue.queued_peak,
                device_drops: queue.device_drops,
            }
        });
        let of = switch.as_ref().map_or(&[][..], |switch| &switch.links);
        let routers_ends = self.routers.iter().flat_map(|router| {
            let all = router.plan.interfaces.iter().zip(&router.interfaces);
            all.filter_map(|(interface, id)| {
                let from = format!("{}.{}", router.plan.name, interface.name);
                Some((*id, interface.link.clone()?, from))
            })
        });
        let relays = &self.relays;
        let hosts_ends = relays
            .iter()
            .map(|relay| (relay.interface, relay.plan.link.clone(), relay.plan.port.clone()));
        let links = routers_ends.chain(hosts_ends).filter_map(|(id, name, from)| {
            let found = of.iter().find(|link| link.interface == id)?;
            Some(LinkStats::of(name, from, &found.packets))
        });
        let links = links.collect();
        NodeStats {
            hosts: self.hosts.clone(),
            links,
            routers: routers.collect(),
            ports: ports.collect(),
            switch_restarts: self.revival.restarts,
            switch,
        }
    }
}
