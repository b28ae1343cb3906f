//! Limits how many packets elements may keep: shares of the router's packet pool.
//!
//! A packet that an element keeps occupies a slot that reception lacks. Each purpose has a room: a
//! number of eighths of the pool, shared by all elements of a graph. All rooms together leave an
//! eighth of the pool to packets that only pass through.

use std::cell::Cell;
use std::rc::Rc;

/// Number of packets that every room may hold, even in the smallest pool.
const FEWEST: usize = 8;

/// Why an element keeps packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Packets wait for a neighbour's Ethernet address: an eighth of the pool.
    Neighbours,
    /// Fragments that wait for the rest of their packet: an eighth of the pool.
    Fragments,
    /// Packets wait for their turn: five eighths of the pool.
    Queues,
}

/// The rooms of a graph.
pub(crate) struct Rooms([Rc<Room>; 3]);

#[derive(Debug)]
struct Room {
    most: usize,
    taken: Cell<usize>,
}

impl Rooms {
    /// Rooms in a pool of `slots` slots.
    pub(crate) fn of(slots: usize) -> Rooms {
        let eighth = (slots / 8).max(FEWEST);
        Rooms(
            [1, 1, 5].map(|eighths| Rc::new(Room { most: eighth * eighths, taken: Cell::new(0) })),
        )
    }

    pub(crate) fn share(&self, purpose: Purpose) -> Share {
        let Rooms([neighbours, fragments, queues]) = self;
        let room = match purpose {
            Purpose::Neighbours => neighbours,
            Purpose::Fragments => fragments,
            Purpose::Queues => queues,
        };
        Share { room: Some(room.clone()), own: 0 }
    }
}

/// One element's part of a room; it is returned when the element is dropped. The default has no
/// bound.
#[derive(Debug, Default)]
pub struct Share {
    room: Option<Rc<Room>>,
    own: usize,
}

impl Share {
    /// Packets that all elements together may keep for this purpose.
    pub fn most(&self) -> usize {
        self.room.as_ref().map_or(usize::MAX, |room| room.most)
    }

    /// Number of further packets that the element may keep.
    #[inline]
    pub fn left(&self) -> usize {
        self.room.as_ref().map_or(usize::MAX, |room| room.most.saturating_sub(room.taken.get()))
    }

    /// Number of further packets that a pulling element may keep, usually from a queue: it may use
    /// half of the room. Otherwise the queue could fill the room, and element and queue would wait
    /// for each other.
    #[inline]
    pub fn left_to_pull(&self) -> usize {
        (self.most() / 2).saturating_sub(self.own)
    }

    /// Whether the element may keep no further packet.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// Notes how many packets the element keeps now.
    #[inline]
    pub fn set(&mut self, packets: usize) {
        if let Some(room) = &self.room {
            let others = room.taken.get().saturating_sub(self.own);
            room.taken.set(others + packets);
        }
        self.own = packets;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_purpose_add_up() {
        for (slots, purpose, most) in [
            (8192, Purpose::Neighbours, 1024),
            (8192, Purpose::Fragments, 1024),
            (8192, Purpose::Queues, 5120),
            (16, Purpose::Fragments, 8),
        ] {
            let rooms = Rooms::of(slots);
            let (mut one, mut other) = (rooms.share(purpose), rooms.share(purpose));
            assert_eq!((one.most(), one.left(), one.left_to_pull()), (most, most, most / 2));
            one.set(most - 1);
            assert_eq!((one.left(), other.left(), one.left_to_pull()), (1, 1, 0));
            other.set(1);
            assert!(one.is_full() && other.is_full());
            drop(one);
            assert_eq!((other.left(), other.left_to_pull()), (most - 1, most / 2 - 1));
        }
    }

    #[test]
    fn an_eighth_of_the_pool_is_left() {
        let Rooms(all) = Rooms::of(8192);
        assert_eq!(all.iter().map(|room| room.most).sum::<usize>(), 8192 / 8 * 7);
    }

    #[test]
    fn the_default_has_no_bound() {
        let mut share = Share::default();
        share.set(1 << 20);
        assert!(!share.is_full() && share.left_to_pull() > 1 << 20);
    }
}
