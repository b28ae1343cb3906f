//! A port's queue. First in, first out, with a share for each interface. A port with a rate,
//! reservations or queues has the queue manager before that.
//!
//! A port without rate, reservations and queues has no tree: no packet would wait in it, as all
//! packets are sent at once, and each packet would cost five levels.

use std::collections::VecDeque;

use europa_pool::{Mapping, Word};
use europa_substrate::layout::MAX_INTERFACES;

use crate::managed::Managed;
use crate::orders::PortQueues;
use crate::pools::Pools;
use crate::tables::Shared;
use crate::train::{MAX_HEADERS, Segment};

/// Packets of one interface that may wait for a port: as many as a kick carries. An interface that
/// sends faster than the port waits in its own transmit ring, so it cannot displace other senders'
/// packets.
pub const SHARE_PACKETS: u16 = 1024;

/// Frames of at least this size may belong to a stream.
const STREAM_BYTES: u16 = 512;
/// Number of waiting packets that are compared with their successors...
const STREAM_LOOKS: usize = 8;
/// ...and the number of these that their stream's next packet must follow, so that merging is worth
/// it.
const STREAM_PAIRS: usize = 6;

/// A descriptor that the switch holds, stamped with its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// Slot masked, flags reduced to those that a router may set.
    pub(crate) word: Word,
    pub(crate) interface: u32,
    pub(crate) pool: u32,
    /// Bytes of headers that are added when it is sent.
    pub(crate) before: u8,
    /// A queue of the slice's by its number; 0 is the interface's own.
    pub(crate) queue: u16,
}

/// Packets waiting for a port.
pub(crate) struct PortQueue {
    /// Packets that may leave.
    ready: VecDeque<Queued>,
    /// Numbers of packets of each interface.
    shares: Box<[u16]>,
    pub(crate) peak: usize,
    managed: Option<Box<Managed>>,
}

impl PortQueue {
    pub(crate) fn new() -> Self {
        let shares = vec![0; MAX_INTERFACES as usize].into();
        Self { ready: VecDeque::new(), shares, peak: 0, managed: None }
    }

    /// Makes room for the shares of `interfaces`, so that adding never allocates.
    pub(crate) fn reserve(&mut self, interfaces: usize) {
        let wanted = interfaces.max(1) * usize::from(SHARE_PACKETS);
        self.ready.reserve(wanted.saturating_sub(self.ready.len()));
    }

    /// Number of packets that an interface can add.
    #[inline]
    pub(crate) fn room(&self, interface: u32) -> u32 {
        if let Some(managed) = &self.managed {
            return managed.room(interface);
        }
        let used = self.shares.get(interface as usize).copied().unwrap_or(SHARE_PACKETS);
        SHARE_PACKETS.saturating_sub(used).into()
    }

