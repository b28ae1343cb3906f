use super::*;
use crate::layout::SEGMENT_OFFSET_BYTES;
use crate::ring::Consumer;
use crate::{Geometry, Layout};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// An endpoint, and a second view of the same pool through which the test acts as the substrate.
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
    // An entry that is filled late is no gap.
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
            // The router also sends a packet of its own.
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

/// A super-packet of three segments in long slot `slot`, received at place `at`.
fn receive_long(substrate: &PoolView, slot: u32, at: u32) {
    let (segment, excess) = (3000_u16, 3000_u16 + 500);
    let metadata = [segment.to_ne_bytes(), excess.to_ne_bytes()].concat();
    let start = substrate.slot_offset(LONG_SLOT | slot, SEGMENT_OFFSET_BYTES);
    substrate.mapping().copy_in(start, &metadata);
    let word = Word::frame(LONG_SLOT | slot, 192, 66 + 6500, 0);
    assert!(substrate.rx(0).fill(at, word));
}

#[test]
fn super_packets_go_round_and_their_slots_never_get_lost() {
    let (mut router, substrate) = pair(2048);
    assert_eq!(substrate.layout().long_slots, 16);
    let free = || substrate.long_recycle().snapshot().count();
    assert_eq!((free(), router.long.as_ref().unwrap().free()), (14, 2));
    let mut recycle = Consumer::new(substrate.long_recycle(), 0);
    let mut fill = Consumer::new(substrate.long_fill(), 0);
    let mut tx = Consumer::new(substrate.tx(1), 0);
    let (mut done_tail, mut recycle_tail) = (256, 14);
    let mut batch = Batch::new();
    router.set_takes_long(true);
    for round in 0..200 {
        let slot = recycle.take().unwrap().slot() & 15;
        receive_long(&substrate, slot, round);
        router.receive(0, &mut batch, 256);
        let packet = batch.pop().unwrap();
        assert!(packet.is_long());
        assert_eq!((packet.frames(), packet.wire_bytes()), (3, 66 * 3 + 6500));
        assert_eq!((packet.is_longer_than(3066), packet.is_longer_than(3065)), (false, true));
        assert!(packet.alloc_sibling().is_none());
        if round % 3 == 0 {
            let copy = packet.try_clone().expect("a long slot of the stock");
            assert_eq!((copy.frames(), copy.len()), (3, packet.len()));
            let _ = batch.push(copy);
        }
        if round % 2 == 0 {
            let _ = batch.push(packet);
        } else {
            drop(packet);
        }
        router.send(1, &mut batch);
        while let Some(word) = tx.take() {
            assert!(word.is_long() && word.length() == 6566);
            let slot = Word::free(substrate.mask(word.slot()));
            if word.flags() & Word::RETURN != 0 {
                substrate.done().fill(done_tail, slot);
                done_tail += 1;
            } else {
                substrate.long_recycle().fill(recycle_tail, slot);
                recycle_tail += 1;
            }
        }
        router.balance();
        // The substrate takes what the router gives it.
        while let Some(word) = fill.take() {
            substrate.long_recycle().fill(recycle_tail, word);
            recycle_tail += 1;
        }
    }
    assert_eq!((free(), router.long.as_ref().unwrap().free(), router.strange), (14, 2, 0));
    // A super-packet that arrives after the router has stopped accepting them.
    router.set_takes_long(false);
    receive_long(&substrate, recycle.take().unwrap().slot() & 15, 200);
    router.receive(0, &mut batch, 256);
    router.balance();
    assert_eq!((batch.len(), router.refused_long, free()), (0, 1, 13));
    assert_eq!(substrate.long_fill().snapshot().count(), 1);
    // A slot in the router's stock, and a slot that the router does not have.
    receive_long(&substrate, 0, 201);
    router.receive(0, &mut batch, 256);
    assert_eq!(router.strange, 1);
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
    // A slot in the router's stock; one out of range; a frame that is too long.
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
