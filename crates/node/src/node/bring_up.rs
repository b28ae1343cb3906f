//! From documents to ports and routers that run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use europa_api::Documents;
use europa_sandbox::cgroup::Limits;
use europa_substrate::Substrate;

use super::Node;
use super::tunnels::{PATIENCE, encap};
use crate::plan::{RouterPlan, To, plan};
use crate::ports::Port;
use crate::relays::Relay;
use crate::router::Router;
use crate::switch::Lasting;
use crate::{NodeError, capture, hosts, leftovers, relays};

/// CPU weight of the switch, of ten routers: all of them wait for it.
const SWITCH_WEIGHT: u64 = 1000;
/// How long a router may take to read its configuration when it is brought up.
const READY: Duration = Duration::from_secs(30);

impl Node {
    /// Whether it has been brought up.
    pub(super) fn is_up(&self) -> bool {
        !self.routers.is_empty() || !self.ports.is_empty() || !self.hosts.is_empty()
    }

    pub(super) fn up(&mut self, files: &[PathBuf], colour: bool) -> Result<(), String> {
        let documents = europa_api::load(files).map_err(|problems| problems.render(colour))?;
        self.bring_up(&documents).map_err(|error| error.to_string())
    }

    pub(super) fn bring_up(&mut self, documents: &Documents) -> Result<(), NodeError> {
        let mut substrate = Substrate::open(&self.instance.pins())?;
        let lasting = Lasting::new(&substrate)?;
        self.hosts = hosts::make(&self.instance, documents)?;
        let made = hosts::ports(&self.instance, documents);
        for (id, document) in (1..).zip(documents.ports.iter().chain(&made)) {
            let on_it = interfaces_on(documents, &document.name.value.to_string());
            let port = Port::open(id, document, on_it.vlan, on_it.promiscuous)?;
            self.ports.push(port);
            let undos: Vec<_> = self.ports.iter().map(|port| &port.undo).collect();
            leftovers::note(&self.instance, &undos)?;
        }
        let facts: HashMap<_, _> =
            self.ports.iter().map(|port| (port.name.clone(), port.facts())).collect();
        let plans = plan(documents, &facts)?;
        for port in &mut self.ports {
            port.attach(&mut substrate)?;
            for limitation in &port.limitations {
                tracing::warn!("port {}: {limitation}", port.name);
            }
        }
        self.substrate = Some(substrate);
        self.lasting = Some(lasting);
        for (number, plan) in (0..).zip(plans) {
            self.add_router(number, plan)?;
        }
        for plan in relays::plan(documents) {
            let port = self.ports.iter().find(|port| port.name == plan.port);
            let attachment = port.and_then(|port| port.attachment.as_ref());
            self.relays.push(Relay::make(plan, self.substrate()?, attachment)?);
        }
        self.switch_group = self.group("switch");
        if let Some(group) = &self.switch_group {
            let cpu_weight = Some(SWITCH_WEIGHT);
            group.set(&Limits { cpu_weight, ..Limits::default() })?;
        }
        self.start_switch()?;
        for index in 0..self.routers.len() {
            self.begin_router(index)?;
        }
        for router in &mut self.routers {
            if let Some(mut process) = router.process.take() {
                process.await_ready(router, READY)?;
                router.process = Some(process);
            }
        }
        let scene = capture::scene(documents, &self.ports, &self.routers);
        self.captures.know(scene, &self.lasting()?.taps);
        for host in documents.hosts.iter().filter(|host| !host.run.is_empty()) {
            let name = format!("host.{}", host.name);
            let (log, group) = (self.log(&name)?, self.group(&name));
            self.running.push(hosts::run(&self.instance, host, log, group.as_ref())?);
        }
        Ok(())
    }

    pub(super) fn add_router(
        &mut self,
        number: u32,
        mut plan: RouterPlan,
    ) -> Result<(), NodeError> {
        for interface in &mut plan.interfaces {
            let To::Port(name) = &interface.to else { continue };
            if let (Some(tunnel), Some(port)) =
                (interface.tunnel, self.ports.iter().find(|port| port.name == *name))
            {
                interface.spec.encap = encap(port, tunnel, PATIENCE)?;
            }
        }
        let group = self.group(&plan.name);
        let mut router = Router::new(number, plan, group)?;
        let pool = self.take_pool(router.plan.geometry)?;
        pool.name_interfaces(&router.plan.rows())?;
        for interface in &router.plan.interfaces {
            let port = match &interface.to {
                To::Port(name) => self.ports.iter().find(|port| port.name == *name),
                To::Link { .. } => None,
            };
            let attachment = port.and_then(|port| port.attachment.as_ref());
            let id = self.substrate()?.add_interface(&interface.spec, attachment, &pool).map_err(
                |error| {
                    NodeError::Refused(format!(
                        "router {}: interface {}: {error}",
                        router.plan.name, interface.name
                    ))
                },
            )?;
            router.interfaces.push(id);
        }
        router.pool = Some(pool);
        self.routers.push(router);
        Ok(())
    }
}

/// What a port must be able to do for the interfaces on it.
struct OnPort {
    vlan: bool,
    promiscuous: bool,
}

fn interfaces_on(documents: &Documents, port: &str) -> OnPort {
    let interfaces = documents.routers.iter().flat_map(|router| &router.interfaces.0);
    let on: Vec<_> = interfaces
        .map(|(_, interface)| &interface.value)
        .filter(|interface| interface.port.as_ref().is_some_and(|p| *p.value.to_string() == *port))
        .collect();
    OnPort {
        vlan: on.iter().any(|interface| interface.vlan().is_some()),
        // Addresses of its own, or everybody's.
        promiscuous: hosts::is_hidden(port)
            || on.iter().any(|interface| {
                matches!(
                    interface.selector(),
                    europa_api::Selector::Mac | europa_api::Selector::All
                )
            }),
    }
}
