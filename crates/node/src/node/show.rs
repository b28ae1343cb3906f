//! Descriptions of all objects.

use std::collections::BTreeMap;
use std::time::Instant;

use europa_api::Mac;
use europa_api::rest::{NodeInfo, ProblemDetails, Status};
use europa_plan::To;
use europa_port::LinkState;
use serde_json::{Map, Value, json};

use super::Node;
use crate::Lifetime;
use crate::router::Router;
use crate::switch::Lasting;

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

    /// The states of objects of a kind.
    pub(crate) fn states(&self, kind: &str, names: &[String]) -> Vec<Status> {
        let state = |name: &String| match kind {
            "port" => self.port_status(name),
            "router" => self.router_status(name),
            "host" => self.host_status(name),
            "flow" => self.flow_status(name),
            _ => Status { state: "active".into(), ..Status::default() },
        };
        names.iter().map(state).collect()
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

    /// Whether there is a host of this name.
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

    /// Routers with a packet ledger: those that run a graph.
    pub(crate) fn accountable(&self) -> Vec<String> {
        let runs = |router: &&Router| {
            router.plan.program().is_empty() && router.process.as_ref().is_some_and(|one| one.ready)
        };
        self.routers.iter().filter(runs).map(|router| router.plan.name.to_string()).collect()
    }
}
