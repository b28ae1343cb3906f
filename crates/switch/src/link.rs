//! Links: a frame goes from one router's pool directly into another's, by one copy, without a
//! device and without a system call.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use europa_pool::layout::{
    LONG_SLOT_BYTES, RESULT_BYTES, RESULT_OFFSET_BYTES, RX_OFFSET_BYTES, SEGMENT_OFFSET_BYTES,
    TAIL_BYTES, rx_offset,
};
use europa_pool::{Mapping, PoolView, Word, ring};
use europa_substrate::cause;
use europa_substrate::layout::PoolState;

use crate::long::Long;
use crate::pools::Pools;
use crate::queue::Queued;
use crate::tables::{Pool, Shared, count};
use crate::tap::{Crossing, arriving, crossing};

/// So many packets may wait for a router at the other end of a link.
const BACKLOG: u32 = 2048;

/// The other end of a link, looked up once a batch: its router may get another pool, with other
/// cursors, at any time.
pub(crate) struct End<'a> {
    interface: u32,
    local: u32,
    odd: bool,
    pool_id: u32,
    pub(crate) pool: &'a Pool,
}

impl<'a> End<'a> {
    /// `None` if its router restarts.
    pub(crate) fn of(interface: u32, shared: &Shared, pools: &'a Pools) -> Option<Self> {
        let row = shared.interfaces.get(interface);
        let (pool_id, odd) = (row.pool_id(), row.is_odd());
        Some(Self { interface, local: row.local, odd, pool_id, pool: pools.get(&pool_id)? })
    }

    /// Whether the receiver has room for another packet.
    #[inline]
    fn has_room(&self, shared: &Shared) -> bool {
        let rx = self.pool.view.rx(self.local);
        let tail = shared.rx_tail(self.interface, self.odd).load(Ordering::Acquire);
        rx.peek(tail).is_none() && rx.peek(tail.wrapping_sub(BACKLOG)).is_none()
    }

    /// Takes a free slot for a frame, if the receiver has room for one; else counts why not, and
    /// returns the number of that counter.
    #[inline]
    fn claim(&self, shared: &Shared) -> Result<u32, u8> {
        let target = &self.pool.view;
        if !self.has_room(shared) {
            count!(shared, self.interface, rx_drop_ring, 1);
            return Err(cause!(rx_drop_ring));
        }
        let Some(free) = shared.take_free(target, self.pool_id) else {
            count!(shared, self.interface, rx_drop_slots, 1);
            return Err(cause!(rx_drop_slots));
        };
        Ok(free.slot() & (target.layout().geometry.slots - 1))
    }

    /// Takes a free long slot, if the router takes super-packets, no capture looks at them, and
    /// there is one.
    fn claim_long(&self, shared: &Shared) -> Option<u32> {
        let view = &self.pool.view;
        let takes = view.takes_long().load(Ordering::Relaxed) != 0;
        (takes && shared.taps_of(self.interface) == 0)
            .then(|| shared.take_free_long(view, self.pool_id))
            .flatten()
    }

    /// Puts a frame that was copied into a slot into the ring, and counts it; false, and the slot
    /// free again, if there is no room.
    #[inline]
    fn publish(&self, shared: &Shared, slot: u32, length: u32, flags: u64) -> bool {
        let (target, to) = (&self.pool.view, self.interface);
        let word = Word::frame(slot, rx_offset(slot) as u16, length as u16, flags);
        let rx_tail = shared.rx_tail(to, self.odd);
        if !ring::put_shared(target.rx(self.local), rx_tail, word.on(self.local as u8)) {
            let tail = offset_of!(PoolState, recycle_tail);
            let tail = shared.pool_state.atomic_u32(self.pool_id, tail);
            ring::put_unbounded(target.recycle(), tail, Word::free(slot));
            count!(shared, to, rx_drop_ring, 1);
            return false;
        }
        count!(shared, to, rx_packets, 1);
        count!(shared, to, rx_bytes, u64::from(length));
        true
    }
}

/// Copies a frame from another machine into a free slot of the pool of this end, if that has room
/// for it.
pub(crate) fn arrive(shared: &Shared, frame: &[u8], end: &End<'_>) -> Delivery {
    let (to, target, length) = (end.interface, &end.pool.view, frame.len() as u32);
    let taps = shared.taps_of(to);
    let tap = |cause: u8| {
        if taps != 0 {
            arriving(shared, to, taps, frame, cause);
        }
    };
    if length > target.layout().max_frame_bytes() {
        count!(shared, to, rx_drop_long, 1);
        tap(cause!(rx_drop_long));
        return Delivery::Refused;
    }
    let slot = match end.claim(shared) {
        Ok(slot) => slot,
        Err(cause) => {
            tap(cause);
            return Delivery::Refused;
        }
    };
    target.mapping().copy_in(target.slot_offset(slot, rx_offset(slot)), frame);
    tap(0);
    if end.publish(shared, slot, length, 0) { Delivery::Done } else { Delivery::Refused }
}

