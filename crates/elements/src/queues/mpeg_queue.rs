//! # MPEGQueue
//!
//! ## Synopsis
//! `MPEGQueue([CAPACITY])`
//!
//! ## Ports
//! One push input, one pull output. A second, push output, if connected, gets the packets that do
//! not fit.
//!
//! ## Description
//! A queue that drops the difference frames of MPEG transport streams before their key frames.
//! Packets with difference frames only may use half of the room; all others may use all of it.
//! Where the rate behind the queue is too low, a dropped difference frame makes the picture
//! stutter; a lost key frame would leave no picture until the next one. After a drop, the rest of
//! the frame is dropped too, because a player could not show it. The order of packets does not
//! change.
//!
//! The element expects the transport packets of a stream, 188 bytes each, at the packet's end,
//! behind any headers, and not encrypted. The picture header (MPEG-2), the first slice (H.264) or
//! the transport packet (random access indicator) shows that a frame is a key frame. Packets
//! without a transport stream, and packets that also carry sound, tables or other data, count like
//! a key frame. The element is an example of what a router can decide if it knows its traffic.
//!
//! ## Arguments
//! - CAPACITY: most packets, default 1000.
//!
//! ## Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): most packets that were in the queue at one time.
//! - `capacity` (read, write): most packets.
//! - `drops` (read): packets that did not fit.
//! - `reset_counts` (write): sets `drops` to zero and `highwater_length` to the present length.
//! - `reset` (write): drops all packets.
//!
//! ## See also
//! `Queue`, `MixedQueue`, `SetQueue`

use crate::prelude::*;
use crate::queues::queue::Queue;

const TRANSPORT_BYTES: usize = 188;
const SYNC: u8 = 0x47;

/// The contents of a transport packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Carries {
    /// A key frame, or another frame.
    #[default]
    Key,
    Difference,
    /// Rest of a difference frame after a drop.
    Spoilt,
}

/// The present frame of each picture stream, by the stream's number (PID).
struct Frames(Box<[Carries; 1 << 13]>);

impl Default for Frames {
    fn default() -> Frames {
        Frames(Box::new([Carries::Key; 1 << 13]))
    }
}

/// The transport packets at the end of a packet.
fn transport(data: &[u8]) -> impl Iterator<Item = &[u8; TRANSPORT_BYTES]> {
    let (_, all) = data.as_rchunks::<TRANSPORT_BYTES>();
    let none = all.iter().rposition(|one| one[0] != SYNC).map_or(0, |at| at + 1);
    all.get(none..).unwrap_or_default().iter()
}

/// Number of the stream of a transport packet.
fn stream(one: &[u8; TRANSPORT_BYTES]) -> usize {
    usize::from(u16::from_be_bytes([one[1], one[2]]) & 0x1fff)
}

/// The frame that begins in a transport packet, if there is one. ISO 13818-1, 2.4.3.
fn begins(one: &[u8; TRANSPORT_BYTES]) -> Option<Carries> {
    let (starts, adaptation, payload) =
        (one[1] & 0x40 != 0, one[3] & 0x20 != 0, one[3] & 0x10 != 0);
    if !starts || !payload {
        return None;
    }
    let skip = if adaptation { 5 + usize::from(one[4]) } else { 4 };
    let random_access = adaptation && one[4] > 0 && one[5] & 0x40 != 0;
    let elementary = one.get(skip..).unwrap_or_default();
    // A packetised elementary stream of pictures: 2.4.3.7.
    match elementary {
        [0, 0, 1, 0xe0..=0xef, ..] => {}
        _ => return Some(Carries::Key),
    }
    if random_access {
        return Some(Carries::Key);
    }
    let header = 9 + usize::from(elementary.get(8).copied().unwrap_or(0));
    let pictures = elementary.get(header..).unwrap_or_default();
    for code in pictures.windows(6).filter(|window| window.starts_with(&[0, 0, 1])) {
        match code[3] {
            // MPEG-2: a picture's header; type 1 is a picture that needs no other (13818-2, 6.3.9).
            0 if code[5] >> 3 & 7 == 1 => return Some(Carries::Key),
            0 => return Some(Carries::Difference),
            0xb3 | 0xb8 => return Some(Carries::Key),
            // H.264: slices and parameter sets (14496-10, 7.4.1).
            other if other & 0x80 == 0 => match other & 0x1f {
                5 | 7 => return Some(Carries::Key),
                1..=4 => return Some(Carries::Difference),
                _ => {}
            },
            _ => {}
        }
    }
    Some(Carries::Difference)
}

impl Frames {
    /// The contents of a packet, judged by its most important part.
    fn judge(&mut self, data: &[u8]) -> Carries {
        let mut found = None;
        for one in transport(data) {
            let Some(state) = self.0.get_mut(stream(one)) else { continue };
            *state = begins(one).unwrap_or(*state);
            found = match (found, *state) {
                (None, state) => Some(state),
                (Some(Carries::Key), _) | (_, Carries::Key) => Some(Carries::Key),
                (Some(Carries::Spoilt), Carries::Spoilt) => Some(Carries::Spoilt),
                _ => Some(Carries::Difference),
            };
        }
        found.unwrap_or_default()
    }

