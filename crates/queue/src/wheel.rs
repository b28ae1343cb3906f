//! The nodes to check, by time: a hierarchical timing wheel (Varghese and Lauck 1987) of six levels
//! of 64 slots, with ticks of 1024 ns. Setting and clearing a timer costs two list changes each. A
//! timer moves down at most five times before it is due.

use crate::node::NONE;

const TICK_SHIFT: u32 = 10;
const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Later timers are checked after this many ticks, 19 hours, and set again.
const HORIZON: u64 = 1 << (SLOT_BITS * LEVELS as u32);
const OFF: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Timer {
    next: u32,
    prev: u32,
    tick: u64,
    /// Level and slot, or [`OFF`].
    place: u16,
}

const IDLE: Timer = Timer { next: NONE, prev: NONE, tick: 0, place: OFF };

/// One timer for each node.
pub(crate) struct Wheel {
    /// No timer is set to a time before this tick.
    tick: u64,
    /// No slot with timers begins before this tick.
    earliest: u64,
    heads: [u32; LEVELS * SLOTS],
    busy: [u64; LEVELS],
    timers: Vec<Timer>,
}

impl Wheel {
    pub(crate) fn new(nodes: usize) -> Self {
        let timers = Vec::with_capacity(nodes);
        let heads = [NONE; LEVELS * SLOTS];
        Self { tick: 0, earliest: u64::MAX, heads, busy: [0; LEVELS], timers }
    }

    /// Adds a node with a timer.
    pub(crate) fn push(&mut self) {
        self.timers.push(IDLE);
    }

    /// Sets a node's timer, unless it is already set to an earlier time.
    pub(crate) fn set(&mut self, node: u32, due_ns: u64) {
        // The timer is never early. It lies in the future, so that a caller that sets it again
        // makes progress.
        let tick = due_ns.div_ceil(1 << TICK_SHIFT).max(self.tick + 1);
        let timer = self.timers[node as usize];
        if timer.place != OFF {
            if timer.tick <= tick {
                return;
            }
            self.clear(node);
        }
        self.place(node, tick);
    }

    fn place(&mut self, node: u32, tick: u64) {
        let tick = if tick ^ self.tick < HORIZON { tick } else { self.tick | (HORIZON - 1) };
        // A slot of a level differs from the present time in that level's bits, and in no higher
        // bits.
        let differs = (tick ^ self.tick) | 1;
        let level = ((63 - differs.leading_zeros()) / SLOT_BITS) as usize;
        let slot = (tick >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        let place = level * SLOTS + slot;
        let next = self.heads[place];
        self.timers[node as usize] = Timer { next, prev: NONE, tick, place: place as u16 };
        if next != NONE {
            self.timers[next as usize].prev = node;
        }
        self.heads[place] = node;
        self.busy[level] |= 1 << slot;
        self.earliest =
            self.earliest.min(tick >> (SLOT_BITS * level as u32) << (SLOT_BITS * level as u32));
    }

    /// Unsets a node's timer.
    pub(crate) fn clear(&mut self, node: u32) {
        let Timer { next, prev, place, .. } = self.timers[node as usize];
        if place == OFF {
            return;
        }
        let place = usize::from(place);
        if next != NONE {
            self.timers[next as usize].prev = prev;
        }
        if prev != NONE {
            self.timers[prev as usize].next = next;
        } else {
            self.heads[place] = next;
            if next == NONE {
                self.busy[place / SLOTS] &= !(1 << (place % SLOTS));
            }
        }
        self.timers[node as usize].place = OFF;
    }

    /// The first slot with timers, and the tick at which it begins.
    fn first(&self) -> Option<(usize, u64)> {
        // Each timer on a lower level is due before all timers on a higher level.
        let level = self.busy.iter().position(|busy| *busy != 0)?;
        let slot = u64::from(self.busy[level].trailing_zeros());
        let shift = SLOT_BITS * level as u32;
        let above = self.tick >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
        Some((level * SLOTS + slot as usize, above | slot << shift))
    }

    /// The time for the next call of [`Self::pop`]: not after the first timer is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.first().map(|(_, tick)| tick << TICK_SHIFT)
    }

    /// Removes and returns a node whose timer is due at `now_ns`.
    #[inline]
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<u32> {
        let now = now_ns >> TICK_SHIFT;
        if now < self.earliest { None } else { self.pop_until(now) }
    }

    fn pop_until(&mut self, now: u64) -> Option<u32> {
        while let Some((place, begins)) = self.first().filter(|(_, begins)| *begins <= now) {
            self.tick = begins.max(self.tick);
            if place < SLOTS {
                let node = self.heads[place];
                self.clear(node);
                return Some(node);
            }
            self.descend(place);
        }
        self.tick = now.max(self.tick);
        self.earliest = self.first().map_or(u64::MAX, |(_, begins)| begins);
        None
    }

    /// Moves a slot's timers to lower levels.
    fn descend(&mut self, place: usize) {
        let mut node = self.heads[place];
        self.heads[place] = NONE;
        self.busy[place / SLOTS] &= !(1 << (place % SLOTS));
        while node != NONE {
            let Timer { next, tick, .. } = self.timers[node as usize];
            self.place(node, tick);
            node = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use europa_impair::Random;

    use super::*;

    #[test]
    fn timers_fire_once_and_within_a_tick() {
        for (seed, range_ns) in [(1, 5_000), (2, 300_000), (3, 1 << 34), (4, 1 << 52)] {
            let (nodes, mut random) = (50, Random::new(seed));
            let mut wheel = Wheel::new(nodes);
            (0..nodes).for_each(|_| wheel.push());
            let mut due: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 0;
            for _ in 0..20_000 {
                let node = random.below(nodes as u32);
                match random.below(3) {
                    0 => {
                        wheel.clear(node);
                        due.remove(&node);
                    }
                    1 => {
                        let at = now + 1 + random.bits() % range_ns;
                        wheel.set(node, at);
                        due.entry(node).and_modify(|due| *due = at.min(*due)).or_insert(at);
                    }
                    _ => now += random.bits() % (range_ns / 4),
                }
                if let Some(next) = wheel.next_ns() {
                    let first = due.values().min().expect("a timer is set");
                    assert!(next < first + (1 << TICK_SHIFT), "{next} {first}");
                }
                while let Some(node) = wheel.pop(now) {
                    let at = due.remove(&node).expect("set");
                    let early = at > now && at >> TICK_SHIFT < HORIZON;
                    assert!(!early, "{node}: {at} at {now}");
                }
                let late = due.values().any(|at| at.div_ceil(1 << TICK_SHIFT) <= now >> TICK_SHIFT);
                assert!(!late, "at {now}: {due:?}");
                assert_eq!(wheel.next_ns().is_some(), !due.is_empty());
            }
        }
    }
}
