//! The namespaces: one for each router with a slow path, one for the other ends of all.

use std::io;
use std::path::Path;

use europa_port::{Namespace, set_defaults};

/// The settings of Linux in a router's namespace.
const SETTINGS: [(&str, &str); 12] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv6.conf.default.forwarding", "1"),
    // Packets may arrive from another interface than that of the reverse route: the fast path does
    // not check this either.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // A route over an interface without carrier is not used.
    ("net.ipv4.conf.all.ignore_routes_with_linkdown", "1"),
    ("net.ipv4.conf.default.ignore_routes_with_linkdown", "1"),
    ("net.ipv6.conf.all.ignore_routes_with_linkdown", "1"),
    ("net.ipv6.conf.default.ignore_routes_with_linkdown", "1"),
    // Flows, not packets, are spread over several next hops.
    ("net.ipv4.fib_multipath_hash_policy", "1"),
    ("net.ipv6.fib_multipath_hash_policy", "1"),
    // Routing protocols need the link-local address at once, not after a second.
    ("net.ipv6.conf.default.accept_dad", "0"),
];

/// The name of a router's namespace: `europa.INSTANCE.SLICE.ROUTER`. No part can have a dot, so all
/// routers of all instances have different names.
pub fn name(instance: &str, slice: &str, router: &str) -> String {
    format!("europa.{instance}.{slice}.{router}")
}

/// The name of the namespace where the other ends of all slow paths are: no slice has an empty
/// name.
pub fn outside_name(instance: &str) -> String {
    format!("europa.{instance}..slow")
}

/// Makes the namespace of a router, which belongs to the host's root.
///
/// # Errors
/// The kernel's error. A setting that this kernel lacks is skipped.
pub fn create(name: &str) -> io::Result<Namespace> {
    settled(Namespace::create(name)?)
}

/// Makes the namespace of a process that of a router. The process may end afterwards.
///
/// # Errors
/// As above.
pub fn create_of(name: &str, process: u32) -> io::Result<Namespace> {
    let path = format!("/proc/{process}/ns/net");
    settled(Namespace::give_name(name, Path::new(&path))?)
}

/// Lets Linux forward there the packets that the fast path does not.
fn settled(namespace: Namespace) -> io::Result<Namespace> {
    set_defaults(&namespace)?;
    for (setting, value) in SETTINGS {
        if let Err(error) = namespace.sysctl(setting, value) {
            tracing::debug!("{setting}: {error}");
        }
    }
    Ok(namespace)
}

/// Makes the namespace of the other ends, which have no IP.
///
/// # Errors
/// The kernel's error.
pub fn create_outside(instance: &str) -> io::Result<Namespace> {
    let namespace = Namespace::create(&outside_name(instance))?;
    for setting in ["net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.default.disable_ipv6"] {
        if let Err(error) = namespace.sysctl(setting, "1") {
            tracing::debug!("{setting}: {error}");
        }
    }
    Ok(namespace)
}
