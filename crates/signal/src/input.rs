//! The events of a signaller.

use std::net::IpAddr;

use crate::id::{InterfaceId, LspKey, Ticket};
use crate::wire::{ExplicitRoute, SessionAttribute, Tspec};

/// One event.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Time has passed: due work is done. Every other input does due work, too.
    Tick,
    /// A datagram of IP protocol 46 arrives, whatever its destination.
    Packet {
        /// The input interface.
        interface: InterfaceId,
        /// Source in its IP header.
        source: IpAddr,
        /// TTL in its IP header.
        ttl: u8,
        /// The bytes behind the IP header.
        bytes: &'a [u8],
    },
    /// The data plane has carried out, or refused, an order of [`crate::Output::Program`].
    Programmed {
        /// The order's ticket.
        ticket: Ticket,
        /// Whether it was carried out.
        is_done: bool,
    },
    /// This router becomes an LSP's head.
    Create(Tunnel),
    /// An LSP of this head gets another demand. If that is refused, the old reservation stays.
    Change {
        /// Which.
        lsp: LspKey,
        /// Its new traffic.
        tspec: Tspec,
    },
    /// An LSP of this head is deleted.
    Delete(LspKey),
    /// An interface has lost its carrier: its neighbours are lost.
    InterfaceDown(InterfaceId),
    /// Routes have changed: LSPs whose next hop follows routes may move.
    RoutesChanged,
}

/// An LSP as requested by its head.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// The LSP's name. A new LSP of an existing tunnel has the same session and another LSP number.
    /// With [`SessionAttribute::SHARED_EXPLICIT`] both share bandwidth (make before break).
    pub lsp: LspKey,
    /// Its traffic.
    pub tspec: Tspec,
    /// Priorities, flags and name.
    pub attribute: SessionAttribute,
    /// The path; an empty one follows the routes. The first hop is a neighbour, or this router.
    pub route: ExplicitRoute,
    /// Whether the path is recorded.
    pub is_recorded: bool,
    /// EtherType of the payload.
    pub protocol: u16,
}