    /// A packet was dropped: the rest of its difference frames cannot be shown.
    fn spoil(&mut self, data: &[u8]) {
        for one in transport(data) {
            if let Some(state) = self.0.get_mut(stream(one))
                && *state == Carries::Difference
            {
                *state = Carries::Spoilt;
            }
        }
    }
}

/// A queue that prefers key frames to other frames.
#[derive(Default)]
pub(crate) struct MPEGQueue(Queue, Frames);

impl Class for MPEGQueue {
    const INFO: ClassInfo = ClassInfo::new("MPEGQueue", "1/1-2").processing("h/lh").inline();
}

impl Element for MPEGQueue {
    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let MPEGQueue(queue, frames) = self;
        for packet in batch.drain() {
            let fits = match frames.judge(packet.data()) {
                Carries::Key => true,
                Carries::Difference => !queue.is_half_full(),
                Carries::Spoilt => false,
            };
            let refused = if fits { queue.push_back(packet) } else { Some(packet) };
            if let Some(refused) = refused {
                frames.spoil(refused.data());
                queue.overflow(refused, context);
            }
        }
    }

    delegate!(but push);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// A transport packet of a stream, and the frame that begins in it, if there is one.
    fn one(stream: u16, begins: &[u8]) -> Vec<u8> {
        let mut one = vec![0xff; TRANSPORT_BYTES];
        one[0] = SYNC;
        one[1..3].copy_from_slice(&stream.to_be_bytes());
        one[3] = 0x10;
        if !begins.is_empty() {
            one[1] |= 0x40;
            one[4..13].copy_from_slice(&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0]);
            one[13..13 + begins.len()].copy_from_slice(begins);
        }
        one
    }

    const I: [u8; 6] = [0, 0, 1, 0, 0, 0x08];
    const B: [u8; 6] = [0, 0, 1, 0, 0, 0x18];

    #[test]
    fn frames() {
        let mut random_access = one(9, &[]);
        random_access[1] |= 0x40;
        random_access[3] |= 0x20;
        random_access[4..6].copy_from_slice(&[1, 0x40]);
        random_access[6..15].copy_from_slice(&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0]);
        let mut sound = one(9, &B);
        sound[7] = 0xc0;
        let mut beyond = one(9, &B);
        beyond[3] |= 0x20;
        beyond[4] = 255;
        for (packet, wanted) in [
            (one(9, &I), Some(Carries::Key)),
            (one(9, &B), Some(Carries::Difference)),
            (one(9, &[0, 0, 1, 0xb3, 0, 0]), Some(Carries::Key)),
            // H.264: an access unit delimiter, then a slice.
            (one(9, &[0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65, 0]), Some(Carries::Key)),
            (one(9, &[0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41, 0]), Some(Carries::Difference)),
            (random_access, Some(Carries::Key)),
            (sound, Some(Carries::Key)),
            (beyond, Some(Carries::Key)),
            (one(9, &[]), None),
        ] {
            let packet: [u8; TRANSPORT_BYTES] = packet.try_into().expect("188 bytes");
            assert_eq!(begins(&packet), wanted, "{packet:02x?}");
        }
        assert_eq!(transport(&[0x47; 42]).count(), 0);
        assert_eq!(transport(&[&[0x47; 42][..], &one(9, &I), &one(8, &[])].concat()).count(), 2);
        assert_eq!(Frames::default().judge(&[]), Carries::Key);
    }

    #[test]
    fn difference_frames_give_way() {
        let mut bench = Bench::new("MPEGQueue", &["4"]);
        bench.log();
        let header = [0; 42];
        let packet = |parts: &[Vec<u8>]| [&header[..], &parts.concat()].concat();
        let (b, more, i) = (packet(&[one(9, &B)]), packet(&[one(9, &[])]), packet(&[one(9, &I)]));
        assert_eq!(bench.push(0, &[&b, &b]), []);
        // Half of the room is taken: the rest of this frame is dropped, even when there is room.
        assert_eq!(bench.push(0, &[&b]), [(1, b.clone())]);
        assert_eq!(bench.pull(1), std::slice::from_ref(&b));
        assert_eq!(bench.push(0, &[&more]), [(1, more.clone())]);
        // Key frames fit, as do packets that contain a part of one, and packets without a stream.
        let mixed = packet(&[one(9, &B), one(8, &[])]);
        assert_eq!(bench.push(0, &[&i, &mixed, b"other"]), []);
        assert_eq!(bench.push(0, &[&i]), [(1, i.clone())], "full");
        assert_eq!(bench.router.read("e.drops", ""), Ok("3".into()));
        assert_eq!(bench.pull(9), [b, i, mixed, b"other".to_vec()]);
    }
}
