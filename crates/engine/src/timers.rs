//! Timers of all elements of a router.

use std::collections::{BTreeSet, HashMap};

/// A timer of an element.
pub(crate) type Owner = (usize, u32);

/// Timers by deadline. Setting one costs a tree insertion, so use timers for milliseconds and
/// seconds, never for each packet.
#[derive(Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(u64, Owner)>,
    by_owner: HashMap<Owner, u64>,
}

impl Timers {
    /// Sets a timer; replaces an earlier setting of the same one.
    pub(crate) fn schedule(&mut self, owner: Owner, at_ns: u64) {
        if let Some(old) = self.by_owner.insert(owner, at_ns) {
            self.by_time.remove(&(old, owner));
        }
        self.by_time.insert((at_ns, owner));
    }

    pub(crate) fn unschedule(&mut self, owner: Owner) {
        if let Some(old) = self.by_owner.remove(&owner) {
            self.by_time.remove(&(old, owner));
        }
    }

    /// The earliest deadline.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the earliest timer if it is due.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Owner> {
        let first = *self.by_time.first().filter(|(at, _)| *at <= now_ns)?;
        self.by_time.remove(&first);
        self.by_owner.remove(&first.1);
        Some(first.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_once() {
        let mut timers = Timers::default();
        timers.schedule((1, 0), 30);
        timers.schedule((2, 0), 20);
        timers.schedule((1, 0), 10);
        timers.schedule((3, 7), 25);
        timers.unschedule((2, 0));
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.pop(9), None);
        assert_eq!(timers.pop(10), Some((1, 0)));
        assert_eq!(timers.pop(100), Some((3, 7)));
        assert_eq!((timers.pop(100), timers.next_ns()), (None, None));
    }
}
