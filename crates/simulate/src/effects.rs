//! Steps in the simulated kernel: each follows the order that the kernel requires, and may end
//! half-way.

use std::collections::BTreeSet;
use std::sync::Arc;

use europa_api::{Host, Port, Router};
use europa_control::Time;
use europa_plan::{Needs, RelayPlan, RouterId, RouterPlan, Step, hosts, slow_paths};

use crate::world::{Process, SimPort, SimRouter, World};

/// Carries out a step, completely or half-way. An error is an order that the machine refuses: the
/// engine may cause one only after a fault.
pub(crate) fn carry_out(world: &mut World, step: &Step, half: bool) -> Result<(), String> {
    match step {
        Step::RemoveRouter(plan) => remove_router(world, plan, half),
        Step::AddRouter(plan) => add_router(world, plan, half),
        Step::UpdateRouter { to, .. } => update_router(world, to, half),
        Step::OpenPort(port) => open_port(world, port, half),
        Step::ClosePort(port) => close_port(world, port, half),
        Step::ChangePort { to, .. } => change_port(world, to, half),
        Step::AdaptPort { port, to, .. } => adapt_port(world, port, *to, half),
        Step::TrimHosts { to, .. } => trim_hosts(world, to, half),
        Step::MakeHosts { to, .. } => make_hosts(world, to, half),
        Step::ChangeSlowPaths { to, .. } => change_slow_paths(world, to, half),
        Step::StartSlowPaths => {
            world.programs.clone_from(&world.slow_paths);
            Ok(())
        }
        Step::StartSwitch => {
            world.switch = true;
            Ok(())
        }
        Step::ChangeFilters { to, .. } => {
            if half {
                // Applies the rules of one document after the other.
                world.filters = to.iter().take(1).cloned().collect();
                return Ok(());
            }
            world.filters.clone_from(to);
            Ok(())
        }
        Step::RemoveRelay(relay) => {
            if !half {
                world.relays.retain(|other| other.port != relay.port);
            }
            Ok(())
        }
        Step::MakeRelay(relay) => make_relay(world, relay, half),
        Step::ImpairRelay { to, .. } => {
            if !half && let Some(relay) = world.relays.iter_mut().find(|r| r.port == to.port) {
                relay.clone_from(to);
            }
            Ok(())
        }
    }
}

fn remove_router(world: &mut World, plan: &RouterPlan, half: bool) -> Result<(), String> {
    let run = world.next_run();
    let Some(router) = world.routers.get_mut(&plan.name) else {
        world.breaks(format!("router {} is removed and is not there", plan.name));
        return Ok(());
    };
    if half {
        // The router's process has ended; its interfaces remain.
        router.process = Process::Ended(Time::MAX);
        router.run = run;
        router.half = true;
        return Ok(());
    }
    world.routers.remove(&plan.name);
    Ok(())
}

fn add_router(world: &mut World, plan: &Arc<RouterPlan>, half: bool) -> Result<(), String> {
    if world.routers.contains_key(&plan.name) {
        world.breaks(format!("router {} is added twice", plan.name));
        return Ok(());
    }
    for port in plan.ports() {
        let Some(open) = world.ports.get(port) else {
            return Err(format!("port {port} is not open"));
        };
        if world.is_stale(open) {
            return Err(format!("port {port} has lost its device"));
        }
    }
    let vlan = |interface: &europa_plan::InterfacePlan| {
        let spec = &interface.spec;
        (interface.to.port().cloned(), spec.vlan, spec.mac, spec.matches.is_empty())
    };
    let own: Vec<_> = plan.interfaces.iter().map(vlan).filter(|one| one.0.is_some()).collect();
    for other in world.routers.values() {
        let taken = other.plan.interfaces.iter().map(vlan).find(|one| !one.3 && own.contains(one));
        if taken.is_some() {
            return Err(format!("router {}: its match is taken by {}", plan.name, other.plan.name));
        }
    }
    if !half {
        let router = SimRouter {
            plan: plan.clone(),
            astray: false,
            refuses: false,
            half: false,
            process: Process::Starting,
            run: 0,
        };
        world.routers.insert(plan.name.clone(), router);
    }
    Ok(())
}

fn update_router(world: &mut World, to: &Arc<RouterPlan>, half: bool) -> Result<(), String> {
    let Some(router) = world.routers.get_mut(&to.name) else {
        world.breaks(format!("router {} is changed and is not there", to.name));
        return Ok(());
    };
    if !router.plan.is_outside_as(to) {
        let name = to.name.clone();
        world.breaks(format!("router {name} cannot become another while it runs"));
        return Ok(());
    }
    router.plan = to.clone();
    router.astray = half;
    Ok(())
}

