//! Europa's own fast paths, `builtin: ipv4` and `builtin: bridge`, as Click configurations.
//!
//! They consist of this library's elements only. So their text can be read, run by `europa click`,
//! and used as the start of another configuration.

mod bridge;
mod front;
mod host;
mod ipv4;
mod kernel;
mod labels;
mod routes;
#[cfg(test)]
mod tests;
mod update;

use std::net::IpAddr;

use europa_packet::MacAddr;
use ipnet::IpNet;

pub use bridge::bridge;
pub use front::front;
pub use host::ipv4_with_host;
pub use ipv4::ipv4;
pub use kernel::kernel;
pub use update::{Update, update};

/// An interface of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name in `FromDevice` and `ToDevice`.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Longest IP packet in bytes, without the Ethernet header.
    pub mtu: u32,
    /// The interface's addresses with the prefix lengths of their subnets.
    pub addresses: Vec<IpNet>,
}

/// The destination of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another router is the next hop. The interface, by number, may be omitted if the router's
    /// address is in the subnet of one.
    Via {
        /// The router's address.
        address: IpAddr,
        /// The interface.
        interface: Option<usize>,
    },
    /// The destinations are neighbours on an interface, by number.
    Interface(usize),
    /// Nowhere: packets are dropped without an error.
    Blackhole,
}

/// A route in addition to those of the interfaces' own subnets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations.
    pub to: IpNet,
    /// Its destination.
    pub next: Next,
}

/// A static neighbour: the router sends no requests for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// The interface that leads to the neighbour, by number.
    pub interface: usize,
}

/// A router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The router's interfaces; other fields name them by number.
    pub interfaces: Vec<Interface>,
    /// Routes.
    pub routes: Vec<Route>,
    /// Static neighbours: the router sends no requests for them.
    pub neighbours: Vec<Neighbour>,
    /// Label switching; `None` if no interface signals.
    pub labels: Option<Labels>,
}

/// Label switching as a signaller sets it up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Interfaces that signal, by number.
    pub interfaces: Vec<usize>,
    /// An LSP counts as one hop for its packets (RFC 3443).
    pub is_pipe: bool,
}

/// The reason why a description has no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// More interfaces than paint has colours.
    #[error("{found} interfaces, at most {MOST_INTERFACES} wanted")]
    TooMany {
        /// Number of interfaces.
        found: usize,
    },
    /// No interface has an address.
    #[error("no interface has an address")]
    NoAddress,
    /// A route or neighbour names an interface that does not exist, or has no address of the
    /// family.
    #[error("{what}: interface {interface} has no {family} address")]
    Interface {
        /// The route or neighbour.
        what: String,
        /// Number of the interface.
        interface: usize,
        /// `IPv4` or `IPv6`.
        family: &'static str,
    },
    /// A route's next hop is in no subnet.
    #[error("route to {to}: next hop {via} is in the subnet of no interface")]
    Unreachable {
        /// Destinations.
        to: IpNet,
        /// The next hop.
        via: IpAddr,
    },
    /// A route or its next hop mixes IPv4 and IPv6.
    #[error("route to {to}: next hop {via} is not of the same IP version")]
    Mixed {
        /// Destinations.
        to: IpNet,
        /// The next hop.
        via: IpAddr,
    },
}

/// The label table of `builtin: ipv4`.
pub const LABELS: &str = "labels";
/// The label table before another fast path ([`front`]).
pub const FRONT_LABELS: &str = "europa_labels";

/// Most interfaces of `builtin: ipv4`.
pub const MOST_INTERFACES: usize = 254;
