//! Descriptions of all objects.

use std::collections::BTreeMap;
use std::time::Instant;

use europa_api::Mac;
use europa_api::rest::{NodeInfo, Object, ProblemDetails, Status};
use europa_api::stats::{LinkStats, NodeStats, PortStats, RouterStats, SwitchStats};
use europa_plan::To;
use europa_port::LinkState;
use serde_json::{Map, Value, json};

use super::Node;
use crate::Lifetime;
use crate::router::Router;
use crate::stats::{
    add_way, cpu_ns, inline as inline_stats, interface as interface_stats, link as link_stats,
    memory_bytes, now_ns,
};
use crate::store::Stored;
use crate::switch::{Lasting, Switch};

impl Node {
    /// About the node itself.
    pub(crate) fn info(&self) -> NodeInfo {
        NodeInfo {
            instance: self.instance.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            long_turns: self.turns.long,
            longest_turn_us: self.turns.longest_us(),
            since: self.since.clone(),
            revision: self.engine.accepted().revision,
            temporary: self.lifetime == Lifetime::Temporary,
            settled: self.engine.is_settled(),
            metrics_at: None,
            listens_at: None,
            ssh_at: self.settings.ssh_at.map(|at| at.to_string()),
            workers: self.lasting.as_ref().map_or(self.settings.workers, Lasting::workers),
        }
    }

    /// Documents of a kind, and their states.
    pub(crate) fn objects(&self, kind: &str) -> Vec<Object> {
        let of_kind = self.engine.accepted().stored.iter().filter(|stored| stored.key.kind == kind);
        of_kind.map(|stored| self.object(stored)).collect()
    }

    fn object(&self, stored: &Stored) -> Object {
        let name = &stored.key.name;
        let status = match stored.key.kind.as_str() {
            "port" => self.port_status(name),
            "router" => self.router_status(name),
            "host" => self.host_status(name),
            "flow" => self.flow_status(name),
            _ => Status { state: "active".into(), ..Status::default() },
        };
        Object {
            kind: stored.key.kind.clone(),
            name: name.clone(),
            generation: stored.generation,
            changed: stored.changed.clone(),
            document: serde_json::from_str(&stored.document).unwrap_or_default(),
            status,
        }
    }

    fn flow_status(&self, name: &str) -> Status {
        let news = self.signallers.news(name);
        let state = if news.is_up { "up" } else { "down" };
        Status { state: state.into(), message: news.message, ..Status::default() }
    }

