//! What waits: one pool of entries for all queues of a port, chained.

use crate::node::{NONE, Node};

/// Longest packet; what is longer is counted as this.
pub(crate) const LONGEST: u32 = (1 << 24) - 1;
const ECN: u32 = 1 << 31;
const MARK: u32 = 1 << 30;

#[derive(Clone, Copy)]
struct Entry<T> {
    packet: T,
    since_ns: u64,
    /// With [`ECN`] and [`MARK`].
    length: u32,
    next: u32,
}

/// An entry that was taken out.
pub(crate) struct Taken<T> {
    pub(crate) packet: T,
    pub(crate) since_ns: u64,
    pub(crate) length: u32,
    /// It understands marks.
    pub(crate) ecn: bool,
    /// It is to be marked.
    pub(crate) mark: bool,
}

/// See the file.
pub(crate) struct Entries<T> {
    entries: Vec<Entry<T>>,
    /// Chain of those in no queue, the one used last first: it is still in the cache.
    free: u32,
    capacity: usize,
}

impl<T: Copy> Entries<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let entries = Vec::with_capacity(capacity);
        europa_pool::huge_pages(&entries);
        Self { entries, free: NONE, capacity }
    }

    /// Whether there is one left.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.free != NONE || self.entries.len() < self.capacity
    }

    /// Appends a packet to a queue. There must be room.
    #[inline]
    pub(crate) fn push(&mut self, queue: &mut Node, new: Taken<T>) {
        let length = new.length | if new.ecn { ECN } else { 0 } | if new.mark { MARK } else { 0 };
        let entry = Entry { packet: new.packet, since_ns: new.since_ns, length, next: NONE };
        let mut index = self.free;
        if index == NONE {
            index = self.entries.len() as u32;
            self.entries.push(entry);
        } else {
            let old = std::mem::replace(&mut self.entries[index as usize], entry);
            self.free = old.next;
        }
        if queue.second == NONE {
            queue.first = index;
        } else {
            self.entries[queue.second as usize].next = index;
        }
        queue.second = index;
        queue.waiting.add(new.length);
    }

    /// Takes out the packet that waits longest.
    #[inline]
    pub(crate) fn pop(&mut self, queue: &mut Node) -> Option<Taken<T>> {
        let index = queue.first;
        let entry = self.entries.get_mut(index as usize)?;
        let &mut Entry { packet, since_ns, length, next } = entry;
        entry.next = self.free;
        self.free = index;
        queue.first = next;
        if next == NONE {
            queue.second = NONE;
        }
        let (ecn, mark, length) = (length & ECN != 0, length & MARK != 0, length & LONGEST);
        queue.waiting.take(1, length);
        Some(Taken { packet, since_ns, length, ecn, mark })
    }

    /// The entry after this one.
    #[inline]
    pub(crate) fn after(&self, index: u32) -> u32 {
        self.entries.get(index as usize).map_or(NONE, |entry| entry.next)
    }

    /// Fetches an entry that will be taken soon.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(entry) = self.entries.get(index as usize) {
            europa_pool::prefetch(entry);
        }
    }
}
