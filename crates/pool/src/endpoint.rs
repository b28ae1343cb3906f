//! The router's end of its pool: input rings, output rings, and the state of its slots.
//!
//! A slot is in one of three places: in the rings (to carry a frame that will be received), away
//! with the switch, or with the router: in a packet, or in the arena's stock. The router keeps a
//! small stock, so that it can make packets of its own: errors, queries, tests. Sent slots of the
//! stock return by the `done` ring. All others return directly to reception.

use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::layout::LONG_SLOT;
use crate::ring::Entries;
use crate::{Arena, Batch, PacketType, PoolView, Tally, Word, look_on};

/// Number of frames for which memory is prefetched: reading a cache line that another core has
/// written takes tens of nanoseconds.
const AHEAD: u32 = 8;

/// Time after which an empty entry before a full one counts as a gap: its writer was killed before
/// it could fill it.
const GAP: Duration = Duration::from_secs(1);

/// Number of slots that belong to the router's stock, in a pool of `slots`.
pub const fn stock(slots: u32) -> u32 {
    let eighth = slots / 8;
    if eighth < 256 { eighth } else { 256 }
}

/// Number of long slots that belong to the router's stock for copies of super-packets, in a pool of
/// `long_slots`.
pub const fn long_stock(long_slots: u32) -> u32 {
    long_slots / 8
}

/// The router's end of a pool.
pub struct Endpoint {
    view: Rc<PoolView>,
    arena: Arena,
    /// The arena of super-packets.
    long: Option<Arena>,
    /// Long slots that will return by the done ring.
    long_returning: u32,
    /// Super-packets that arrived although the router accepts none: dropped.
    pub refused_long: u64,
    macs: Vec<[u8; 6]>,
    rx_head: Vec<u32>,
    /// By interface: the empty entry before a full one, and the time since when it is empty.
    gaps: Vec<Option<(u32, Instant)>>,
    tx_tail: Vec<u32>,
    fill_tail: u32,
    long_fill_tail: u32,
    done_head: u32,
    /// Slots that will return by the done ring.
    returning: u32,
    /// By interface: packets received.
    received: Vec<u64>,
    /// By interface: packets sent.
    sent: Vec<u64>,
    /// Number of received descriptors that named no slot of the substrate: 0, unless another
    /// process wrote into the pool.
    pub strange: u64,
}

impl Endpoint {
    /// Takes the router's end of a new pool, with the MAC addresses of its interfaces.
    pub fn new(view: PoolView, macs: Vec<[u8; 6]>) -> Self {
        let geometry = view.layout().geometry;
        let view = Rc::new(view);
        // SAFETY: a new pool's slots are all in its rings, as the arena assumes. The slots lie at
        // the start of the mapping, which the arena keeps. The substrate touches only slots that
        // are away, which a ring gave to it.
        let arena = unsafe {
            Arena::from_mapping(
                view.mapping().base(),
                0,
                geometry.slots,
                geometry.slot_bytes as usize,
            )
        };
        arena.keep(Box::new(view.clone()));
        let long = (view.layout().long_slots > 0).then(|| {
            // SAFETY: the long slots lie in the mapping, which the arena keeps; the substrate
            // touches only those that are away.
            let long = unsafe {
                let first = view.mapping().base().add(view.long_offset());
                arena.with_long_slots(first, view.layout().long_slots)
            };
            long.keep(Box::new(view.clone()));
            for slot in 0..long_stock(view.layout().long_slots) {
                // SAFETY: in a new pool these slots are in no ring.
                unsafe { long.give_free(LONG_SLOT | slot) };
            }
            long
        });
        let interfaces = geometry.interfaces as usize;
        let mut endpoint = Self {
            view,
            arena,
            long,
            long_returning: 0,
            refused_long: 0,
            macs,
            rx_head: vec![0; interfaces],
            gaps: vec![None; interfaces],
            tx_tail: vec![0; interfaces],
            fill_tail: 0,
            long_fill_tail: 0,
            done_head: 0,
            returning: stock(geometry.slots),
            received: vec![0; interfaces],
            sent: vec![0; interfaces],
            strange: 0,
        };
        endpoint.balance();
        endpoint
    }

    /// The arena of this router's packets.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Counts of packets; a super-packet is one.
    pub fn tally(&self) -> Tally {
        let own = self.arena.tally();
        let Some(long) = self.long.as_ref().map(Arena::tally) else { return own };
        let (made, copied) = (own.made + long.made, own.copied + long.copied);
        Tally { made, copied, held: own.held + long.held, ..own }
    }

    /// Packets received from an interface, and sent to it.
    pub fn passed(&self, interface: usize) -> (u64, u64) {
        let of = |counts: &[u64]| counts.get(interface).copied().unwrap_or_default();
        (of(&self.received), of(&self.sent))
    }