    /// Whether packets only wait here until the port is ready, without a rate or queues.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.managed.is_none()
    }

    /// Adds a packet; its interface has room.
    #[inline]
    pub(crate) fn push(&mut self, shared: &Shared, pools: &Pools, now_ns: u64, packet: Queued) {
        match &mut self.managed {
            Some(managed) => managed.push(shared, pools, now_ns, packet),
            None => self.push_ready(packet),
        }
    }

    /// Prefetches the memory that [`Self::push`] will touch for packets that name these queues:
    /// everything for the next one, only the first part for a later one.
    #[inline]
    pub(crate) fn fetch_ahead(&self, interface: u32, soon: Option<u16>, later: Option<u16>) {
        if let Some(managed) = &self.managed {
            managed.fetch_ahead(interface, soon, later);
        }
    }

    #[inline]
    fn push_ready(&mut self, packet: Queued) {
        if let Some(share) = self.shares.get_mut(packet.interface as usize) {
            *share = share.saturating_add(1);
        }
        self.ready.push_back(packet);
        self.peak = self.peak.max(self.ready.len());
    }

    /// Makes the packets ready that may leave by now: see [`Managed::take`].
    #[inline]
    pub(crate) fn refill(
        &mut self,
        shared: &Shared,
        pools: &Pools,
        now_ns: u64,
        most: (u64, bool),
    ) {
        let Self { ready, managed: Some(managed), peak, .. } = self else { return };
        if ready.is_empty() {
            *peak = managed.len().max(*peak);
            managed.take(shared, pools, now_ns, most, |packet| ready.push_back(packet));
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let packet = self.ready.pop_front()?;
        if self.ready.is_empty() {
            // Begins at the start again: otherwise it would use memory for all interfaces.
            self.ready.clear();
        }
        if let Some(share) = self.shares.get_mut(packet.interface as usize) {
            *share = share.saturating_sub(1);
        }
        Some(packet)
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<&Queued> {
        self.ready.front()
    }

    /// Whether most waiting packets are segments of streams that can be merged. Routers may write
    /// there, but it only decides how their packets are sent.
    pub(crate) fn is_stream(&self, pools: &Pools) -> bool {
        let places = self.ready.len().saturating_sub(1);
        if places < STREAM_LOOKS || self.ready[0].word.length() < STREAM_BYTES {
            return false;
        }
        let looks = (0..STREAM_LOOKS).map(|look| look * places / STREAM_LOOKS);
        looks.filter(|at| self.is_followed(*at, pools)).count() >= STREAM_PAIRS
    }

    /// Whether a packet and its successor are segments of a stream that can be merged.
    fn is_followed(&self, at: usize, pools: &Pools) -> bool {
        let segment = |packet: &Queued| {
            let length = usize::from(packet.word.length());
            let offset = packet.word.offset().into();
            let view = &pools.get(&packet.pool)?.view;
            let mut head = [0; MAX_HEADERS];
            let from = view.slot_offset(packet.word.slot(), offset);
            view.mapping().copy_out(from, &mut head[..length.min(MAX_HEADERS)]);
            Some((head, Segment::parse(&head, length)?))
        };
        let (packet, next) = (&self.ready[at], &self.ready[at + 1]);
        packet.word.length() >= STREAM_BYTES
            && segment(packet).zip(segment(next)).is_some_and(|((head, first), (behind, next))| {
                first.is_followed_by(&head, &next, &behind)
            })
    }

    /// Packets that may leave.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Time when a packet may leave; `None` if no packet waits.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(now_ns);
        }
        self.managed.as_ref()?.next_due_ns(now_ns)
    }

    /// All packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.managed.as_ref().map_or(0, |managed| managed.len())
    }

    /// Takes out every packet of `pool`.
    pub(crate) fn remove_pool(&mut self, pool: u32, mut gone: impl FnMut(Queued)) {
        self.ready.retain(|packet| {
            if packet.pool == pool {
                gone(*packet);
            }
            packet.pool != pool
        });
        if let Some(managed) = &mut self.managed {
            managed.remove_pool(pool, gone);
        }
        self.shares.fill(0);
        for packet in &self.ready {
            if let Some(share) = self.shares.get_mut(packet.interface as usize) {
                *share = share.saturating_add(1);
            }
        }
    }

    /// Takes out every packet.
    pub(crate) fn drain(&mut self, mut out: impl FnMut(Queued)) {
        self.shares.fill(0);
        self.ready.drain(..).for_each(&mut out);
        if let Some(managed) = &mut self.managed {
            managed.drain(out);
        }
    }

    /// Sets these queues, or first in, first out. Packets of a removed queue wait in their
    /// interface's own. Returns the places of statistics.
    pub(crate) fn manage(
        &mut self,
        shared: &Shared,
        pools: &Pools,
        now_ns: u64,
        wanted: Option<(PortQueues, Mapping)>,
    ) -> Result<Vec<u32>, String> {
        let mut left = Vec::new();
        let Some((wanted, memory)) = wanted else {
            if let Some(mut managed) = self.managed.take() {
                managed.drain(|packet| left.push(packet));
                left.into_iter().for_each(|packet| self.push_ready(packet));
            }
            return Ok(Vec::new());
        };
        let managed = match &mut self.managed {
            Some(managed) => managed,
            none => {
                let managed = none.insert(Box::new(Managed::new(memory)?));
                left.extend(self.ready.drain(..));
                self.shares.fill(0);
                managed
            }
        };
        let places = managed.become_as(&wanted, |packet| left.push(packet));
        for packet in left {
            managed.push(shared, pools, now_ns, Queued { queue: 0, ..packet });
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(interface: u32) -> Queued {
        Queued { word: Word::free(0), interface, pool: interface, before: 0, queue: 0 }
    }

    #[test]
    fn a_full_share_leaves_the_others_theirs() {
        let mut queue = PortQueue::new();
        queue.reserve(2);
        let share = u32::from(SHARE_PACKETS);
        let capacity = queue.ready.capacity();
        for left in (0..share).rev() {
            queue.push_ready(packet(1));
            assert_eq!(queue.room(1), left);
        }
        assert_eq!((queue.room(2), queue.room(MAX_INTERFACES)), (share, 0));
        for _ in 0..SHARE_PACKETS {
            queue.push_ready(packet(2));
        }
        assert_eq!(queue.ready.capacity(), capacity, "nothing is allocated");
        assert_eq!(queue.pop().map(|packet| packet.interface), Some(1));
        assert_eq!((queue.room(1), queue.room(2)), (1, 0));
        queue.remove_pool(1, |_| ());
        assert_eq!((queue.room(1), queue.room(2)), (share, 0));
        let mut count = 0;
        queue.drain(|_| count += 1);
        assert_eq!((count, queue.room(2)), (share, share));
    }
}
