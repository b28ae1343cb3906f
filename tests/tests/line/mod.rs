//! Two hosts with a node between them.
//!
//! ```text
//!  a  10.0.1.2, fd00:1::2 ── eu-left  node  eu-right ── 10.0.2.2, fd00:2::2  b
//! ```
#![allow(dead_code, reason = "each test program uses a part of it")]

use europa_tests::{Lab, Namespace, Node};

pub(crate) const A: &str = "02:00:00:00:00:0a";
pub(crate) const B: &str = "02:00:00:00:00:0b";
/// Ethernet addresses of the router's interfaces `in` and `out`.
pub(crate) const IN: &str = "02:00:00:00:00:01";
pub(crate) const OUT: &str = "02:00:00:00:00:02";
/// Ethernet addresses of the ports.
pub(crate) const LEFT: &str = "02:00:00:00:01:01";
pub(crate) const RIGHT: &str = "02:00:00:00:01:02";

/// Hosts and node; fields are dropped in this order.
pub(crate) struct Line {
    pub(crate) node: Node,
    pub(crate) a: Namespace,
    pub(crate) b: Namespace,
    /// The namespace in which `europa` runs, with the left port.
    pub(crate) middle: Namespace,
    /// The namespace of the right port, usually the same one.
    pub(crate) right: Namespace,
    pub(crate) lab: Lab,
}

impl Line {
    pub(crate) fn new() -> Line {
        Line::with_mtus(1500, 1500)
    }

    /// A line with these MTUs on the left and on the right.
    pub(crate) fn with_mtus(left: u32, right: u32) -> Line {
        Line::build(left, right, false, 1)
    }

    /// A line with the right port in a namespace of its own, where it has the same index as the
    /// left one.
    pub(crate) fn apart() -> Line {
        Line::build(1500, 1500, true, 1)
    }

    /// A line with this number of queues of each device.
    pub(crate) fn with_queues(queues: u32) -> Line {
        Line::build(1500, 1500, false, queues)
    }

    fn build(left_mtu: u32, right_mtu: u32, apart: bool, queues: u32) -> Line {
        let mut lab = Lab::new().expect("a lab");
        let [middle, a, b] =
            ["node", "a", "b"].map(|name| lab.namespace(name).expect("a namespace"));
        let right =
            if apart { lab.namespace("right").expect("a namespace") } else { middle.clone() };
        for (place, host, device, own, port, mtu, near, far) in [
            (&middle, &a, "eu-left", A, LEFT, left_mtu, 1, 2),
            (&right, &b, "eu-right", B, RIGHT, right_mtu, 2, 1),
        ] {
            // Ports have no addresses, and hosts send nothing on their own.
            place.sysctl("net.ipv6.conf.default.disable_ipv6", "1").expect("a parameter");
            host.sysctl("net.ipv6.conf.default.router_solicitations", "0").expect("a parameter");
            lab.veth_of((place, device), (host, "eth0"), queues).expect("a veth pair");
            for (namespace, device, mac) in [(host, "eth0", own), (place, device, port)] {
                namespace.mac(device, mac).expect("a MAC address");
                namespace.mtu(device, mtu).expect("an MTU");
            }
            host.address("eth0", &format!("10.0.{near}.2/24")).expect("an address");
            host.address("eth0", &format!("fd00:{near}::2/64")).expect("an address");
            host.route(&format!("10.0.{far}.0/24"), &format!("10.0.{near}.1")).expect("a route");
            host.route(&format!("fd00:{far}::/64"), &format!("fd00:{near}::1")).expect("a route");
        }
        Line { node: Node::new(Some(&middle)), a, b, middle, right, lab }
    }

    /// Brings up one router for IPv4 and IPv6 between the hosts.
    pub(crate) fn up_ipv4(&self) {
        self.node.up(&(ports() + ROUTER));
    }
}

/// The documents of both ports and of a slice.
pub(crate) fn ports() -> String {
    "kind: port\nname: left\ndevice: eu-left\n---\n\
     kind: port\nname: right\ndevice: eu-right\n---\n\
     kind: slice\nname: red\n---\n"
        .to_owned()
}

/// A router for IPv4 and IPv6 between the hosts.
pub(crate) const ROUTER: &str = r#"kind: router
name: r1
slice: red
interfaces:
  in: {port: left, mac: "02:00:00:00:00:01", addresses: [10.0.1.1/24, "fd00:1::1/64"]}
  out: {port: right, mac: "02:00:00:00:00:02", addresses: [10.0.2.1/24, "fd00:2::1/64"]}
fast_path: {builtin: ipv4}
"#;
