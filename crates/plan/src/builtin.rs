//! The texts of `builtin: ipv4` and `builtin: bridge`, from the YAML.

use europa_api::{At, Choice, Neighbour, Route, Router, TtlModel};
use europa_elements::builtin;

use crate::interface::InterfacePlan;

/// The settings of `builtin: ipv4`, if the router runs it.
pub(crate) fn description(
    router: &Router,
    interfaces: &[InterfacePlan],
) -> Option<builtin::Description> {
    match router.fast_path.value.choice() {
        // With a slow path, the routes are Linux's.
        Some(Choice::Ipv4 { routes, neighbours }) if router.slow_path.is_none() => {
            Some(describe(router, interfaces, routes, neighbours))
        }
        _ => None,
    }
}

/// A router for IPv4 and IPv6.
pub(crate) fn ipv4(
    router: &Router,
    interfaces: &[InterfacePlan],
    routes: &[At<Route>],
    neighbours: &[At<Neighbour>],
) -> Result<String, String> {
    if router.slow_path.is_some() {
        // Linux has the routes and neighbours; the fast path gets them from there.
        let own = router.interfaces.0.iter().filter(|(name, _)| !name.value.is_host_side());
        let interfaces = described(router, interfaces).into_iter().take(own.count()).collect();
        let description = builtin::Description { interfaces, ..Default::default() };
        return builtin::ipv4_with_host(&description).map_err(|problem| problem.to_string());
    }
    let description = describe(router, interfaces, routes, neighbours);
    builtin::ipv4(&description).map_err(|problem| problem.to_string())
}

/// The settings of a router's label table, if interfaces of it signal.
pub(crate) fn signals(
    router: &Router,
    interfaces: &[InterfacePlan],
) -> Option<builtin::Description> {
    labels(router)?;
    let mut description = describe(router, interfaces, &router.fast_path.routes, &[]);
    let own = router.interfaces.0.iter().filter(|(name, _)| !name.value.is_hidden()).count();
    description.interfaces.truncate(own);
    Some(description)
}

/// The text before a fast path that has no label table of its own; empty if no interface signals.
pub(crate) fn front(router: &Router, interfaces: &[InterfacePlan]) -> Result<String, String> {
    if description(router, interfaces).is_some() {
        return Ok(String::new());
    }
    match signals(router, interfaces) {
        Some(description) => builtin::front(&description).map_err(|problem| problem.to_string()),
        None => Ok(String::new()),
    }
}

fn describe(
    router: &Router,
    interfaces: &[InterfacePlan],
    routes: &[At<Route>],
    neighbours: &[At<Neighbour>],
) -> builtin::Description {
    let routes = routes.iter().map(|route| {
        let route = &route.value;
        let interface = router.route_interface(route);
        let next = match (route.via, interface) {
            (Some(via), interface) => builtin::Next::Via { address: via.value, interface },
            (None, Some(interface)) => builtin::Next::Interface(interface),
            (None, None) => builtin::Next::Blackhole,
        };
        builtin::Route { to: route.to.value, next }
    });
    let neighbours = neighbours.iter().filter_map(|neighbour| {
        let neighbour = &neighbour.value;
        let (interface, _) = router.interface(&neighbour.interface.value)?;
        Some(builtin::Neighbour {
            address: neighbour.address.value,
            mac: neighbour.mac.value.0.into(),
            interface,
        })
    });
    builtin::Description {
        interfaces: described(router, interfaces),
        routes: routes.collect(),
        neighbours: neighbours.collect(),
        labels: labels(router),
    }
}

/// Label switching, if interfaces of the router signal.
fn labels(router: &Router) -> Option<builtin::Labels> {
    let all = router.interfaces.0.iter().enumerate();
    let signal = all.filter_map(|(number, (_, interface))| {
        Some((number, &interface.value.signalling.as_ref()?.rsvp_te))
    });
    let (interfaces, said): (Vec<_>, Vec<_>) = signal.unzip();
    let ttl = said.first()?.ttl.map(|ttl| ttl.value).unwrap_or_default();
    Some(builtin::Labels { interfaces, is_pipe: ttl == TtlModel::Pipe })
}

/// A bridge over all interfaces.
pub(crate) fn bridge(router: &Router, interfaces: &[InterfacePlan]) -> String {
    builtin::bridge(&described(router, interfaces))
}

/// The text for the process of a router whose program runs in the kernel.
pub(crate) fn kernel(router: &Router, interfaces: &[InterfacePlan]) -> String {
    let own = router.interfaces.0.iter().filter(|(name, _)| !name.value.is_hidden()).count();
    let interfaces: Vec<_> = described(router, interfaces).into_iter().take(own).collect();
    let queued = router.interfaces.0.iter().filter_map(|(name, _)| name.value.queue_of());
    builtin::kernel(&interfaces, router.slow_path.is_some(), &queued.collect::<Vec<_>>())
}

fn described(router: &Router, interfaces: &[InterfacePlan]) -> Vec<builtin::Interface> {
    interfaces
        .iter()
        .zip(&router.interfaces.0)
        .map(|(planned, (_, written))| builtin::Interface {
            name: planned.name.clone(),
            mac: planned.spec.mac.into(),
            mtu: planned.mtu,
            addresses: written.value.addresses.iter().map(|address| address.value).collect(),
        })
        .collect()
}
