//! Messages between a router's fast path and the signaller of its slice.
//!
//! Either side may be hostile: numbers are checked where they are used. Interfaces are numbered
//! within the router's interfaces with signalling, in the order of its document.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An LSP: session and sender (RFC 3209, section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LspId {
    /// The tunnel's end point.
    pub destination: IpAddr,
    /// The tunnel's number at its head.
    pub tunnel: u16,
    /// The extended tunnel id.
    pub extended: IpAddr,
    /// The head's address.
    pub sender: IpAddr,
    /// The LSP's number in the tunnel.
    pub lsp: u16,
}

/// The next hop of an LSP's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The interface.
    pub interface: u32,
    /// The neighbour behind it.
    pub via: IpAddr,
    /// The label that the packets get; 3 removes the top label.
    pub label: u32,
}

/// A router's treatment of an LSP's packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The label of arriving packets; `None` at the head.
    pub incoming: Option<u32>,
    /// The next hop; `None` at the tail.
    pub outgoing: Option<Hop>,
    /// The token bucket that is reserved: r, b and p, which are bytes a second, bytes, and bytes a
    /// second (0: no limit).
    pub bucket: [f64; 3],
    /// Smallest and largest packet (m and M), in bytes.
    pub sizes: [u32; 2],
}

/// A datagram of IP protocol 46 to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagram {
    /// The output interface.
    pub interface: u32,
    /// The address of the neighbour.
    pub via: IpAddr,
    /// Source in the IP header.
    pub source: IpAddr,
    /// Destination in the IP header.
    pub destination: IpAddr,
    /// TTL in the IP header.
    pub ttl: u8,
    /// Whether the IP header carries the Router Alert option.
    pub router_alert: bool,
    /// The bytes after the IP header.
    pub bytes: Vec<u8>,
}

/// The treatment of a flow's packets while it has no LSP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhileDown {
    /// Packets are dropped and counted.
    #[default]
    Drop,
    /// Packets follow the router's routes.
    Route,
}

/// A flow that begins at a router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The flow's name.
    pub name: String,
    /// Destinations whose packets belong to the flow.
    pub prefixes: Vec<IpNet>,
    /// The LSP that carries its packets, if one is up.
    pub lsp: Option<LspId>,
    /// The treatment of the flow's packets without an LSP.
    pub while_down: WhileDown,
    /// The flow's limits: bytes a second (0: no limit), and bytes of a burst.
    pub police: [f64; 2],
}

/// A message from a signaller to a router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToRouter {
    /// Send this.
    Send(Datagram),
    /// Sets an LSP's entry, and replaces a former one. If it has a ticket, the answer is
    /// [`FromRouter::Programmed`].
    Program {
        /// Returned with the answer.
        ticket: Option<u64>,
        /// The LSP.
        lsp: LspId,
        /// Its entry; `None` removes it.
        entry: Option<Entry>,
    },
    /// Replaces the flows that begin at this router.
    Heads(Vec<Head>),
}

/// A message from a router to its signaller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromRouter {
    /// The first message on each connection: the entries that the router has.
    Kept(Vec<(LspId, Entry)>),
    /// A datagram of IP protocol 46 arrived.
    Message {
        /// The interface.
        interface: u32,
        /// Source in its IP header.
        source: IpAddr,
        /// TTL in its IP header.
        ttl: u8,
        /// The bytes after the IP header.
        bytes: Vec<u8>,
    },
    /// An order was carried out, or refused.
    Programmed {
        /// The order's ticket.
        ticket: u64,
        /// Whether the order was carried out.
        is_done: bool,
    },
}
