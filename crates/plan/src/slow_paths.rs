//! Slow paths: the hidden ports and interfaces that they need.
//!
//! Before the state is planned, a router with a slow path gets a hidden port and a hidden interface
//! `NAME@host` for each of its interfaces. The port is the outer end of a veth pair; the inner end
//! is the interface in the router's namespace. Apart from this, they are ordinary ports and
//! interfaces.

use europa_api::{At, Documents, Mac, Match, Name, Port, Receive, Router};

/// The ending of hidden ports' names.
const HIDDEN: &str = "@host";

/// The name of the hidden port of an interface.
pub fn port_name(router: &str, interface: &str) -> String {
    format!("{router}.{interface}{HIDDEN}")
}

/// Whether a port belongs to a slow path.
pub fn is_hidden(port: &str) -> bool {
    port.ends_with(HIDDEN)
}

/// The router of a hidden port.
pub fn router_of(port: &str) -> Option<&str> {
    Some(port.strip_suffix(HIDDEN)?.rsplit_once('.')?.0)
}

/// Adds the hidden interfaces to routers with a slow path, and the hidden ports that these need, in
/// the network namespace of this name.
pub fn expand(outside: &str, documents: &Documents) -> (Documents, Vec<Port>) {
    let mut expanded = documents.clone();
    for router in &mut expanded.routers {
        if router.slow_path.is_none() {
            continue;
        }
        let full = router.full_name();
        let names: Vec<_> =
            router.interfaces.0.iter().map(|(name, _)| name.value.clone()).collect();
        for name in names {
            let port = Name::hidden(port_name(&full, &name));
            router.interfaces.0.push((at(name.host_side()), at(host_interface(port))));
        }
    }
    (expanded, ports(outside, documents))
}

/// The hidden ports of slow paths, in the network namespace of this name.
pub fn ports(outside: &str, documents: &Documents) -> Vec<Port> {
    let slow = documents.routers.iter().filter(|router| router.slow_path.is_some());
    let of = |router: &Router| {
        let full = router.full_name();
        let names = router.interfaces.0.iter().map(|(name, _)| name);
        names.map(|name| port(outside, &full, &name.value)).collect::<Vec<_>>()
    };
    slow.flat_map(of).collect()
}

fn port(outside: &str, router: &str, interface: &str) -> Port {
    Port {
        name: at(Name::hidden(port_name(router, interface))),
        node: None,
        device: at(outer_name(router, interface)),
        namespace: Some(at(outside.to_owned())),
        rate: None,
        mtu: None,
        receive: Receive::Auto,
    }
}

/// The device name of an interface's outer end: at most 15 characters, and always the same.
pub fn outer_name(router: &str, interface: &str) -> String {
    let Mac(bytes) = Mac::generated(&format!("{router}.{interface}"));
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("h{digits}")
}

/// The hidden interface on a hidden port, which owns all packets of the port.
fn host_interface(port: Name) -> europa_api::Interface {
    europa_api::Interface {
        port: Some(at(port)),
        standby: None,
        link: None,
        matches: Some(at(Match { all: Some(at(true)), ..Match::default() })),
        mac: None,
        addresses: Vec::new(),
        mtu: None,
        bind: Vec::new(),
        queues: europa_api::Queues::default(),
        signalling: None,
    }
}

fn at<T>(value: T) -> At<T> {
    At { value, place: Default::default() }
}

/// Whether two documents of a router with a slow path need the same namespace and devices. Files,
/// programs, the uplink, static routes and neighbours change in place; the root directory does not.
pub fn same(one: &Router, other: &Router) -> bool {
    fn root(of: &Router) -> Option<&String> {
        of.slow_path.as_ref()?.root.as_ref().map(|root| &root.value)
    }
    one.interfaces == other.interfaces && root(one) == root(other)
}

/// Whether two documents of a router describe the same slow path in all fields.
pub fn same_whole(one: &Router, other: &Router) -> bool {
    same(one, other) && one.slow_path == other.slow_path && same_static(one, other)
}

/// A router's document with or without an uplink.
pub fn with_uplink(router: &Router, has: bool) -> Router {
    let mut router = router.clone();
    if let Some(slow_path) = &mut router.slow_path
        && slow_path.has_uplink() != has
    {
        slow_path.value.uplink = has.then(|| at(true));
    }
    router
}

/// Whether two documents of a router have the same static routes and neighbours in the slow path.
pub fn same_static(one: &Router, other: &Router) -> bool {
    one.fast_path.routes == other.fast_path.routes
        && one.fast_path.neighbours == other.fast_path.neighbours
}
