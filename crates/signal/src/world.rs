//! The signaller's questions to its surroundings, answered at once and without waiting.

use std::net::IpAddr;

use crate::demand::Demand;
use crate::id::{Adjacency, InterfaceId};
use crate::wire::{AbstractNode, Sender, Session};

/// The holder of a reservation on an interface: all LSPs of a session that share (SE), or one LSP
/// (FF).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// The tunnel.
    pub session: Session,
    /// The LSP, if it shares with no other.
    pub alone: Option<Sender>,
}

/// Admission control: bandwidth and all other resources of an interface that a flow needs.
pub trait Admit {
    /// Replaces a holder's demand on an interface by another; `None` is no demand. It changes all
    /// or nothing: after an error, `old` is still held. Reducing a demand never fails, nor does
    /// returning to the former demand.
    ///
    /// # Errors
    /// The first resource that is missing.
    fn exchange(
        &mut self,
        interface: InterfaceId,
        holder: &Holder,
        old: Option<&Demand>,
        new: Option<&Demand>,
    ) -> Result<(), Lack>;

    /// The resources of an interface, for ADSPEC.
    fn offer(&self, interface: InterfaceId) -> Offer;
}

/// The resources of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offer {
    /// Total bytes a second that may be reserved.
    pub bandwidth: f64,
    /// Least latency to the neighbour, in microseconds.
    pub latency_us: u32,
    /// RFC 2212: the rate-dependent error term, in bytes.
    pub c_bytes: u32,
    /// RFC 2212: the rate-independent error term, in microseconds.
    pub d_us: u32,
}

/// Routes of the slow path.
pub trait Route {
    /// The next hop to an address that is not one of the router's own.
    fn next_hop(&self, to: IpAddr) -> Option<Adjacency>;
    /// A neighbour that is part of an abstract node.
    fn neighbour_in(&self, node: &AbstractNode) -> Option<Adjacency>;
    /// The node id of a neighbour, from the topology (RFC 4558).
    fn node_of(&self, neighbour: Adjacency) -> Option<IpAddr>;
}

/// Both.
pub trait World: Admit + Route {}

impl<T: Admit + Route> World for T {}

/// Why a demand is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{resource} is lacking: {left} are left")]
pub struct Lack {
    /// The first resource that is missing.
    pub resource: Resource,
    /// The amount that is still available, in the resource's unit.
    pub left: f64,
}

/// A resource of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Bytes a second.
    Rate,
    /// Slots of the packet pool.
    Buffer,
    /// Seconds of a core a second.
    Cpu,
    /// Labels.
    Labels,
    /// Nodes of the queue tree.
    QueueNodes,
    /// The delay, in seconds: the requested bound is below the possible one.
    Delay,
    /// Bytes of a packet.
    Mtu,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rate => "rate (bytes/s)",
            Self::Buffer => "buffer (slots)",
            Self::Cpu => "CPU (seconds/s)",
            Self::Labels => "labels",
            Self::QueueNodes => "queue nodes",
            Self::Delay => "delay (seconds)",
            Self::Mtu => "MTU (bytes)",
        })
    }
}
