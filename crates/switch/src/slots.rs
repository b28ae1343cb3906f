//! Free slots of pools: taken, returned, and set aside.
//!
//! Free slots circulate in a ring, the oldest first, so that all slots of a pool would be used in
//! turns. Each is half a page: with a few thousand of them, most accesses would miss the TLB and
//! the caches. So only a few stay in use, and the others are set aside for a burst.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use europa_pool::layout::LONG_SLOT;
use europa_pool::{PoolView, Word, ring};
use europa_substrate::layout::PoolState;

use crate::tables::Shared;

/// Number of free slots of a pool that stay in use: twice the number that a router or the switch
/// takes at a time.
const STAY: u32 = 256;
/// Most slots that are set aside at a time.
const AT_ONCE: u32 = 256;

impl Shared {
    /// Takes and holds a free slot of a pool for a copy of a packet.
    pub(crate) fn hold_free(&self, view: &PoolView, pool: u32) -> Option<u32> {
        let slot = self.take_free(view, pool)?.slot() & (view.layout().geometry.slots - 1);
        // A slot that is already held was returned twice: it stays with its holder.
        self.held.take(pool, slot).then_some(slot)
    }

    /// Takes a free slot of a pool.
    pub(crate) fn take_free(&self, view: &PoolView, pool: u32) -> Option<Word> {
        let state = |offset| self.pool_state.atomic_u32(pool, offset);
        let sources = [
            (view.recycle(), offset_of!(PoolState, recycle_head)),
            (view.spare(), offset_of!(PoolState, spare_head)),
            (view.fill(), offset_of!(PoolState, fill_head)),
        ];
        sources.into_iter().find_map(|(entries, head)| ring::take_shared(entries, state(head)))
    }

    /// Takes a free long slot of a pool; `None` also where the pool has none.
    pub(crate) fn take_free_long(&self, view: &PoolView, pool: u32) -> Option<u32> {
        let long_slots = view.layout().long_slots;
        if long_slots == 0 {
            return None;
        }
        let state = |offset| self.pool_state.atomic_u32(pool, offset);
        let sources = [
            (view.long_recycle(), offset_of!(PoolState, long_recycle_head)),
            (view.long_fill(), offset_of!(PoolState, long_fill_head)),
        ];
        let word = sources
            .into_iter()
            .find_map(|(entries, head)| ring::take_shared(entries, state(head)))?;
        Some(LONG_SLOT | (word.slot() & (long_slots - 1)))
    }

    /// Makes a long slot free again that was not held.
    pub(crate) fn free_long(&self, view: &PoolView, pool: u32, slot: u32) {
        let tail = self.pool_state.atomic_u32(pool, offset_of!(PoolState, long_recycle_tail));
        ring::put_unbounded(view.long_recycle(), tail, Word::free(slot));
    }

    /// Gives a held slot to the ring that its word names, and forgets it.
    #[inline]
    pub(crate) fn give_back(&self, view: &PoolView, pool: u32, word: Word) {
        let slot = view.mask(word.slot());
        let free = Word::free(slot);
        let (ring, tail) = if word.flags() & Word::RETURN != 0 {
            (view.done(), offset_of!(PoolState, done_tail))
        } else if slot & LONG_SLOT != 0 {
            (view.long_recycle(), offset_of!(PoolState, long_recycle_tail))
        } else {
            (view.recycle(), offset_of!(PoolState, recycle_tail))
        };
        // In this order: a switch that ends between the two loses a slot; in the other order, the
        // slot would be returned twice.
        self.held.give(pool, slot);
        ring::put_unbounded(ring, self.pool_state.atomic_u32(pool, tail), free);
    }

    /// Sets free slots aside, except a few. For the worker that serves the pool.
    pub(crate) fn set_aside(&self, view: &PoolView, pool: u32) {
        let slots = view.layout().geometry.slots;
        if slots <= STAY {
            return;
        }
        let cursor = |offset| self.pool_state.atomic_u32(pool, offset);
        let head = cursor(offset_of!(PoolState, recycle_head));
        let tail = cursor(offset_of!(PoolState, recycle_tail)).load(Ordering::Relaxed);
        let free = tail.wrapping_sub(head.load(Ordering::Relaxed)).min(slots);
        for _ in 0..free.saturating_sub(STAY).min(AT_ONCE) {
            let Some(word) = ring::take_shared(view.recycle(), head) else { break };
            let slot = word.slot() & (slots - 1);
            // A held slot was returned twice: it stays with its holder.
            if self.held.has(pool, slot) {
                continue;
            }
            let spare = cursor(offset_of!(PoolState, spare_tail));
            ring::put_unbounded(view.spare(), spare, Word::free(slot));
        }
    }
}
