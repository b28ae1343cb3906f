//! A router that comes.

use std::sync::Arc;
use std::time::Instant;

use europa_api::{Fault, Key};
use europa_plan::RouterPlan;
use europa_substrate::PoolHandle;

use super::around::{Around, attachment};
use super::follow::{PATIENCE, encap};
use super::process::Process;
use super::router::wake_name;
use super::{Router, Routers};
use crate::NodeError;
use crate::announce::announce;
use crate::switch::unless_gone;

impl Routers {
    /// Makes a router's pool, interfaces and process; it becomes ready later.
    pub(crate) fn add(
        &mut self,
        around: &mut Around<'_>,
        plan: Arc<RouterPlan>,
    ) -> Result<(), NodeError> {
        let name = plan.name.clone();
        let added = self.try_add(around, plan);
        if added.is_err() {
            let _ = self.remove(around, &name);
        }
        added
    }

    fn try_add(&mut self, around: &mut Around<'_>, plan: Arc<RouterPlan>) -> Result<(), NodeError> {
        around.tunnels.open_all(&plan)?;
        let context = around.context;
        let group = if plan.is_inline() { None } else { context.router_group(&plan.name) };
        let number = self.free_number();
        let wake = context.kept.new_bell(&wake_name(number))?;
        let mut router = Router::new(number, plan, group, wake)?;
        encapsulate(&mut router, around)?;
        let substrate = around.up()?;
        let pool = around.pools.take(substrate, router.plan.geometry)?;
        pool.name_interfaces(&router.plan.rows())?;
        around.switch.note_come(&router.plan.name);
        // From here on it is removed if something fails.
        let index = self.all.len();
        self.all.push(router);
        let Some(router) = self.all.last_mut() else { return Ok(()) };
        let entered = enter(router, around, &pool);
        router.pool = Some(pool);
        entered?;
        if let Some(substrate) = around.substrate {
            for (from, relay) in router.relays() {
                substrate.set_relay(from, relay);
            }
        }
        let (objects, switch) = around.split(&self.all);
        if let (Some(switch), Some(router)) = (switch, self.all.get(index)) {
            let told = objects
                .tell_pool(switch, router)
                .and_then(|()| objects.tell_interfaces(switch, router))
                .and_then(|()| objects.tell_peers(switch, &router.plan.name));
            unless_gone(told)?;
        }
        self.begin(around, index)
    }

    /// Starts a router's process on the pool it has.
    fn begin(&mut self, around: &mut Around<'_>, index: usize) -> Result<(), NodeError> {
        let (due, runs) = (around.switch.due(), around.switch.runs());
        if let Some(router) = self.all.get_mut(index)
            && router.plan.is_inline()
            && !runs
        {
            // There will be one to run in.
            router.due = Some(due.unwrap_or_else(Instant::now));
            return Ok(());
        }
        let Some(process) = self.begin_process(around, index)? else { return Ok(()) };
        if let Some(router) = self.all.get_mut(index) {
            router.process = Some(process);
            router.due = None;
        }
        Ok(())
    }

    fn begin_process(
        &self,
        around: &mut Around<'_>,
        index: usize,
    ) -> Result<Option<Process>, NodeError> {
        let Some(router) = self.all.get(index) else { return Ok(None) };
        let mut process = self.spawn(around, router)?;
        if let Some(pool) = &router.pool {
            start(&mut process, around, router, pool)?;
        }
        Ok(Some(process))
    }

    /// Starts a process for a router. It waits for its settings.
    pub(super) fn spawn(&self, around: &Around<'_>, router: &Router) -> Result<Process, NodeError> {
        let context = around.context;
        let cores = self.cores_for(&context.cores, router);
        router.spawn(context.log(&router.plan.name)?, &cores)
    }
}

/// Gives a process its settings, and has it follow its Linux.
pub(super) fn start(
    process: &mut Process,
    around: &mut Around<'_>,
    router: &Router,
    pool: &PoolHandle,
) -> Result<(), NodeError> {
    let context = around.context;
    let (lasting, switch) = around.switch.with_lasting()?;
    process.begin(router, pool, lasting, &context.kept, switch)?;
    // The tables of a kernel router's program are another matter.
    if router.plan.cage.is_none() {
        around.slow_paths.follow(&router.plan.name, process, &context.events)?;
    }
    Ok(())
}

/// Sets the outer headers of a router's tunnels.
fn encapsulate(router: &mut Router, around: &Around<'_>) -> Result<(), NodeError> {
    for interface in &mut router.plan.interfaces {
        let Some(name) = interface.to.port() else { continue };
        if let (Some(tunnel), Some(port)) =
            (interface.tunnel, around.ports.iter().find(|port| port.name == **name))
        {
            interface.spec.encap = encap(port, tunnel, PATIENCE).map_err(|error| {
                let why = format!("interface {}: {error}", interface.name);
                let path = ["interfaces", &interface.name, "match", "vxlan", "remote"];
                Fault::new(Key::new("router", &*router.plan.name), &path, why)
            })?;
        }
    }
    Ok(())
}

/// Enters a router's interfaces into the tables, as far as they can be.
fn enter(router: &mut Router, around: &Around<'_>, pool: &PoolHandle) -> Result<(), NodeError> {
    let substrate = around.up()?;
    for interface in &router.plan.interfaces {
        let port = attachment(around.ports, interface.to.port().map(|port| &**port));
        let added = substrate.add_interface(&interface.spec, port, pool);
        let id = added.map_err(|error| {
            let why = format!("interface {}: {error}", interface.name);
            let path = ["interfaces", &interface.name, "match"];
            Fault::new(Key::new("router", &*router.plan.name), &path, why)
        })?;
        router.interfaces.push(id);
        let Some(name) = interface.to.port() else { continue };
        if let Some(port) = around.ports.iter().find(|port| port.name == **name)
            && let Err(error) = announce(substrate, &port.device, interface)
        {
            // Stations find the router without an announcement, but later.
            let events = &around.context.events;
            events.warn("router", &router.plan.name, "Failed", error.to_string());
        }
    }
    Ok(())
}
