//! Tests both ends of a link: sent frames arrive, and hostile packets change nothing.

use europa_tunnel::{
    Cause, HEADER_BYTES, Header, Key, MOST_HEADER_BYTES, PATIENCE_NS, Part, Received, Receiver,
    Sender, WAITING_FRAMES,
};
use proptest::prelude::*;

const HEADER: Header =
    Header { id: 7, key: Key(0xfeed), epoch: 3, session: 11, sequence: 0, part: None };
const MOST_FRAME: usize = 9232;

fn receiver() -> Receiver {
    Receiver::new(Key(0xfeed), 3, MOST_FRAME)
}

/// The packets that a sender makes of a frame.
fn packets(sender: &mut Sender, frame: &[u8]) -> Vec<Vec<u8>> {
    let sent = sender.send(frame.len()).expect("a frame that can be sent");
    sent.packets()
        .map(|(header, range)| {
            let mut packet = vec![0; MOST_HEADER_BYTES];
            let length = header.write(&mut packet).expect("room");
            packet.truncate(length);
            packet.extend(&frame[range]);
            packet
        })
        .collect()
}

fn receive<'a>(receiver: &'a mut Receiver, now_ns: u64, packet: &'a [u8]) -> Received<'a> {
    let (header, payload) = Header::read(packet).expect("a packet");
    receiver.receive(now_ns, &header, payload)
}

fn frame(length: usize, first: u8) -> Vec<u8> {
    (0..length).map(|at| first.wrapping_add(at as u8)).collect()
}

#[test]
fn foreign_packets_are_dropped_by_cause() {
    let mut end = receiver();
    for (header, length, wanted) in [
        (Header { key: Key(0xfeee), ..HEADER }, 60, Received::Dropped(Cause::Key)),
        (Header { epoch: 2, ..HEADER }, 60, Received::Dropped(Cause::Epoch)),
        (Header { sequence: 1, ..HEADER }, 13, Received::Dropped(Cause::Length)),
        (Header { sequence: 2, ..HEADER }, 0, Received::Dropped(Cause::Length)),
        (Header { sequence: 3, ..HEADER }, MOST_FRAME + 1, Received::Dropped(Cause::Length)),
        (Header { sequence: 3, ..HEADER }, 60, Received::Dropped(Cause::Twice)),
    ] {
        let payload = frame(length, 0);
        assert_eq!(end.receive(0, &header, &payload), wanted, "{header:?} {length}");
    }
    let wrong = |index, count, frame_bytes| Some(Part { index, count, frame_bytes });
    for (number, (part, length)) in [
        (wrong(0, 1, 60), 60),
        (wrong(2, 2, 60), 30),
        (wrong(0, 2, 60), 31),
        (wrong(1, 2, 61), 31),
        (wrong(0, 65, 650), 10),
        (wrong(0, 0, 60), 60),
    ]
    .into_iter()
    .enumerate()
    {
        let header = Header { sequence: 10 + number as u32, part, ..HEADER };
        let payload = frame(length, 0);
        let found = end.receive(0, &header, &payload);
        assert_eq!(found, Received::Dropped(Cause::Part), "{part:?}");
    }
    let counted = end.counted();
    assert_eq!((counted.wrong_key, counted.lower_epoch, counted.twice), (1, 1, 1));
    assert_eq!((counted.wrong_length, counted.wrong_part, counted.frames), (3, 6, 0));
}

#[test]
fn a_part_that_contradicts_its_frame_is_dropped() {
    let (mut sender, mut end) = (Sender::new(HEADER, 900), receiver());
    let whole = frame(1514, 1);
    let parts = packets(&mut sender, &whole);
    assert_eq!(receive(&mut end, 0, &parts[0]), Received::Part);
    // A part of the same frame with another length of the whole frame.
    let part = Some(Part { index: 1, count: 3, frame_bytes: 1514 });
    let header = Header { sequence: 1, part, ..HEADER };
    assert_eq!(end.receive(0, &header, &frame(505, 0)), Received::Dropped(Cause::Part));
    // The correct part has the same number as the wrong one.
    assert_eq!(receive(&mut end, 0, &parts[1]), Received::Dropped(Cause::Twice));
}

#[test]
fn a_higher_epoch_and_a_new_session_are_learnt() {
    let mut end = receiver();
    let whole = frame(60, 0);
    let take = |end: &mut Receiver, header: Header| match end.receive(0, &header, &whole) {
        Received::Frame(_) => None,
        Received::Dropped(cause) => Some(cause),
        Received::Part => panic!("no part"),
    };
    assert_eq!(take(&mut end, Header { sequence: 500, ..HEADER }), None);
    assert_eq!(take(&mut end, Header { session: 12, ..HEADER }), None);
    assert_eq!(take(&mut end, Header { epoch: 9, ..HEADER }), None);
    assert_eq!(take(&mut end, HEADER), Some(Cause::Epoch));
    // The document has a lower epoch than a received packet.
    end.change(Key(0xfeed), 4);
    assert_eq!(take(&mut end, Header { epoch: 8, ..HEADER }), Some(Cause::Epoch));
    // Another key has its own epochs.
    end.change(Key(1), 4);
    assert_eq!(take(&mut end, Header { epoch: 4, key: Key(1), ..HEADER }), None);
    assert_eq!(end.counted().lost, 0);
}