    /// Packets received in all.
    pub fn received(&self) -> u64 {
        self.received.iter().sum()
    }

    /// Whether a transmit ring is so full that packets received now might not fit. The switch
    /// empties rings continuously, so it must have had no core. This router then yields its core to
    /// the switch; packets that arrive meanwhile are dropped before they are copied.
    pub fn is_congested(&self) -> bool {
        self.tx_tail.iter().zip(0..).any(|(tail, interface)| {
            let ring = self.view.tx(interface);
            let ahead = (ring.capacity() / 2).min(crate::BATCH) as u32;
            ring.peek(tail.wrapping_add(ahead)).is_some()
        })
    }

    /// Whether a packet that this router makes would find no slot. Returning slots do not wake the
    /// router.
    pub fn is_out_of_stock(&self) -> bool {
        self.arena.free() == 0
    }

    /// Adds up to `max` received packets of `interface` to `batch`.
    pub fn receive(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        if self.is_congested() {
            return;
        }
        let (Some(head), Some(mac)) = (self.rx_head.get_mut(interface), self.macs.get(interface))
        else {
            return;
        };
        let ring = self.view.rx(interface as u32);
        let takes_long = self.view.takes_long().load(Ordering::Relaxed) != 0;
        let slots = self.view.layout().geometry.slots;
        let (before, refused) = (batch.len(), self.refused_long);
        for _ in 0..max.min(batch.room()) {
            let Some(word) = ring.peek(*head) else {
                if ring.peek(head.wrapping_add(1)).is_some()
                    && let Some(gap) = self.gaps.get_mut(interface)
                {
                    step_over(head, gap);
                }
                break;
            };
            ring.clear(*head);
            if let Some(word) = ring.peek(head.wrapping_add(AHEAD))
                && !word.is_long()
            {
                self.arena.prefetch(word.slot() & (slots - 1), word.offset());
            }
            *head = head.wrapping_add(1);
            let (arena, slot, is_long) = match &self.long {
                Some(long) if word.is_long() => (long, self.view.mask(word.slot()), true),
                _ => (&self.arena, word.slot() & (slots - 1), false),
            };
            // SAFETY: the receive program has filled the slot and published it; the program does
            // not touch it again before it finds it in a ring.
            let Some(mut packet) = (unsafe { arena.adopt(slot, word.offset(), word.length()) })
            else {
                self.strange += 1;
                continue;
            };
            // The packet was sent before the router stopped accepting super-packets.
            if is_long && !takes_long {
                self.refused_long += 1;
                continue;
            }
            if word.flags() & Word::RESULT != 0 {
                packet.set_answered(true);
                // Such a slot does not return by the done ring. Keys of super-packets are not
                // looked up.
                let returned = word.flags() & Word::RETURN != 0;
                self.returning = self.returning.saturating_sub(returned.into());
            }
            packet.set_interface(interface as u16);
            // A rule has sent the packet here with a result, whatever its destination address.
            if let Some(destination) = packet.data().first_chunk()
                && packet.filter_result().is_none()
            {
                packet.set_packet_type(PacketType::of(*destination, *mac));
            }
            let _ = batch.push(packet);
        }
        if let Some(received) = self.received.get_mut(interface) {
            *received += (batch.len() - before) as u64 + self.refused_long - refused;
        }
    }

    /// Sends packets from the front of `batch`; leaves those for which the ring has no room.
    /// Packets of other pools are copied into this one, or dropped.
    pub fn send(&mut self, interface: usize, batch: &mut Batch) {
        self.send_keeping(interface, batch, 0);
    }