    fn port_status(&self, name: &str) -> Status {
        let Some(port) = self.ports.iter().find(|port| port.name == name) else {
            let message = "its device is not there yet".to_owned();
            return Status { state: "missing".into(), message: Some(message), ..Status::default() };
        };
        let state = match port.link {
            Some(LinkState::Down) => "down",
            Some(LinkState::Gone) => "missing",
            _ => "attached",
        };
        let details = [
            ("device", json!(port.device.name)),
            ("kind", json!(port.device.kind.to_string())),
            ("mac", json!(Mac(port.device.mac).to_string())),
            ("mtu", json!(port.mtu)),
            ("live_frames", json!(port.live)),
            ("receives_by", json!(port.receives_by())),
        ];
        let all: Vec<String> = port.limitations.iter().map(ToString::to_string).collect();
        Status {
            state: state.into(),
            message: (!all.is_empty()).then(|| all.join("; ")),
            details: details.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    fn host_status(&self, name: &str) -> Status {
        let Some(host) = self.hosts.iter().find(|host| host.name == name) else {
            return Status { state: "waiting".into(), ..Status::default() };
        };
        let details = BTreeMap::from([
            ("namespace".to_owned(), json!(host.namespace)),
            ("interfaces".to_owned(), json!(host.interfaces)),
        ]);
        let failed = self.hosts_failed.get(name).cloned();
        let state = if failed.is_some() { "degraded" } else { "active" };
        Status { state: state.into(), message: failed, details }
    }

    fn router_status(&self, name: &str) -> Status {
        let Some(router) = self.routers.iter().find(|router| router.plan.name == name) else {
            let message = "a port that it needs is not there yet, or its turn has not come";
            return Status {
                state: "waiting".into(),
                message: Some(message.into()),
                ..Status::default()
            };
        };
        let trouble = self.slow_paths.trouble(name);
        let state = match &router.process {
            Some(process) if process.ready && trouble.is_some() => "degraded",
            Some(process) if process.ready => "running",
            Some(_) => "starting",
            None => "ended",
        };
        let interfaces: Map<String, Value> = router
            .plan
            .interfaces
            .iter()
            .map(|interface| {
                let to = match &interface.to {
                    To::Port(port) => json!({ "port": **port }),
                    To::Link(end) => json!({ "link_to": *end.router }),
                    To::Far(end) => json!({ "link_to": end.remote.ip().to_string() }),
                    To::Nowhere => json!({ "link_to": null }),
                };
                let mac = Mac(interface.spec.mac).to_string();
                let mut told = json!({ "mac": mac, "mtu": interface.mtu });
                if let (Some(told), Value::Object(to)) = (told.as_object_mut(), to) {
                    told.extend(to);
                }
                (interface.name.clone(), told)
            })
            .collect();
        let mut details = BTreeMap::from([
            ("restarts".to_owned(), json!(router.restarts)),
            ("interfaces".to_owned(), Value::Object(interfaces)),
        ]);
        if let Some(status) = self.slow_paths.status(name) {
            details.insert("slow_path".to_owned(), status);
        }
        if let Some(process) = &router.process {
            match process.body.pid() {
                Some(pid) => details.insert("pid".to_owned(), json!(pid)),
                None => details.insert("run".to_owned(), json!("inline")),
            };
            details.insert("seconds".to_owned(), json!(process.started.elapsed().as_secs()));
        }
        let ended = router.process.is_none().then(|| router.state(Instant::now()));
        let message = ended.or(trouble);
        Status { state: state.into(), message, details }
    }

    /// True if there is a host of this name.
    pub(crate) fn has_host(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.name == name)
    }

    /// Whether there is a router `of`, or a program `of` of a router's slow path.
    pub(crate) fn known_log(&self, of: &str) -> Result<(), ProblemDetails> {
        let (router, program) = match of.split_once('.') {
            Some((router, program)) => (router, Some(program)),
            None => (of, None),
        };
        self.known_router(router)?;
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

    /// Routers that can tell where their packets are: those that run a graph.
    pub(crate) fn accountable(&self) -> Vec<String> {
        let runs = |router: &&Router| {
            router.plan.program().is_empty() && router.process.as_ref().is_some_and(|one| one.ready)
        };
        self.routers.iter().filter(runs).map(|router| router.plan.name.to_string()).collect()
    }

    /// Counters of everything.
    pub(crate) fn stats(&mut self) -> NodeStats {
        let now = Instant::now();
        let switch = self.switch.as_mut().and_then(Switch::stats);
        let at_ns = now_ns();
        let tunnels = self.tunnel_stats(switch.as_ref());
        let Some(substrate) = &self.substrate else { return NodeStats::default() };
        let inline = |router: &Router| {
            let pool = router.pool.as_ref()?.id;
            let all = &switch.as_ref()?.inline;
            all.iter().find(|found| found.pool == pool).map(inline_stats)
        };
        let of_routers = self.routers.iter().map(|router| (router, inline(router)));
        let routers = of_routers.map(|(router, inline)| RouterStats {
            name: router.plan.name.to_string(),
            inline,
            ledger: None,
            by_linux: self.slow_paths.by_linux(&router.plan.name),
            state: router.state(now),
            pid: router.process.as_ref().and_then(|process| process.body.pid()),
            restarts: router.restarts,
            cpu_ns: inline.map(|of| of.spent_ns).or_else(|| cpu_ns(router.group.as_ref())),
            kernel_ns: router
                .interfaces
                .iter()
                .map(|id| substrate.counters(*id).rx_kernel_ns)
                .sum(),
            memory_bytes: inline
                .map(|of| of.memory_bytes)
                .or_else(|| memory_bytes(router.group.as_ref())),
            pool_bytes: router.pool.as_ref().map_or(0, |pool| pool.layout.memory_bytes() as u64),
            wakes: router.pool.as_ref().map_or(0, |pool| substrate.pool_state(pool.id).wakes),
            interfaces: router
                .plan
                .interfaces
                .iter()
                .zip(&router.interfaces)
                .map(|(interface, id)| interface_stats(interface, &substrate.counters(*id)))
                .collect(),
        });
        let mut routers: Vec<RouterStats> = routers.collect();
        let ports = self.ports.iter_mut().map(|port| {
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
                device_drops: port.lost(),
            }
        });
        let of = switch.as_ref().map_or(&[][..], |switch| &switch.links);
        let routers_ends = self.routers.iter().flat_map(|router| {
            let all = router.plan.interfaces.iter().zip(&router.interfaces);
            all.filter_map(|(interface, id)| {
                let from = format!("{}.{}", router.plan.name, interface.name);
                Some((*id, interface.link.as_ref()?.to_string(), from))
            })
        });
        let relays = &self.relays;
        let hosts_ends = relays.iter().map(|relay| {
            (relay.interface, relay.plan.link.to_string(), relay.plan.port.to_string())
        });
        let links = routers_ends.chain(hosts_ends).filter_map(|(id, name, from)| {
            let found = of.iter().find(|link| link.interface == id)?;
            Some(link_stats(name, from, &found.packets))
        });
        let links: Vec<LinkStats> = links.collect();
        let queues = self.queues.stats(&self.routers);
        for router in &mut routers {
            for interface in &mut router.interfaces {
                let from = format!("{}.{}", router.name, interface.name);
                let link = links.iter().find(|link| link.from == from);
                let (slice, name) = router.name.split_once('/').unwrap_or_default();
                add_way(&mut interface.sending, link, &queues, (slice, name, &interface.name));
            }
        }
        let switch_cpu_ns = cpu_ns(self.switch_group.as_ref());
        NodeStats {
            at_ns,
            hosts: self.hosts.clone(),
            links,
            tunnels,
            queues,
            routers,
            ports: ports.collect(),
            switch_restarts: self.revival.restarts,
            switch: switch.map(|switch| SwitchStats {
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
        }
    }
}
