//! # SetTCPChecksum
//!
//! ## Synopsis
//! `SetTCPChecksum([FIXOFF])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Computes the TCP checksum of each packet, whose network header annotation must be set. Packets
//! that are shorter than their IP header says are dropped.
//!
//! ## Arguments
//! - FIXOFF: correct a data offset that lies outside the segment; default false.
//!
//! ## Handlers
//! - `drops` (read): packets dropped.
//!
//! ## See also
//! `CheckTCPHeader`, `SetIPChecksum`, `SetUDPChecksum`

use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::{be16, is_fragment, network_mut, segment_checksum, set};

/// Sets TCP checksums.
#[derive(Default)]
pub(crate) struct SetTCPChecksum {
    fix_offset: bool,
    drops: u64,
}

impl Class for SetTCPChecksum {
    const INFO: ClassInfo = ClassInfo::new("SetTCPChecksum", "1/1").inline();
}

impl SetTCPChecksum {
    /// `None` for a packet whose checksum cannot be computed.
    fn complete(&self, packet: &mut Packet) -> Option<()> {
        let (header, rest) = network_mut(packet)?;
        let length = usize::from(be16(header, 2)?).checked_sub(header.len())?;
        let segment = rest.get_mut(..length).filter(|segment| segment.len() >= 20)?;
        if self.fix_offset
            && let Some(byte) = segment.get_mut(12)
        {
            let offset = usize::from(*byte >> 4) * 4;
            if offset < 20 {
                *byte = *byte & 15 | 5 << 4;
            } else if offset > length && !is_fragment(header) {
                // The result is below 15 words, because it is smaller than the offset.
                *byte = *byte & 15 | ((length / 4) as u8) << 4;
            }
        }
        set(segment, 16, [0; 2]);
        let check = segment_checksum(header, segment);
        set(segment, 16, check.to_be_bytes()).then_some(())
    }
}

impl Element for SetTCPChecksum {
    arguments! { this, given;
        positional "FIXOFF": bool = false => this.fix_offset;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let drops = retain(batch, |packet| self.complete(packet).is_some());
        if drops > 0 {
            context.log("SetTCPChecksum: bad lengths");
        }
        self.drops += drops;
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use europa_packet::{EthernetHeader, Frame, Header, MacAddr};

    use crate::testing::Bench;

    #[test]
    fn the_checksum_is_right() {
        let (own, other) = (MacAddr([2; 6]), MacAddr([4; 6]));
        let frame = Frame::new(own, other).ipv4([1, 2, 3, 4], [5, 6, 7, 8]);
        let good = frame.tcp(1, 2, 3, 0x10, b"payload")[EthernetHeader::LEN..].to_vec();
        for (at, fix) in [(36, "false"), (32, "true")] {
            let mut bytes = good.clone();
            bytes[at] = 0;
            let mut bench = Bench::new("SetTCPChecksum", &[fix]);
            bench.log();
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 20);
            let mut short = bench.arena.packet(&good[..39]).unwrap();
            short.set_network_header(0, 20);
            assert_eq!(bench.push_packets(0, vec![packet, short]), [(0, good.clone())]);
        }
    }

    /// A second of bad packets, and its report.
    #[test]
    fn a_flood_of_bad_packets_writes_few_lines() {
        let mut bench = Bench::new("SetTCPChecksum", &[]);
        let lines = bench.log();
        for n in 0..1000 {
            bench.now_ns = n * 900_000;
            bench.push(0, &[b"short"]);
        }
        assert_eq!(lines.borrow().len(), 100);
        let due_ns = bench.router.next_timer_ns().expect("what is left out is told");
        assert_eq!(due_ns, 1_000_000_000);
        bench.now_ns = due_ns;
        bench.run();
        assert_eq!(lines.borrow().last().map(String::as_str), Some("e: 900 more lines left out"));
        assert_eq!(bench.router.next_timer_ns(), None);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1000".into()));
        bench.router.set_line_limit(None);
        (0..200).for_each(|_| drop(bench.push(0, &[b"short"])));
        assert_eq!(lines.borrow().len(), 301);
    }
}
