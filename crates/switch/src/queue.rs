//! One port's queue: first in, first out, with a share for each interface. The place of
//! the queue manager.

use std::collections::VecDeque;

use europa_pool::Word;
use europa_substrate::layout::MAX_INTERFACES;

/// Packets of one interface that may wait for a port: as many as a kick carries. An
/// interface that sends faster than the port waits in its own transmit ring: it cannot
/// push out what others send.
pub(crate) const SHARE_PACKETS: u16 = 1024;

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
    /// How many of them are of which interface.
    shares: Box<[u16]>,
    pub(crate) peak: usize,
}

impl PortQueue {
    pub(crate) fn new() -> Self {
        let shares = vec![0; MAX_INTERFACES as usize].into();
        Self { waiting: VecDeque::new(), shares, peak: 0 }
    }

    /// Makes room for the shares of `interfaces`, so that adding never allocates.
    pub(crate) fn reserve(&mut self, interfaces: usize) {
        let wanted = interfaces * usize::from(SHARE_PACKETS);
        self.waiting.reserve(wanted.saturating_sub(self.waiting.len()));
    }

    /// How many packets of an interface can be added.
    #[inline]
    pub(crate) fn room(&self, interface: u32) -> u16 {
        let used = self.shares.get(interface as usize).copied().unwrap_or(SHARE_PACKETS);
        SHARE_PACKETS.saturating_sub(used)
    }

    /// Adds a packet; its interface has room.
    #[inline]
    pub(crate) fn push(&mut self, packet: Queued) {
        if let Some(share) = self.shares.get_mut(packet.interface as usize) {
            *share = share.saturating_add(1);
        }
        self.waiting.push_back(packet);
        self.peak = self.peak.max(self.waiting.len());
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let packet = self.waiting.pop_front()?;
        if let Some(share) = self.shares.get_mut(packet.interface as usize) {
            *share = share.saturating_sub(1);
        }
        Some(packet)
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<&Queued> {
        self.waiting.front()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes out every packet of `pool`.
    pub(crate) fn remove_pool(&mut self, pool: u32) {
        self.waiting.retain(|packet| packet.pool != pool);
        self.shares.fill(0);
        for packet in &self.waiting {
            if let Some(share) = self.shares.get_mut(packet.interface as usize) {
                *share += 1;
            }
        }
    }

    /// Takes out every packet.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Queued> {
        self.shares.fill(0);
        self.waiting.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(interface: u32) -> Queued {
        Queued { word: Word::free(0), interface, pool: interface, before: 0 }
    }

    #[test]
    fn a_full_share_leaves_the_others_theirs() {
        let mut queue = PortQueue::new();
        queue.reserve(2);
        let capacity = queue.waiting.capacity();
        for left in (0..SHARE_PACKETS).rev() {
            queue.push(packet(1));
            assert_eq!(queue.room(1), left);
        }
        assert_eq!((queue.room(2), queue.room(MAX_INTERFACES)), (SHARE_PACKETS, 0));
        for _ in 0..SHARE_PACKETS {
            queue.push(packet(2));
        }
        assert_eq!(queue.waiting.capacity(), capacity, "nothing is allocated");
        assert_eq!(queue.pop().map(|packet| packet.interface), Some(1));
        assert_eq!((queue.room(1), queue.room(2)), (1, 0));
        queue.remove_pool(1);
        assert_eq!((queue.room(1), queue.room(2)), (SHARE_PACKETS, 0));
        assert_eq!(queue.drain().count(), usize::from(SHARE_PACKETS));
        assert_eq!(queue.room(2), SHARE_PACKETS);
    }
}
