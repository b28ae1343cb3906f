//! The router's end of its pool: rings in, rings out, and where its slots are.
//!
//! A slot is in one of three places: in the rings (it will carry a received frame), away with the
//! switch, or with the router: in a packet, or in the arena's stock. The router keeps a small
//! stock, so that it can make packets of its own: errors, queries, tests. Slots from the stock that
//! it sends come back through the `done` ring; all others go straight to reception again, without
//! passing through here.

use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::ring::Entries;
use crate::{Arena, Batch, PacketType, PoolView, Word, look_on};

/// How many frames ahead memory is asked for: a line that one core wrote takes another one tens of
/// nanoseconds to get.
const AHEAD: u32 = 8;

/// A place that is empty so long, while the one behind it is not, stays empty: its writer was
/// killed before it could fill it.
const GAP: Duration = Duration::from_secs(1);

/// Slots of a pool of `slots` that start, and stay, with its router.
pub const fn stock(slots: u32) -> u32 {
    let eighth = slots / 8;
    if eighth < 256 { eighth } else { 256 }
}

/// The router's end of a pool.
pub struct Endpoint {
    view: Rc<PoolView>,
    arena: Arena,
    macs: Vec<[u8; 6]>,
    rx_head: Vec<u32>,
    /// By interface, which place is empty although the one behind it is not, and since when.
    gaps: Vec<Option<(u32, Instant)>>,
    tx_tail: Vec<u32>,
    fill_tail: u32,
    done_head: u32,
    /// Slots that are to come back by the done ring.
    returning: u32,
    /// By interface: packets received.
    received: Vec<u64>,
    /// By interface: packets sent.
    sent: Vec<u64>,
    /// Descriptors received that named no slot of the substrate's: never, unless another process
    /// wrote into the pool.
    pub strange: u64,
}

impl Endpoint {
    /// Takes the router's end of a new pool, with the MAC addresses of its interfaces.
    pub fn new(view: PoolView, macs: Vec<[u8; 6]>) -> Self {
        let geometry = view.layout().geometry;
        let view = Rc::new(view);
        // A new pool's slots are all in its rings, as the arena takes them to be.
        // SAFETY: the slots lie at the start of the mapping, which the arena keeps. The
        // substrate touches only slots that are away: it was handed them by a ring.
        let arena = unsafe {
            Arena::from_mapping(
                view.mapping().base(),
                0,
                geometry.slots,
                geometry.slot_bytes as usize,
            )
        };
        arena.keep(Box::new(view.clone()));
        let interfaces = geometry.interfaces as usize;
        let mut endpoint = Self {
            view,
            arena,
            macs,
            rx_head: vec![0; interfaces],
            gaps: vec![None; interfaces],
            tx_tail: vec![0; interfaces],
            fill_tail: 0,
            done_head: 0,
            returning: stock(geometry.slots),
            received: vec![0; interfaces],
            sent: vec![0; interfaces],
            strange: 0,
        };
        endpoint.balance();
        endpoint
    }

