//! Packets leave.

use std::sync::atomic::AtomicU64;

use crate::node::{CAP, Nodes, ROOT};
use crate::serve::Visit;
use crate::standing::Standing;
use crate::statistics::{Cause, hot};
use crate::tree::{Id, Tree};

/// A packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// The token of the packet.
    pub packet: T,
    /// Its bytes.
    pub length: u32,
    /// Whether the caller must mark the packet (RFC 3168: CE) before sending it.
    pub mark: bool,
    /// Index of the queue where the packet waited, see [`Id::index`].
    pub queue: u32,
}

impl<T: Copy, S: AsRef<[AtomicU64]>> Tree<T, S> {
    /// Removes packets that may leave: `budget_bytes` bytes, which the last packet may exceed, but
    /// no more packets than `out` has room for. `dropped` gets the packets that are dropped
    /// instead. Returns the number of removed bytes. Times must not decrease.
    pub fn dequeue(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        out: &mut Vec<Due<T>>,
        dropped: impl FnMut(T, Cause),
    ) -> u64 {
        let now_ns = self.advance(now_ns);
        let is_large = self.is_large();
        let Self { nodes, shapes, wheel, orders, entries, policies, words, .. } = self;
        let words = words.as_ref();
        let mut standing = Standing { nodes, shapes, wheel, orders, now_ns };
        standing.fire();
        let hot = hot(words);
        let mut visit =
            Visit { standing, entries, policies, words, hot, out, dropped, now_ns, is_large };
        let mut sent = 0;
        while sent < budget_bytes && visit.has_room() && visit.is_ready() {
            let left = u32::try_from(budget_bytes - sent).unwrap_or(u32::MAX);
            sent += u64::from(visit.turn(left));
        }
        sent
    }

    /// The time for the next call of [`Self::dequeue`]. `now_ns` if a packet may leave; the
    /// earliest possible time of the next packet if all wait for their rates; `None` if no packet
    /// waits.
    pub fn next_due(&self, now_ns: u64) -> Option<u64> {
        let root = self.nodes.at(ROOT);
        if root.waiting.packets() == 0 {
            return None;
        }
        let below = if root.has_work() { now_ns } else { self.wheel.next_ns()? };
        let cap = if root.flags & CAP != 0 { self.shapes[ROOT as usize].cap.opens_ns() } else { 0 };
        Some(now_ns.max(below).max(cap))
    }
}

impl<T> Due<T> {
    /// Whether the packet waited in this queue.
    pub fn is_from(&self, queue: Id) -> bool {
        self.queue == queue.index()
    }
}
