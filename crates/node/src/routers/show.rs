//! States and counters of routers.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use europa_api::Mac;
use europa_api::rest::{ProblemDetails, Status};
use europa_api::stats::RouterStats;
use europa_plan::{RouterId, To};
use europa_substrate::Substrate;
use serde_json::{Map, Value, json};

use super::{Router, Routers};
use crate::slow_path::SlowPaths;
use crate::stats::{
    End, OfSwitch, cpu_ns, inline as inline_stats, interface as interface_stats, memory_bytes,
};

impl Router {
    /// Whether its process forwards, and changes nothing any more.
    pub(crate) fn forwards(&self) -> bool {
        !self.astray && self.process.as_ref().is_some_and(|one| one.ready && !one.changes())
    }
}

impl Routers {
    /// Whether there is such a router.
    ///
    /// # Errors
    /// Which ones there are.
    pub(crate) fn known(&self, name: &str) -> Result<(), ProblemDetails> {
        if self.place_of(name).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = self.all.iter().map(|r| &*r.plan.name).collect();
        let known = match names.as_slice() {
            [] => "there is none at all".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        Err(ProblemDetails::not_found(format!("there is no router {name}; {known}")))
    }

    /// Routers that can tell where their packets are: those that run a graph.
    pub(crate) fn accountable(&self) -> Vec<String> {
        let runs = |router: &&Router| {
            router.plan.program().is_empty() && router.process.as_ref().is_some_and(|one| one.ready)
        };
        self.all.iter().filter(runs).map(|router| router.plan.name.to_string()).collect()
    }

    /// The state of one.
    pub(crate) fn status(&self, slow_paths: &SlowPaths, name: &str) -> Status {
        let Some(router) = self.all.iter().find(|router| router.plan.name == name) else {
            let message = "a port that it needs is not there yet, or its turn has not come";
            return Status {
                state: "waiting".into(),
                message: Some(message.into()),
                ..Status::default()
            };
        };
        let trouble = slow_paths.trouble(name);
        let state = match &router.process {
            Some(process) if process.ready && trouble.is_some() => "degraded",
            Some(process) if process.ready => "running",
            Some(_) => "starting",
            None => "ended",
        };
        let mut details = BTreeMap::from([
            ("restarts".to_owned(), json!(router.restarts)),
            ("interfaces".to_owned(), Value::Object(interfaces(router))),
        ]);
        if let Some(status) = slow_paths.status(name) {
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

    /// The counters of some routers, with their ends of links.
    pub(crate) fn stats(
        &self,
        substrate: &Substrate,
        slow_paths: &SlowPaths,
        names: &HashSet<RouterId>,
        switch: &OfSwitch,
    ) -> Vec<(RouterStats, Vec<End>)> {
        let routers = self.all.iter().filter(|router| names.contains(&router.plan.name));
        let of = |router| (stats(router, substrate, slow_paths, switch), ends(router));
        routers.map(of).collect()
    }
}

/// A router's interfaces, as its status has them.
fn interfaces(router: &Router) -> Map<String, Value> {
    let of = |interface: &europa_plan::InterfacePlan| {
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
    };
    router.plan.interfaces.iter().map(of).collect()
}

/// The counters of a router.
fn stats(
    router: &Router,
    substrate: &Substrate,
    slow_paths: &SlowPaths,
    switch: &OfSwitch,
) -> RouterStats {
    let pool = router.pool.as_ref();
    let inline = pool.and_then(|pool| switch.inline.get(&pool.id)).map(inline_stats);
    let group = router.group.as_ref();
    let kernel_ns = router.interfaces.iter().map(|id| substrate.counters(*id).rx_kernel_ns);
    let interfaces = router.plan.interfaces.iter().zip(&router.interfaces);
    RouterStats {
        name: router.plan.name.to_string(),
        inline,
        ledger: None,
        by_linux: slow_paths.by_linux(&router.plan.name),
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
