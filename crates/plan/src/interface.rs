//! One interface, planned.

use std::net::IpAddr;

use europa_api::InterfaceName;
use europa_impair::Settings;
use europa_substrate::InterfaceSpec;
use europa_substrate::layout::CAGED;
use ipnet::IpNet;

use crate::far::FarEnd;
use crate::ids::{InterfaceId, LinkId, PortId};

/// The other side of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A port.
    Port(PortId),
    /// The other end of a link.
    Link(InterfaceId),
    /// The end of a link on another machine.
    Far(FarEnd),
    /// A link whose other end is missing: sent packets are dropped.
    Nowhere,
}

impl To {
    /// The port, if the interface leads to one.
    pub fn port(&self) -> Option<&PortId> {
        match self {
            To::Port(port) => Some(port),
            To::Link(_) | To::Far(_) | To::Nowhere => None,
        }
    }

    /// The end on another machine, if the interface leads to one.
    pub fn far(&self) -> Option<&FarEnd> {
        match self {
            To::Far(end) => Some(end),
            To::Port(_) | To::Link(_) | To::Nowhere => None,
        }
    }

    /// Whether it leads to this port.
    pub fn is_port(&self, name: &str) -> bool {
        self.port().is_some_and(|port| **port == *name)
    }
}

/// A VXLAN tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its network identifier.
    pub vni: u32,
    /// Outer source address.
    pub local: IpAddr,
    /// Outer destination address.
    pub remote: IpAddr,
}

/// An interface, planned.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfacePlan {
    /// Its name within the router.
    pub name: String,
    /// Longest packet, in bytes.
    pub mtu: u32,
    /// Where it leads.
    pub to: To,
    /// The substrate's settings.
    pub spec: InterfaceSpec,
    /// The tunnel that ends at it.
    pub tunnel: Option<Tunnel>,
    /// The link's effects on packets that the interface sends.
    pub impairment: Option<Settings>,
    /// Its addresses, configured or generated.
    pub addresses: Vec<IpNet>,
    /// Its link.
    pub link: Option<LinkId>,
    /// Its configured queues.
    pub queues: europa_api::Queues,
}

impl InterfacePlan {
    /// If this is a kernel router's hidden interface to a queue: the name of the interface by which
    /// its frames leave.
    pub fn queue_of(&self) -> Option<&str> {
        self.name.strip_suffix(InterfaceName::QUEUE_SIDE)
    }

    /// Whether its router can continue when it becomes `new`: only the switch and the tables
    /// change.
    pub fn stays(&self, new: &Self) -> bool {
        let on_a_link = |to: &To| matches!(to, To::Link(_) | To::Far(_) | To::Nowhere);
        let at_a_host = |one: &Self| one.link.is_some() && !on_a_link(&one.to);
        let mut spec = new.spec.clone();
        if at_a_host(self) && at_a_host(new) {
            // A relay receives the packets once the link has an effect on the host's packets.
            spec.matches.clone_from(&self.spec.matches);
        }
        // The program gets the frames once it is loaded; the process gets them again once it
        // forwards.
        spec.flags = spec.flags & !CAGED | self.spec.flags & CAGED;
        self.name == new.name
            && self.mtu == new.mtu
            && self.spec == spec
            && self.tunnel == new.tunnel
            && self.addresses == new.addresses
            && (self.to == new.to || (on_a_link(&self.to) && on_a_link(&new.to)))
    }

    /// Whether the switch needs no order when this becomes `new` and [`stays`](Self::stays).
    pub fn is_wired_as(&self, new: &Self) -> bool {
        self.to == new.to
            && self.impairment == new.impairment
            && self.link == new.link
            && self.queues == new.queues
    }
}

/// Outer headers of a VXLAN tunnel (RFC 7348 section 5) between two Ethernet addresses. Lengths,
/// the IPv4 checksum and the UDP source port are filled in for each frame.
///
/// # Errors
/// The two addresses are of different families.
pub fn vxlan_header(tunnel: Tunnel, from: [u8; 6], to: [u8; 6]) -> Result<Vec<u8>, String> {
    let mut header = Vec::with_capacity(70);
    header.extend(to);
    header.extend(from);
    match (tunnel.local, tunnel.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            header.extend([0x08, 0x00]);
            // Version and header length; no fragments; TTL 64; UDP.
            header.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
            header.extend(local.octets());
            header.extend(remote.octets());
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            header.extend([0x86, 0xdd]);
            header.extend([0x60, 0, 0, 0, 0, 0, 17, 64]);
            header.extend(local.octets());
            header.extend(remote.octets());
        }
        (local, remote) => {
            return Err(format!("a tunnel from {local} to {remote} mixes IPv4 and IPv6"));
        }
    }
    // UDP to port 4789, without checksum (allowed by RFC 6935 for IPv6).
    header.extend([0, 0]);
    header.extend(4789u16.to_be_bytes());
    header.extend([0, 0, 0, 0]);
    // VXLAN: the network identifier is valid.
    header.extend([0x08, 0, 0, 0]);
    header.extend((tunnel.vni << 8).to_be_bytes());
    Ok(header)
}
