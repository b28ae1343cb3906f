//! Links: a frame goes from one router's pool straight into another's, by one copy,
//! without a device and without a system call.

use std::mem::offset_of;

use europa_pool::layout::{RESULT_BYTES, RESULT_OFFSET_BYTES, RX_BACKLOG, rx_offset};
use europa_pool::{Mapping, PoolView, Word, ring};
use europa_substrate::cause;
use europa_substrate::layout::{Interface, PoolState};

use crate::queue::Queued;
use crate::tables::{Shared, count};
use crate::tap::{Crossing, crossing};

/// Copies the packet into a free slot of the pool of interface `to`; false when the
/// other side has no room for it. Counts both.
pub(crate) fn deliver(
    shared: &Shared,
    from: &PoolView,
    packet: Queued,
    target: &PoolView,
    to: u32,
) -> bool {
    let interface = shared.interfaces.get(to);
    let length = u32::from(packet.word.length());
    let source = from.slot_offset(packet.word.slot(), packet.word.offset().into());
    let source_end =
        from.slot_offset(packet.word.slot(), 0) + from.layout().geometry.slot_bytes as usize;
    let taps = (shared.taps_of(packet.interface), interface.taps);
    let tap = |cause: u8, memory: &Mapping, offset: usize| {
        if taps != (0, 0) {
            let (from, to) = ((packet.interface, taps.0), (to, taps.1));
            crossing(shared, &Crossing { from, to, memory, offset, length, cause });
        }
    };
    if length < 14 || source + length as usize > source_end {
        count!(shared, packet.interface, tx_drop_length, 1);
        tap(cause!(tx_drop_length), from.mapping(), source);
        return false;
    }
    if length > target.layout().max_frame_bytes() {
        count!(shared, to, rx_drop_long, 1);
        tap(cause!(rx_drop_long), from.mapping(), source);
        return false;
    }
    let rx = target.rx(interface.local);
    let rx_tail = shared.interfaces.atomic_u32(to, offset_of!(Interface, rx_tail));
    let tail = rx_tail.load(std::sync::atomic::Ordering::Acquire);
    if rx.peek(tail).is_some() || rx.peek(tail.wrapping_sub(RX_BACKLOG)).is_some() {
        count!(shared, to, rx_drop_ring, 1);
        tap(cause!(rx_drop_ring), from.mapping(), source);
        return false;
    }
    let state = |offset| shared.pool_state.atomic_u32(interface.pool, offset);
    let free = ring::take_shared(target.recycle(), state(offset_of!(PoolState, recycle_head)))
        .or_else(|| ring::take_shared(target.fill(), state(offset_of!(PoolState, fill_head))));
    let Some(free) = free else {
        count!(shared, to, rx_drop_slots, 1);
        tap(cause!(rx_drop_slots), from.mapping(), source);
        return false;
    };
    let slot = free.slot() & (target.layout().geometry.slots - 1);
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
    let flags = if has_result { Word::RESULT } else { 0 };
    let word =
        Word::frame(slot, rx_offset(slot) as u16, length as u16, flags).on(interface.local as u8);
    if !ring::put_shared(rx, rx_tail, word) {
        let tail = state(offset_of!(PoolState, recycle_tail));
        ring::put_unbounded(target.recycle(), tail, Word::free(slot));
        count!(shared, to, rx_drop_ring, 1);
        return false;
    }
    count!(shared, to, rx_packets, 1);
    count!(shared, to, rx_bytes, u64::from(length));
    count!(shared, packet.interface, tx_packets, 1);
    count!(shared, packet.interface, tx_bytes, u64::from(length));
    true
}
