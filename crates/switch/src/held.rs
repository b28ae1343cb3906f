//! The slots that the switch holds: taken from a transmit ring, but neither returned nor in a
//! transmit list, which outlives the process.
//!
//! One bit for each slot, in memory that outlives it too. When a switch is killed, the next one
//! gives those slots back: no pool shrinks. A slot that a router submits while it is held is
//! ignored.

use std::sync::atomic::Ordering;

use europa_pool::layout::{LONG_SLOT, MAX_LONG_SLOTS, MAX_SLOTS};
use europa_pool::{Layout, Mapping};

/// Long slots follow the others.
const POOL_BYTES: usize = (MAX_SLOTS + MAX_LONG_SLOTS) as usize / 8;
const _: () = assert!(POOL_BYTES.is_multiple_of(8));
/// Bytes of the memory of held slots; only touched pages take room.
pub const HELD_BYTES: usize = 4096 * POOL_BYTES;

pub(crate) struct Held {
    bits: Mapping,
    /// Several workers hold and return slots of a pool.
    pub(crate) several: bool,
}

impl Held {
    pub(crate) fn new(bits: Mapping, several: bool) -> Self {
        Self { bits, several }
    }

    #[inline]
    fn word(&self, pool: u32, slot: u32) -> Option<(&std::sync::atomic::AtomicU64, u64)> {
        let number = match slot & LONG_SLOT {
            0 => slot,
            _ => MAX_SLOTS + (slot & (MAX_LONG_SLOTS - 1)),
        };
        let offset = pool as usize * POOL_BYTES + (number / 64) as usize * 8;
        Some((self.bits.words(offset, 1)?.first()?, 1 << (number % 64)))
    }

    /// Notes that the switch holds a slot; false if it did already.
    #[inline]
    pub(crate) fn take(&self, pool: u32, slot: u32) -> bool {
        let Some((word, bit)) = self.word(pool, slot) else { return false };
        if self.several {
            return word.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        }
        let old = word.load(Ordering::Relaxed);
        word.store(old | bit, Ordering::Relaxed);
        old & bit == 0
    }

    /// Notes that a slot has been given back.
    #[inline]
    pub(crate) fn give(&self, pool: u32, slot: u32) {
        let Some((word, bit)) = self.word(pool, slot) else { return };
        if self.several {
            word.fetch_and(!bit, Ordering::Relaxed);
        } else {
            word.store(word.load(Ordering::Relaxed) & !bit, Ordering::Relaxed);
        }
    }

    /// Whether the switch holds a slot.
    #[inline]
    pub(crate) fn has(&self, pool: u32, slot: u32) -> bool {
        self.word(pool, slot).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Every slot of `pool` that is held, with long ones.
    pub(crate) fn of(&self, pool: u32, layout: &Layout) -> Vec<u32> {
        let long = (0..layout.long_slots).map(|slot| LONG_SLOT | slot);
        let all = (0..layout.geometry.slots).chain(long);
        all.filter(|slot| self.has(pool, *slot)).collect()
    }

    /// Forgets a pool.
    pub(crate) fn clear(&self, pool: u32) {
        for word in self.bits.words(pool as usize * POOL_BYTES, POOL_BYTES / 8).unwrap_or_default()
        {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}
