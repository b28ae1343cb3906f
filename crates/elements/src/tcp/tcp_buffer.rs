//! # TCPBuffer
//!
//! ## Synopsis
//! `TCPBuffer([SKIP])`
//!
//! ## Ports
//! One push input, one pull output.
//!
//! ## Description
//! Holds TCP packets, and releases them in the order of their sequence numbers. The order begins
//! with the first packet that is pulled. It drops duplicates, packets that come after a later one
//! was pulled, and packets for which it has no room. Packets need the IP header annotation.
//!
//! ## Arguments
//! - SKIP: whether to release the next packet even if one before it is missing; default false: wait
//!   for the missing one.
//!
//! ## Handlers
//! - `length` (read): packets held.
//! - `drops` (read): packets dropped.
//!
//! ## See also
//! `TCPAck`, `TCPConn`, `Queue`

use std::collections::VecDeque;

use super::{Segment, before};
use crate::prelude::*;

/// Most packets.
const MOST: usize = 1024;

/// Delivers TCP packets in order.
#[derive(Default)]
pub(crate) struct TCPBuffer {
    skip: bool,
    packets: VecDeque<(Segment, Packet)>,
    /// The next sequence number, once a packet was pulled.
    next: Option<u32>,
    drops: u64,
}

impl Class for TCPBuffer {
    const INFO: ClassInfo = ClassInfo::new("TCPBuffer", "1/1").processing("h/l");
}

impl TCPBuffer {
    /// The first missing sequence number from `from` on; `None` before the first packet.
    pub(super) fn missing(&self, from: u32) -> Option<u32> {
        let first = self.packets.front().map(|(segment, _)| segment.sequence);
        let mut expected = self.next.or(first)?;
        for (segment, _) in &self.packets {
            if segment.sequence != expected {
                if !before(expected, from) {
                    return Some(expected);
                }
                if before(from, segment.sequence) {
                    return Some(from);
                }
            }
            expected = segment.sequence.wrapping_add(segment.span());
        }
        Some(if before(expected, from) { from } else { expected })
    }

    fn insert(&mut self, packet: Packet) -> Option<()> {
        let segment = Segment::of(&packet)?;
        let late = self.next.is_some_and(|next| before(segment.sequence, next));
        if late || self.packets.len() >= MOST {
            return None;
        }
        // Most come in order.
        let place =
            self.packets.iter().rposition(|(other, _)| !before(segment.sequence, other.sequence));
        let known = place.and_then(|at| self.packets.get(at));
        if known.is_some_and(|(other, _)| other.sequence == segment.sequence) {
            return None;
        }
        self.packets.insert(place.map_or(0, |at| at + 1), (segment, packet));
        Some(())
    }

    /// Whether the first packet is the next one in order.
    fn is_due(&self) -> bool {
        let first = self.packets.front().map(|(segment, _)| segment.sequence);
        first.is_some_and(|first| self.skip || self.next.is_none_or(|next| next == first))
    }
}

impl Element for TCPBuffer {
    arguments! { this, given;
        positional "SKIP": bool = false => this.skip;
        then {
            this.packets.reserve(MOST);
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.drain() {
            self.drops += u64::from(self.insert(packet).is_none());
        }
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, _: &mut Context<'_>) {
        for _ in 0..max.min(batch.room()) {
            if !self.is_due() {
                return;
            }
            let Some((segment, packet)) = self.packets.pop_front() else { return };
            self.next = Some(segment.sequence.wrapping_add(segment.span()));
            // There is room.
            let _ = batch.push(packet);
        }
    }

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, _: &mut Context<'_>) -> bool {
        self.is_due()
    }

    handlers! { this, context, value;
        read "length" => this.packets.len();
        read "drops" => this.drops;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::super::{ACK, Flow};
    use super::TCPBuffer;
    use crate::testing::Bench;

    fn bench(arguments: &[&str]) -> Bench {
        let mut bench = Bench::new("TCPBuffer", arguments);
        let flow = Flow::default();
        let start = u32::MAX - 2;
        let at = |offset: u32, data| packet(flow, start.wrapping_add(offset), ACK, data);
        bench.push_packets(0, vec![at(0, b"ab"), at(5, b"f"), at(2, b"cde"), at(2, b"cde")]);
        bench.push_packets(0, vec![at(9, b"k")]);
        bench
    }

    fn data(packets: Vec<Vec<u8>>) -> Vec<u8> {
        packets.iter().flat_map(|packet| packet[40..].to_vec()).collect()
    }

    #[test]
    fn packets_come_in_order_and_wait_for_a_missing_one() {
        let mut bench = bench(&["false"]);
        assert_eq!(bench.element::<TCPBuffer>().missing(u32::MAX - 2), Some(3));
        assert_eq!(data(bench.pull(10)), b"abcdef");
        assert!(bench.pull(10).is_empty());
        let late = packet(Flow::default(), 0, ACK, b"x");
        let missing = packet(Flow::default(), 3, ACK, b"ghi");
        bench.push_packets(0, vec![late, missing]);
        assert_eq!(data(bench.pull(10)), b"ghik");
        assert_eq!(bench.router.read("e.drops", ""), Ok("2".into()));
        assert_eq!(bench.element::<TCPBuffer>().missing(0), Some(7));
    }

    #[test]
    fn a_missing_one_may_be_skipped() {
        assert_eq!(data(bench(&["true"]).pull(10)), b"abcdefk");
    }
}
