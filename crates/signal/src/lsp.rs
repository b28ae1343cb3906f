//! An LSP: path state, reservation state, data plane.

use std::net::IpAddr;
use std::time::Duration;

use crate::demand::Demand;
use crate::fields::PathBody;
use crate::id::{Adjacency, Label, Ticket};
use crate::wire::{Flowspec, Object, RecordRoute, Style};

/// The origin of a Path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// This router is the head.
    Head,
    /// A neighbour, and the handle that is returned to it in a Resv.
    Hop { via: Adjacency, handle: u32 },
}

impl Upstream {
    pub(crate) fn via(self) -> Option<Adjacency> {
        match self {
            Self::Head => None,
            Self::Hop { via, .. } => Some(via),
        }
    }
}

/// The destination of a Path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Downstream {
    /// This router is the tail.
    Tail,
    /// A neighbour.
    Hop(Adjacency),
    /// The head has no path yet.
    Nowhere,
}

impl Downstream {
    pub(crate) fn via(self) -> Option<Adjacency> {
        match self {
            Self::Hop(via) => Some(via),
            Self::Tail | Self::Nowhere => None,
        }
    }
}

/// The state of an LSP that a message carries: path or reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// Path and PathTear.
    Path,
    /// Resv and ResvTear.
    Resv,
}

/// The last sent form of a state message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) via: Adjacency,
    pub(crate) objects: Vec<Object>,
    /// The message's MESSAGE_ID, if the neighbour supports ids.
    pub(crate) id: Option<u32>,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reservation {
    pub(crate) flowspec: Flowspec,
    pub(crate) demand: Demand,
    pub(crate) style: Style,
    /// The label that the neighbour downstream assigned; at the tail, the label that the tail
    /// assigned.
    pub(crate) label: Label,
    pub(crate) record: Option<RecordRoute>,
    pub(crate) confirm: Option<IpAddr>,
    pub(crate) others: Vec<Object>,
}

/// A change that the data plane has not acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) ticket: Ticket,
    /// The entry that applies if the change fails.
    pub(crate) before: Option<Reservation>,
}

/// An LSP's state.
#[derive(Clone, Debug)]
pub(crate) struct Lsp {
    pub(crate) upstream: Upstream,
    pub(crate) downstream: Downstream,
    pub(crate) ttl: u8,
    pub(crate) path: PathBody,
    /// The periods at which path and reservation are refreshed.
    pub(crate) path_period: Duration,
    pub(crate) resv_period: Duration,
    /// MESSAGE_ID of the Path that was accepted last, and of the Resv.
    pub(crate) path_id: Option<u32>,
    pub(crate) resv_id: Option<u32>,
    pub(crate) sent_path: Option<Sent>,
    pub(crate) resv: Option<Reservation>,
    pub(crate) sent_resv: Option<Sent>,
    pub(crate) incoming: Option<Label>,
    pub(crate) pending: Option<Pending>,
    /// Whether the data plane has an entry, or an order for one.
    pub(crate) is_installed: bool,
    /// At the head: whether [`crate::Event::Up`] was the last reported event.
    pub(crate) is_up: bool,
    /// The demand that upstream has refused. For some time, no equal or larger demand is requested
    /// again (RFC 2205, section 3.5).
    pub(crate) blockade: Option<Flowspec>,
    /// Whether the LSP is preempted, but may stay for some time.
    pub(crate) is_preempted: bool,
}

impl Lsp {
    pub(crate) fn new(
        upstream: Upstream,
        downstream: Downstream,
        path: PathBody,
        period: Duration,
    ) -> Self {
        Self {
            upstream,
            downstream,
            ttl: 255,
            path,
            path_period: period,
            resv_period: period,
            path_id: None,
            resv_id: None,
            sent_path: None,
            resv: None,
            sent_resv: None,
            incoming: None,
            pending: None,
            is_installed: false,
            is_up: false,
            blockade: None,
            is_preempted: false,
        }
    }
}