fn open_port(world: &mut World, port: &Port, half: bool) -> Result<(), String> {
    let name = europa_plan::PortId::new(&*port.name.value);
    if world.ports.contains_key(&name) {
        world.breaks(format!("port {name} is opened twice"));
        return Ok(());
    }
    world.look(port)?;
    if half {
        return Ok(());
    }
    let generation = match port.namespace {
        Some(_) => None,
        None => world.devices.get(&*port.device.value).map(|device| device.generation),
    };
    let opened = SimPort { document: port.clone(), needs: Needs::default(), generation };
    world.ports.insert(name, opened);
    Ok(())
}

fn close_port(world: &mut World, port: &Port, half: bool) -> Result<(), String> {
    let name = &*port.name.value;
    if world.relays.iter().any(|relay| relay.port == *name) {
        world.breaks(format!("port {name} is closed with a relay in its table"));
    }
    if !half && world.ports.remove(name).is_none() {
        world.breaks(format!("port {name} is closed and is not open"));
    }
    Ok(())
}

fn change_port(world: &mut World, to: &Port, half: bool) -> Result<(), String> {
    world.look(to)?;
    if let Some(port) = world.ports.get_mut(&*to.name.value).filter(|_| !half) {
        port.document = to.clone();
    }
    Ok(())
}

fn adapt_port(world: &mut World, port: &str, to: Needs, half: bool) -> Result<(), String> {
    let Some(open) = world.ports.get_mut(port) else {
        return Err(format!("port {port} is not open"));
    };
    open.needs.vlan |= to.vlan;
    if !half {
        open.needs.promiscuous = to.promiscuous;
    }
    Ok(())
}

fn trim_hosts(world: &mut World, to: &[Host], half: bool) -> Result<(), String> {
    for port in hosts::cut_ports(&world.hosts, to) {
        if world.ports.contains_key(&port) {
            world.breaks(format!("the device of port {port} goes before the port"));
        }
    }
    let cut = hosts::cut(&world.hosts, to);
    let most = if half { cut.len() / 2 } else { cut.len() };
    for (host, interface) in cut.into_iter().take(most) {
        if let Some(host) = world.hosts.iter_mut().find(|other| *other.name.value == *host) {
            host.interfaces.0.retain(|(name, _)| *name.value != *interface);
        }
    }
    if !half {
        world.hosts.retain(|old| to.iter().any(|new| hosts::stays(old, new)));
    }
    Ok(())
}

fn make_hosts(world: &mut World, to: &[Host], half: bool) -> Result<(), String> {
    let most = if half { to.len() / 2 } else { to.len() };
    for new in to.iter().take(most) {
        match world.hosts.iter_mut().find(|old| old.name == new.name) {
            Some(old) => old.clone_from(new),
            None => world.hosts.push(new.clone()),
        }
    }
    if !half {
        world.hosts = to.to_vec();
    }
    Ok(())
}

fn change_slow_paths(world: &mut World, to: &[Router], half: bool) -> Result<(), String> {
    let wanted = |router: &Router| to.iter().find(|other| other.full_name() == router.full_name());
    let stays = |made: &Router| wanted(made).is_some_and(|new| slow_paths::same(made, new));
    let gone: Vec<RouterId> = world
        .slow_paths
        .iter()
        .filter(|(_, made)| !stays(made))
        .map(|(name, _)| name.clone())
        .collect();
    for name in &gone {
        let open = world.ports.keys().find(|port| slow_paths::router_of(port) == Some(&**name));
        if let Some(port) = open {
            let rule = format!("the device of port {port} goes before the port");
            world.breaks(rule);
        }
        world.slow_paths.remove(name);
        world.programs.remove(name);
    }
    let most = if half { to.len() / 2 } else { to.len() };
    for router in to.iter().take(most) {
        world.slow_paths.insert(RouterId::of(router), router.clone());
    }
    // Only when all have been made.
    let has = |router: &&Router| router.slow_path.as_ref().is_some_and(|one| one.has_uplink());
    world.uplinks =
        if half { BTreeSet::new() } else { to.iter().filter(has).map(RouterId::of).collect() };
    Ok(())
}

fn make_relay(world: &mut World, relay: &RelayPlan, half: bool) -> Result<(), String> {
    if !world.ports.contains_key(&relay.port) {
        return Err(format!("port {} is not open", relay.port));
    }
    if world.relays.iter().any(|other| other.port == relay.port) {
        world.breaks(format!("there are two relays at {}", relay.port));
    }
    if !half {
        world.relays.push(relay.clone());
    }
    Ok(())
}
