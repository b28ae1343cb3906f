//! Waiting packets: one pool of entries for all queues of a port, in linked lists.

use crate::node::{Amount, NONE, Node};

/// Longest packet; a longer one counts with this length.
pub(crate) const LONGEST: u32 = (1 << 24) - 1;
const ECN: u32 = 1 << 31;
const MARK: u32 = 1 << 30;

/// Aligned: otherwise one entry in four would cross two cache lines, and only the first line is
/// prefetched.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Entry<T> {
    packet: T,
    since_ns: u64,
    /// Length, with [`ECN`] and [`MARK`].
    length: u32,
    next: u32,
}

/// An entry that was taken out.
pub(crate) struct Taken<T> {
    pub(crate) packet: T,
    pub(crate) since_ns: u64,
    pub(crate) length: u32,
    /// Whether its flow supports marks.
    pub(crate) ecn: bool,
    /// The packet gets a mark.
    pub(crate) mark: bool,
}

/// See the file.
pub(crate) struct Entries<T> {
    entries: Vec<Entry<T>>,
    /// Unused entries, the last used one on top, because it is still in the cache. A linked list
    /// would need a memory access for each step.
    free: Vec<u32>,
    capacity: usize,
}

impl<T: Copy> Entries<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let entries = Vec::with_capacity(capacity);
        europa_pool::huge_pages(&entries);
        Self { entries, free: Vec::with_capacity(capacity), capacity }
    }

    /// Whether there is one left.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.entries.len() < self.capacity
    }

    /// Appends a packet to a queue. There must be room.
    #[inline]
    pub(crate) fn push(&mut self, queue: &mut Node, new: Taken<T>) {
        let length = new.length | if new.ecn { ECN } else { 0 } | if new.mark { MARK } else { 0 };
        let entry = Entry { packet: new.packet, since_ns: new.since_ns, length, next: NONE };
        let index = if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            index
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        if queue.second == NONE {
            queue.first = index;
        } else {
            self.entries[queue.second as usize].next = index;
        }
        queue.second = index;
        queue.waiting.add(Amount::of(1, new.length));
    }

    /// Removes the entry at the head of a queue; the caller updates the queue's own counts. Also
    /// returns the entry behind it.
    #[inline]
    pub(crate) fn take(&mut self, index: u32) -> Option<(Taken<T>, u32)> {
        let &Entry { packet, since_ns, length, next } = self.entries.get(index as usize)?;
        self.free.push(index);
        let (ecn, mark, length) = (length & ECN != 0, length & MARK != 0, length & LONGEST);
        Some((Taken { packet, since_ns, length, ecn, mark }, next))
    }

    /// Removes the packet that has waited longest.
    #[inline]
    pub(crate) fn pop(&mut self, queue: &mut Node) -> Option<Taken<T>> {
        let (taken, next) = self.take(queue.first)?;
        queue.first = next;
        if next == NONE {
            queue.second = NONE;
        }
        queue.waiting.take(Amount::of(1, taken.length));
        Some(taken)
    }

    /// The entry after this one.
    #[inline]
    pub(crate) fn after(&self, index: u32) -> u32 {
        self.entries.get(index as usize).map_or(NONE, |entry| entry.next)
    }

    /// Prefetches an entry that will be removed soon.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(entry) = self.entries.get(index as usize) {
            europa_pool::prefetch(entry);
        }
    }

    /// Prefetches the entry for the packet after this many others.
    #[inline]
    pub(crate) fn prefetch_free(&self, before: usize) {
        let free = self.free.len().checked_sub(before + 1).and_then(|at| self.free.get(at));
        free.into_iter().for_each(|index| self.prefetch(*index));
    }
}
