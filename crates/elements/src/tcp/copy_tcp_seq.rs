//! # CopyTCPSeq
//!
//! ## Synopsis
//! `CopyTCPSeq()`
//!
//! ## Ports
//! Two inputs, two outputs, push or pull: input n to output n.
//!
//! ## Description
//! Remembers the highest sequence number of packets on path 0, and writes it into all packets on path
//! 1. Packets need the IP header annotation; checksums are left as they are.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `reset` (write): forgets it.
//!
//! ## See also
//! `TCPConn`, `TCPAck`

use super::{Segment, before, set_sequence};
use crate::prelude::*;

/// Copies from packets of one path to those of another.
#[derive(Default)]
pub(crate) struct CopyTCPSeq {
    sequence: Option<u32>,
}

impl Class for CopyTCPSeq {
    const INFO: ClassInfo = ClassInfo::new("CopyTCPSeq", "2/2").flow("#/#");
}

impl CopyTCPSeq {
    fn work(&mut self, port: usize, batch: &mut Batch) {
        if port == 0 {
            for packet in batch.iter() {
                let Some(segment) = Segment::of(packet) else { continue };
                if self.sequence.is_none_or(|known| before(known, segment.sequence)) {
                    self.sequence = Some(segment.sequence);
                }
            }
        } else if let Some(sequence) = self.sequence {
            for packet in batch {
                // A packet without these headers passes unchanged.
                let _ = set_sequence(packet, sequence);
            }
        }
    }
}

impl Element for CopyTCPSeq {
    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.work(port, batch);
        context.forward(port, batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        context.pull(port, max, &mut own);
        self.work(port, &mut own);
        batch.append(&mut own);
        context.give_batch(own);
    }

    handlers! { this, context, value; button "reset" => this.sequence = None; }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::super::{Flow, SYN, Segment};
    use crate::testing::Bench;

    #[test]
    fn the_highest_number_is_copied() {
        let flow = Flow { addresses: [[1; 4], [2; 4]], ports: [3, 4] };
        let mut bench = Bench::new("CopyTCPSeq", &[]);
        for sequence in [u32::MAX, 5, 3] {
            bench.push_packets(0, vec![packet(flow, sequence, SYN, b"")]);
        }
        bench.push_packets(1, vec![packet(flow, 99, SYN, b"x")]);
        assert_eq!(Segment::of(&bench.out[0].1).unwrap().sequence, 5);
        bench.router.write("e.reset", "").unwrap();
        bench.push_packets(1, vec![packet(flow, 99, SYN, b"x")]);
        assert_eq!(Segment::of(&bench.out[0].1).unwrap().sequence, 99);
    }
}
