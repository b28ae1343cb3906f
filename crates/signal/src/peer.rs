//! Partners of Hello sessions (RFC 3209, section 5; RFC 4558), and the state of those nodes.

use std::net::IpAddr;
use std::time::Duration;

use crate::id::{Adjacency, InterfaceId, Time};
use crate::wire::Capability;

/// A Hello session's other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PeerKey {
    /// `None` for a node id.
    pub(crate) interface: Option<InterfaceId>,
    pub(crate) address: IpAddr,
}

/// The present state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// The node has not answered yet, or not since it was lost; it may not support Hellos.
    Unknown,
    /// It answers.
    Up,
    /// The node is silent, and has announced that it may restart: its state is kept for some time.
    Restarting,
}

/// A Hello session.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// An adjacency to it.
    pub(crate) via: Adjacency,
    /// The instance in Hello messages to the peer; it changes after communication was lost.
    pub(crate) instance: u32,
    /// The instance in the peer's messages; `None` if it has sent none since it was lost.
    pub(crate) theirs: Option<u32>,
    /// The last instance in the peer's messages, even if it was lost since: its state belongs to
    /// that instance.
    pub(crate) known: Option<u32>,
    /// The peer's former instances: a Hello with one of them was reordered.
    pub(crate) former: [u32; 4],
    pub(crate) liveness: Liveness,
    /// The peer has shown that it lost this node's state: all state is sent again.
    pub(crate) must_resume: bool,
    /// The peer's restart time; 0 requests no waiting.
    pub(crate) restart: Duration,
    pub(crate) recovery: Duration,
    /// The peer has restarted, and gets its state again until this time.
    pub(crate) recovers_until: Option<Time>,
    pub(crate) capability: u32,
}

impl Peer {
    pub(crate) fn new(via: Adjacency, instance: u32) -> Self {
        let zero = Duration::ZERO;
        Self {
            via,
            instance,
            theirs: None,
            known: None,
            former: [0; 4],
            liveness: Liveness::Unknown,
            must_resume: false,
            restart: zero,
            recovery: zero,
            recovers_until: None,
            capability: 0,
        }
    }

    pub(crate) fn can(&self, capability: u32) -> bool {
        self.capability & capability != 0
    }

    /// RFC 8370, section 3.1: the neighbour's state does not depend on refreshes.
    pub(crate) fn is_independent(&self) -> bool {
        self.liveness != Liveness::Unknown && self.can(Capability::REFRESH_INDEPENDENT)
    }
}
