//! One port's queue: first in, first out, bounded. The place of the queue manager.

use std::collections::VecDeque;

use europa_pool::Word;

/// Packets that may wait for a port.
pub(crate) const QUEUE_PACKETS: usize = 4096;

/// A descriptor that the switch holds, stamped with where it came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// Slot masked, flags reduced to those a router may set.
    pub(crate) word: Word,
    pub(crate) interface: u32,
    pub(crate) pool: u32,
    /// Bytes that go before it when it is sent.
    pub(crate) before: u8,
}

/// Packets waiting for a port.
pub(crate) struct PortQueue {
    waiting: VecDeque<Queued>,
    pub(crate) peak: usize,
}

impl PortQueue {
    pub(crate) fn new() -> Self {
        Self { waiting: VecDeque::with_capacity(QUEUE_PACKETS), peak: 0 }
    }

    /// Adds a packet; false when the queue is full.
    pub(crate) fn push(&mut self, packet: Queued) -> bool {
        if self.waiting.len() >= QUEUE_PACKETS {
            return false;
        }
        self.waiting.push_back(packet);
        self.peak = self.peak.max(self.waiting.len());
        true
    }

    pub(crate) fn pop(&mut self) -> Option<Queued> {
        self.waiting.pop_front()
    }

    pub(crate) fn peek(&self) -> Option<&Queued> {
        self.waiting.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes out every packet of `pool`.
    pub(crate) fn remove_pool(&mut self, pool: u32) {
        self.waiting.retain(|packet| packet.pool != pool);
    }

    /// Takes out every packet.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Queued> {
        self.waiting.drain(..)
    }
}