#[test]
fn unfinished_frames_are_bounded_in_number_and_time() {
    let (mut sender, mut end) = (Sender::new(HEADER, 900), receiver());
    let all: Vec<_> =
        (0..WAITING_FRAMES + 4).map(|n| packets(&mut sender, &frame(1514, n as u8))).collect();
    for (time, parts) in (0..).zip(&all) {
        assert_eq!(receive(&mut end, time, &parts[0]), Received::Part);
    }
    assert_eq!(end.counted().unfinished, 4);
    // The receiver has dropped the oldest frames. It keeps a later one until the frame's time ends.
    let last = all.len() as u64 - 1;
    let whole = frame(1514, 10);
    assert_eq!(receive(&mut end, last, &all[10][1]), Received::Frame(&whole));
    end.expire(last + PATIENCE_NS);
    assert_eq!(end.counted().unfinished, 4 + WAITING_FRAMES as u64 - 1);
    assert_eq!(receive(&mut end, last + PATIENCE_NS, &all[12][1]), Received::Part);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((header, payload)) = Header::read(&bytes) {
            prop_assert!(payload.len() + HEADER_BYTES <= bytes.len());
            receiver().receive(0, &header, payload);
        }
    }

    #[test]
    fn one_wrong_byte_does_no_harm(at in 0usize..52, byte: u8, length in 14usize..2000) {
        let (mut sender, mut end) = (Sender::new(HEADER, 900), receiver());
        let mut joined = 0;
        for mut packet in packets(&mut sender, &frame(length, 0)) {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            let Ok((header, payload)) = Header::read(&packet) else { continue };
            match end.receive(0, &header, payload) {
                // If the part option is not read as one, each part is a frame of its own.
                Received::Frame(found) if header.part.is_none() => prop_assert_eq!(found, payload),
                Received::Frame(found) => {
                    prop_assert!(found.len() <= MOST_FRAME);
                    joined += 1;
                }
                Received::Part | Received::Dropped(_) => {}
            }
        }
        prop_assert!(joined <= 1, "{} frames of the parts of one", joined);
    }

    #[test]
    fn headers_are_read_as_they_were_written(
        id in 0u32..1 << 24, key: u64, epoch: u64, session: u32, sequence: u32,
        part in prop::option::of((any::<u8>(), any::<u8>(), any::<u16>())),
    ) {
        let part = part.map(|(index, count, frame_bytes)| Part { index, count, frame_bytes });
        let header = Header { id, key: Key(key), epoch, session, sequence, part };
        let mut bytes = [0; MOST_HEADER_BYTES];
        let length = header.write(&mut bytes).expect("room");
        prop_assert_eq!(Header::read(&bytes[..length]), Ok((header, &[][..])));
    }

    /// Sends frames of all lengths over underlays of all lengths; the test drops some packets and
    /// exchanges some neighbours. Each frame arrives whole and once, or does not arrive.
    #[test]
    fn frames_come_whole_or_not_at_all(
        lengths in prop::collection::vec(14usize..MOST_FRAME, 1..40),
        most in 300usize..9400,
        fates in prop::collection::vec(0u8..10, 1..100),
    ) {
        let (mut sender, mut end) = (Sender::new(HEADER, most), receiver());
        let frames: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(n, length)| frame(*length, n as u8)).collect();
        let mut way: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut fates = fates.iter().cycle();
        let mut hit = vec![false; frames.len()];
        // A packet that many other packets overtake would be too late to be accepted.
        let mut swapped = false;
        for (number, one) in frames.iter().enumerate() {
            for packet in packets(&mut sender, one) {
                prop_assert!(packet.len() <= most);
                match fates.next() {
                    Some(0) => hit[number] = true,
                    Some(1) if !way.is_empty() && !swapped => {
                        way.insert(way.len() - 1, (number, packet));
                        swapped = true;
                    }
                    _ => {
                        way.push((number, packet));
                        swapped = false;
                    }
                }
            }
        }
        let mut come = vec![0; frames.len()];
        for (number, packet) in &way {
            match receive(&mut end, 0, packet) {
                Received::Frame(found) => {
                    prop_assert_eq!(found, &frames[*number][..]);
                    come[*number] += 1;
                }
                Received::Part => {}
                Received::Dropped(cause) => prop_assert!(false, "{:?}", cause),
            }
        }
        for (number, times) in come.iter().enumerate() {
            // Few packets are lost at a time, so the receiver drops no unfinished frame for another
            // one.
            let wanted = if hit[number] { 0..=0 } else if end.counted().unfinished > 0 { 0..=1 } else { 1..=1 };
            prop_assert!(wanted.contains(times), "frame {number} came {times} times");
        }
        prop_assert_eq!(end.counted().packets as usize, way.len());
    }
}