    /// Like [`Endpoint::send`], but `keep` places of the ring stay free, a quarter of all places at
    /// most.
    pub fn send_keeping(&mut self, interface: usize, batch: &mut Batch, keep: u32) {
        let Some(tail) = self.tx_tail.get(interface).copied() else { return };
        let ring = self.view.tx(interface as u32);
        let keep = keep.min(ring.capacity() as u32 / 4);
        let first = tail.wrapping_add(keep);
        let room = (0..batch.len() as u32)
            .take_while(|ahead| ring.peek(first.wrapping_add(*ahead)).is_none())
            .count();
        let mut at = tail;
        for packet in batch.drain_front(room) {
            let is_usual = self.arena.owns(&packet);
            let is_long = !is_usual && self.long.as_ref().is_some_and(|long| long.owns(&packet));
            let packet = if is_usual || is_long {
                packet
            } else {
                let Some(mut copy) = self.arena.packet(packet.data()) else { continue };
                copy.set_queue(packet.queue());
                if let Some(key) = packet.filter_key() {
                    copy.set_filter_key(key);
                }
                copy
            };
            let wanted = stock(self.view.layout().geometry.slots);
            let mut flags = 0;
            if let Some(long) = self.long.as_ref().filter(|_| is_long) {
                let wanted = long_stock(self.view.layout().long_slots);
                if (long.free() as u32) + self.long_returning < wanted {
                    flags = Word::RETURN;
                    self.long_returning += 1;
                }
            } else if self.arena.free() as u32 + self.returning < wanted {
                flags = Word::RETURN;
                self.returning += 1;
            }
            let place = packet.release();
            flags |= if place.keyed { Word::KEY } else { 0 };
            let word = Word::frame(place.slot, place.offset, place.length, flags);
            ring.fill(at, word.to_queue(place.queue));
            at = at.wrapping_add(1);
        }
        if let (Some(tail), Some(sent)) =
            (self.tx_tail.get_mut(interface), self.sent.get_mut(interface))
        {
            *sent += u64::from(at.wrapping_sub(*tail));
            *tail = at;
        }
    }

    /// Takes back the sent slots of the stock, and gives the excess of the stock to reception. Call
    /// it once a round.
    pub fn balance(&mut self) {
        let slots = self.view.layout().geometry.slots;
        let done = self.view.done();
        while let Some(word) = done.peek(self.done_head) {
            done.clear(self.done_head);
            self.done_head = self.done_head.wrapping_add(1);
            let (arena, returning, slot) = match &self.long {
                Some(long) if word.is_long() => {
                    (long, &mut self.long_returning, self.view.mask(word.slot()))
                }
                _ => (&self.arena, &mut self.returning, word.slot() & (slots - 1)),
            };
            *returning = returning.saturating_sub(1);
            // SAFETY: the substrate has sent the slot and returned it.
            if !unsafe { arena.give_free(slot) } {
                self.strange += 1;
            }
        }
        if let Some(long) = &self.long {
            let fill = self.view.long_fill();
            let wanted = long_stock(self.view.layout().long_slots) as usize;
            while long.free() > wanted && fill.peek(self.long_fill_tail).is_none() {
                let Some(slot) = long.take_free() else { break };
                fill.fill(self.long_fill_tail, Word::free(slot));
                self.long_fill_tail = self.long_fill_tail.wrapping_add(1);
            }
        }
        let wanted = stock(slots) as usize;
        // A small excess stays: moving slots back and forth costs more than it gains.
        if self.arena.free() > wanted + wanted / 4 {
            let fill = self.view.fill();
            while self.arena.free() > wanted && self.fill_room(&fill) {
                let Some(slot) = self.arena.take_free() else { break };
                fill.fill(self.fill_tail, Word::free(slot));
                self.fill_tail = self.fill_tail.wrapping_add(1);
            }
        }
    }

    fn fill_room(&self, fill: &Entries<'_>) -> bool {
        fill.peek(self.fill_tail).is_none()
    }

    /// Announces whether this router accepts super-packets, if its pool has slots for them.
    pub fn set_takes_long(&self, takes: bool) {
        let takes = takes && self.long.is_some();
        self.view.takes_long().store(takes.into(), Ordering::Release);
    }

    /// Whether a frame waits at any interface, even behind an entry that is still empty.
    pub fn has_input(&self) -> bool {
        self.rx_head.iter().zip(0..).any(|(head, interface)| {
            let ring = self.view.rx(interface);
            ring.peek(*head).is_some() || ring.peek(head.wrapping_add(1)).is_some()
        })
    }

    /// Announces that this router sleeps and needs to be woken. Returns true if input is already
    /// waiting, or output without room: then it must not sleep.
    pub fn fall_asleep(&self) -> bool {
        self.view.asleep().store(1, Ordering::SeqCst);
        // The receive program publishes a packet, then reads the flag. This side sets the flag,
        // then checks the ring. So one of the two sees the other's write.
        fence(Ordering::SeqCst);
        look_on(|| self.has_input() || self.is_congested())
    }

    /// Takes the announcement back.
    pub fn wake_up(&self) {
        self.view.asleep().store(0, Ordering::Relaxed);
    }
}

/// Skips the empty entry at `head`, before a full one, if it has been empty for a long time. Before
/// that, its word may still be in the process of being written.
#[cold]
fn step_over(head: &mut u32, gap: &mut Option<(u32, Instant)>) {
    match gap {
        Some((at, since)) if at == head => {
            if since.elapsed() >= GAP {
                *head = head.wrapping_add(1);
                *gap = None;
            }
        }
        _ => *gap = Some((*head, Instant::now())),
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("layout", self.view.layout())
            .field("returning", &self.returning)
            .field("stock", &self.arena.free())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
