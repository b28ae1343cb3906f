//! The objects of a node that can be captured.

use serde::{Deserialize, Serialize};

/// Ports, slices, routers and their interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scene {
    /// The node's devices.
    pub ports: Vec<Port>,
    /// End systems.
    pub hosts: Vec<Host>,
    /// Virtual routers; the part of a name before the `/` is the slice.
    pub routers: Vec<Router>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Name of its device.
    pub device: String,
    /// The device's kind.
    pub kind: String,
    /// Longest packet, in bytes, without the Ethernet header.
    pub mtu: u32,
    /// Bits a second, if known.
    pub rate_bits: Option<u64>,
}

/// An end system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its interfaces.
    pub interfaces: Vec<HostInterface>,
}

/// An interface of an end system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInterface {
    /// Its name.
    pub name: String,
    /// The interface's addresses with the lengths of their prefixes.
    pub addresses: Vec<String>,
    /// The interface's other end, if Europa manages it.
    pub to: Option<To>,
}

/// A router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Router {
    /// `slice/router`.
    pub name: String,
    /// The router's fast path: `builtin: ipv4`, or the file of its configuration.
    pub fast_path: String,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
}

/// An interface of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Number in the substrate.
    pub id: u32,
    /// Its name in its router.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Longest packet, in bytes, without the Ethernet header.
    pub mtu: u32,
    /// The interface's addresses with the lengths of their prefixes.
    pub addresses: Vec<String>,
    /// Description of the port's packets that belong to the interface; empty on a link.
    pub matches: String,
    /// Its other end.
    pub to: To,
}

/// The other end of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum To {
    /// A port, by name.
    Port(String),
    /// A link, by name.
    Link(String),
}

impl Router {
    /// Name of its slice.
    pub fn slice(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

impl Scene {
    /// Every interface with its router.
    pub fn interfaces(&self) -> impl Iterator<Item = (&Router, &Interface)> {
        self.routers.iter().flat_map(|router| router.interfaces.iter().map(move |i| (router, i)))
    }
}