    /// Where this router's packets are made.
    pub fn arena(&self) -> &Arena {
        &self.arena
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

    /// Whether a transmit ring is so full that packets received now might not fit. The
    /// switch empties rings whatever becomes of the packets, so it has just not had its
    /// turn: this router gives it the core, and what arrives meanwhile is dropped before
    /// it has cost a copy.
    pub fn is_congested(&self) -> bool {
        self.tx_tail.iter().zip(0..).any(|(tail, interface)| {
            let ring = self.view.tx(interface);
            let ahead = (ring.capacity() / 2).min(crate::BATCH) as u32;
            ring.peek(tail.wrapping_add(ahead)).is_some()
        })
    }

    /// Whether a packet that this router makes would find no slot. Slots of sent packets come back
    /// without waking it.
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
        let slots = self.view.layout().geometry.slots;
        let before = batch.len();
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
            if let Some(word) = ring.peek(head.wrapping_add(AHEAD)) {
                self.arena.prefetch(word.slot() & (slots - 1), word.offset());
            }
            *head = head.wrapping_add(1);
            let slot = word.slot() & (slots - 1);
            // SAFETY: the receive program has filled the slot and published it; it does
            // not touch it again before it finds it in a ring.
            let Some(mut packet) =
                (unsafe { self.arena.adopt(slot, word.offset(), word.length()) })
            else {
                self.strange += 1;
                continue;
            };
            if word.flags() & Word::RESULT != 0 {
                packet.set_answered(true);
                // It will not come by the done ring.
                let returned = word.flags() & Word::RETURN != 0;
                self.returning = self.returning.saturating_sub(returned.into());
            }
            packet.set_interface(interface as u16);
            // A packet with an answer was sent here by a rule, for any later destination.
            if let Some(destination) = packet.data().first_chunk()
                && packet.filter_result().is_none()
            {
                packet.set_packet_type(PacketType::of(*destination, *mac));
            }
            let _ = batch.push(packet);
        }
        if let Some(received) = self.received.get_mut(interface) {
            *received += (batch.len() - before) as u64;
        }
    }

    /// Sends packets from the front of `batch`; leaves those that the ring has no room
    /// for. Packets that are not of this pool are copied into it, or dropped.
    pub fn send(&mut self, interface: usize, batch: &mut Batch) {
        self.send_keeping(interface, batch, 0);
    }

    /// The same, with so many places of the ring left free, a quarter of all at most.
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
            let packet = if self.arena.owns(&packet) {
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
            if self.arena.free() as u32 + self.returning < wanted {
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

    /// Takes back the sent slots of the stock, and gives reception the excess of the stock. Once a
    /// round.
    pub fn balance(&mut self) {
        let slots = self.view.layout().geometry.slots;
        let done = self.view.done();
        while let Some(word) = done.peek(self.done_head) {
            done.clear(self.done_head);
            self.done_head = self.done_head.wrapping_add(1);
            self.returning = self.returning.saturating_sub(1);
            // SAFETY: the substrate has sent the slot and gave it back.
            if !unsafe { self.arena.give_free(word.slot() & (slots - 1)) } {
                self.strange += 1;
            }
        }
        let wanted = stock(slots) as usize;
        // Not for a single packet: slots that go to and fro cost more than they bring.
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

    /// Whether a frame waits at any interface, also behind a place that is empty yet.
    pub fn has_input(&self) -> bool {
        self.rx_head.iter().zip(0..).any(|(head, interface)| {
            let ring = self.view.rx(interface);
            ring.peek(*head).is_some() || ring.peek(head.wrapping_add(1)).is_some()
        })
    }

    /// Announces that this router sleeps and wants to be woken. True if there is input
    /// already, or output that has yet to find room: then it must not sleep.
    pub fn fall_asleep(&self) -> bool {
        self.view.asleep().store(1, Ordering::SeqCst);
        // The receive program publishes and then reads the flag; we set the flag and then
        // look: one of us sees the other.
        fence(Ordering::SeqCst);
        look_on(|| self.has_input() || self.is_congested())
    }

    /// Takes the announcement back.
    pub fn wake_up(&self) {
        self.view.asleep().store(0, Ordering::Relaxed);
    }
}

/// Passes over the empty place at `head`, before one that is not, when it has been so for long.
/// Else its word is on its way.
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
mod tests {
    use super::*;
    use crate::ring::Consumer;
    use crate::{Geometry, Layout};
    use nix::sys::memfd::{MFdFlags, memfd_create};

    /// An endpoint, and a second view of the same pool for the test to play substrate.
    fn pair(slots: u32) -> (Endpoint, PoolView) {
        let geometry = Geometry { slots, slot_bytes: 2048, interfaces: 2 };
        let bytes = Layout::new(geometry).unwrap().memory_bytes().next_multiple_of(4096);
        let file = memfd_create(c"pool", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&file, bytes as i64).unwrap();
        let substrate = PoolView::open(&file, geometry).unwrap();
        substrate.format(&[]);
        let view = PoolView::open(&file, geometry).unwrap();
        (Endpoint::new(view, vec![[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]), substrate)
    }

    #[test]
    fn a_place_that_nobody_fills_is_passed_over_after_a_while() {
        let (mut router, substrate) = pair(64);
        let mut batch = Batch::new();
        let slot = |place| substrate.recycle().peek(place).unwrap().slot();
        assert!(substrate.rx(0).fill(1, Word::frame(slot(0), 256, 60, 0)));
        assert!(router.has_input() && router.fall_asleep());
        for _ in 0..3 {
            router.receive(0, &mut batch, 256);
            assert!(batch.is_empty(), "whoever has that place is at it");
        }
        let (_, since) = router.gaps[0].as_mut().unwrap();
        *since = since.checked_sub(GAP).unwrap();
        router.receive(0, &mut batch, 256);
        router.receive(0, &mut batch, 256);
        assert_eq!((batch.len(), router.gaps[0]), (1, None));
        assert!(!router.has_input());
        // A place that is filled late is none.
        assert!(substrate.rx(0).fill(3, Word::frame(slot(1), 256, 60, 0)));
        router.receive(0, &mut batch, 256);
        assert!(substrate.rx(0).fill(2, Word::frame(slot(2), 256, 60, 0)));
        router.receive(0, &mut batch, 256);
        assert_eq!(batch.len(), 3);
    }

    #[test]
    fn frames_go_round_and_slots_never_get_lost() {
        let (mut router, substrate) = pair(64);
        assert_eq!(router.arena().free(), 8);
        let mut recycle = Consumer::new(substrate.recycle(), 0);
        let mut recycle_tail = 56;
        let mut tx = Consumer::new(substrate.tx(1), 0);
        let mut done_tail = 8;
        let mut batch = Batch::new();
        for round in 0..1000u32 {
            let slot = recycle.take().unwrap().slot();
            let at = substrate.slot_offset(slot, 256);
            substrate.mapping().copy_in(at, &[2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 0]);
            assert!(substrate.rx(0).fill(round, Word::frame(slot, 256, 60, 0)));
            router.receive(0, &mut batch, 256);
            assert_eq!(batch.len(), 1);
            assert_eq!(batch.as_slice()[0].packet_type(), PacketType::Host);
            if round % 3 == 0 {
                // One more of its own.
                let _ = batch.push(router.arena().packet(&[0xff; 60]).unwrap());
            }
            router.send(1, &mut batch);
            while let Some(word) = tx.take() {
                assert_eq!(word.length(), 60);
                if word.flags() & Word::RETURN != 0 {
                    substrate.done().fill(done_tail, Word::free(word.slot()));
                    done_tail += 1;
                } else {
                    substrate.recycle().fill(recycle_tail, Word::free(word.slot()));
                    recycle_tail += 1;
                }
            }
            router.balance();
        }
        assert_eq!(router.arena().free(), 8, "the stock is whole again");
        let free = substrate.recycle().snapshot().count() + substrate.fill().snapshot().count();
        assert_eq!(free, 56);
        assert_eq!(router.strange, 0);
    }

    #[test]
    fn what_a_router_drops_goes_back_to_reception() {
        let (mut router, substrate) = pair(64);
        let mut recycle = Consumer::new(substrate.recycle(), 0);
        let mut batch = Batch::new();
        for number in 0..56 {
            let slot = recycle.take().unwrap().slot();
            substrate.rx(1).fill(number, Word::frame(slot, 256, 60, 0));
        }
        router.receive(1, &mut batch, 256);
        assert_eq!(batch.len(), 56);
        batch.clear();
        router.balance();
        assert_eq!(substrate.fill().snapshot().count(), 56);
    }

    #[test]
    fn nonsense_in_the_receive_ring_is_counted_not_believed() {
        let (mut router, substrate) = pair(64);
        let mut batch = Batch::new();
        // A slot that the router has in its stock; one out of range; a frame too long.
        substrate.rx(0).fill(0, Word::frame(0, 256, 60, 0));
        substrate.rx(0).fill(1, Word::frame(40, 1000, 2000, 0));
        substrate.rx(0).fill(2, Word::frame(40 + 64, 256, 60, 0));
        router.receive(0, &mut batch, 256);
        assert_eq!(batch.len(), 1, "the slot is masked");
        assert_eq!(router.strange, 2);
    }

    #[test]
    fn a_full_ring_leaves_packets_with_the_router() {
        let (mut router, substrate) = pair(8);
        for number in 0..8 {
            substrate.tx(0).fill(number, Word::free(0));
        }
        let mut batch = Batch::new();
        let _ = batch.push(router.arena().packet(&[0; 60]).unwrap());
        router.send(0, &mut batch);
        assert_eq!(batch.len(), 1);
    }
}
