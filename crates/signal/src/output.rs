//! The actions of a signaller.

use std::net::IpAddr;

use crate::demand::Demand;
use crate::id::{Adjacency, InterfaceId, Label, LspKey, Ticket};
use crate::wire::{ErrorSpec, RecordRoute};

/// One action; actions are in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a datagram of IP protocol 46.
    Send(Datagram),
    /// Change the data plane; the answer is [`crate::Input::Programmed`].
    Program(Program),
    /// An event for users or for the node.
    Event(Event),
    /// Sequence numbers below this may be used from now on. Store it before the sends that follow,
    /// and put it into [`crate::Config::sequence`] after a restart (RFC 2747, section 3).
    Remember(u64),
}

/// A datagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Datagram {
    /// The output interface, and the neighbour.
    pub via: Adjacency,
    /// Source in the IP header.
    pub source: IpAddr,
    /// Destination in the IP header.
    pub destination: IpAddr,
    /// TTL in the IP header.
    pub ttl: u8,
    /// Whether the datagram carries the Router Alert option (RFC 2113, RFC 2711).
    pub router_alert: bool,
    /// The bytes behind the IP header.
    pub bytes: Vec<u8>,
}

/// A change of the data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Returned with the answer.
    pub ticket: Ticket,
    /// Whose.
    pub lsp: LspKey,
    /// The entry of the LSP, which replaces the former one; `None` removes it.
    pub entry: Option<Entry>,
}

/// An LSP in the data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The label of arriving packets; `None` at the head.
    pub incoming: Option<Label>,
    /// The next hop; `None` at the tail: pop, and look up the payload.
    pub outgoing: Option<NextHop>,
    /// Their reservation.
    pub demand: Demand,
}

/// The next hop of an LSP's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The neighbour.
    pub via: Adjacency,
    /// The label that the packets get: [`Label::IMPLICIT_NULL`] pops.
    pub label: Label,
}

/// The event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// At the head: the whole LSP is in place.
    Up {
        /// Which.
        lsp: LspKey,
        /// The LSP's path with labels, if it is recorded.
        record: Option<RecordRoute>,
    },
    /// At the head: the LSP no longer carries packets.
    Down {
        /// Which.
        lsp: LspKey,
    },
    /// At the head: a node on the path reports an error. The head tries the LSP again until it is
    /// deleted.
    PathError {
        /// Which.
        lsp: LspKey,
        /// The kind and the place.
        error: ErrorSpec,
    },
    /// At the tail: a node on the path refuses its reservation.
    ResvError {
        /// Which.
        lsp: LspKey,
        /// The kind and the place.
        error: ErrorSpec,
    },
    /// At the tail: the head has the reservation.
    Confirmed {
        /// Which.
        lsp: LspKey,
    },
    /// An LSP was preempted here.
    Preempted {
        /// Which.
        lsp: LspKey,
        /// The interface of the preemption.
        interface: InterfaceId,
        /// Whether the LSP continues for some time without a reservation.
        is_soft: bool,
    },
    /// A neighbour answers Hellos.
    NeighbourUp(IpAddr),
    /// A neighbour does not answer any more, or has restarted without its state.
    NeighbourDown(IpAddr),
}