/// The result for a packet to the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Done,
    /// The other end has no room for it, which is counted there.
    Refused,
    /// It is not a frame, which is counted.
    Malformed,
}

/// Copies the packet into a free slot of the pool of the other end, if that has room for it.
pub(crate) fn deliver(shared: &Shared, from: &PoolView, packet: Queued, end: &End<'_>) -> Delivery {
    let (to, target) = (end.interface, &end.pool.view);
    let length = u32::from(packet.word.length());
    let source = from.slot_offset(packet.word.slot(), packet.word.offset().into());
    let source_end =
        from.slot_offset(packet.word.slot(), 0) + from.layout().geometry.slot_bytes as usize;
    let taps = (shared.taps_of(packet.interface), shared.taps_of(to));
    let tap = |cause: u8, memory: &Mapping, offset: usize| {
        if taps != (0, 0) {
            let (from, to) = ((packet.interface, taps.0), (to, taps.1));
            crossing(shared, &Crossing { from, to, memory, offset, length, cause });
        }
    };
    if length < 14 || source + length as usize > source_end {
        count!(shared, packet.interface, tx_drop_length, 1);
        tap(cause!(tx_drop_length), from.mapping(), source);
        return Delivery::Malformed;
    }
    if length > target.layout().max_frame_bytes() {
        count!(shared, to, rx_drop_long, 1);
        tap(cause!(rx_drop_long), from.mapping(), source);
        return Delivery::Refused;
    }
    let slot = match end.claim(shared) {
        Ok(slot) => slot,
        Err(cause) => {
            tap(cause, from.mapping(), source);
            return Delivery::Refused;
        }
    };
    let copy = target.slot_offset(slot, rx_offset(slot));
    from.mapping().copy_to(source, target.mapping(), copy, length as usize);
    let has_result = packet.word.flags() & Word::RESULT != 0;
    if has_result {
        let at = |view: &PoolView, slot| view.slot_offset(slot, RESULT_OFFSET_BYTES);
        let (from_at, to_at) = (at(from, packet.word.slot()), at(target, slot));
        from.mapping().copy_to(from_at, target.mapping(), to_at, RESULT_BYTES);
    }
    // Before the router has it, which may change it.
    tap(0, target.mapping(), copy);
    if !end.publish(shared, slot, length, if has_result { Word::RESULT } else { 0 }) {
        return Delivery::Refused;
    }
    count!(shared, packet.interface, tx_packets, 1);
    count!(shared, packet.interface, tx_bytes, u64::from(length));
    Delivery::Done
}

/// Copies a super-packet as it is into a long slot of the pool of the other end. `None` if it must be
/// cut. `head` are its first bytes, which were checked: the copy begins with them.
pub(crate) fn deliver_long(
    shared: &Shared,
    from: &PoolView,
    packet: Queued,
    (long, head): (&Long, &[u8]),
    end: &End<'_>,
) -> Option<Delivery> {
    const MOST: usize = (LONG_SLOT_BYTES - RX_OFFSET_BYTES - TAIL_BYTES) as usize;
    let (to, target, length) = (end.interface, &end.pool.view, packet.word.length());
    let head = head.get(..long.headers)?;
    let fits =
        usize::from(length) < MOST && long.longest() <= target.layout().max_frame_bytes() as usize;
    if !fits {
        return None;
    }
    if !end.has_room(shared) {
        count!(shared, to, rx_drop_ring, long.frames());
        return Some(Delivery::Refused);
    }
    let slot = end.claim_long(shared)?;
    let copy = target.slot_offset(slot, RX_OFFSET_BYTES);
    let (source, bytes) = long.payload(from, packet.word);
    target.mapping().copy_in(copy, head);
    from.mapping().copy_to(source, target.mapping(), copy + long.headers, bytes);
    target.mapping().copy_in(target.slot_offset(slot, SEGMENT_OFFSET_BYTES), &long.metadata());
    let word = Word::frame(slot, RX_OFFSET_BYTES as u16, length, 0).on(end.local as u8);
    if !ring::put_shared(target.rx(end.local), shared.rx_tail(to, end.odd), word) {
        shared.free_long(target, end.pool_id, slot);
        count!(shared, to, rx_drop_ring, long.frames());
        return Some(Delivery::Refused);
    }
    count!(shared, packet.interface, tx_packets, long.frames());
    count!(shared, packet.interface, tx_bytes, long.wire_bytes());
    count!(shared, to, rx_packets, long.frames());
    count!(shared, to, rx_bytes, long.wire_bytes());
    Some(Delivery::Done)
}
