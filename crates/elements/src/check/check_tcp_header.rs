//! # CheckTCPHeader
//!
//! ## Synopsis
//! `CheckTCPHeader([VERBOSE, DETAILS])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Checks the TCP header of IPv4 packets: protocol, header length, length and checksum. Packets
//! that fail leave by output 1, or are dropped if it is not connected. The network header
//! annotation must be set.
//!
//! ## Arguments
//! - VERBOSE (keyword): log every bad packet, not only the first; default false.
//! - DETAILS (keyword): accepted as in Click, without effect: the handler `drop_details` always
//!   exists.
//!
//! ## Handlers
//! - `drops` (read): packets that failed.
//! - `drop_details` (read): the numbers of failed packets for each reason.
//!
//! ## See also
//! `CheckIPHeader`, `CheckUDPHeader`, `CheckICMPHeader`, `SetTCPChecksum`

use super::Checks;
use crate::prelude::*;
use crate::shared::fields::{be16, network, segment_checksum};

/// Checks TCP headers.
pub(crate) struct CheckTCPHeader(Checks);

impl Default for CheckTCPHeader {
    fn default() -> CheckTCPHeader {
        CheckTCPHeader(Checks::new(&["not TCP", "bad packet length", "bad TCP checksum"]))
    }
}

impl Class for CheckTCPHeader {
    const INFO: ClassInfo = ClassInfo::new("CheckTCPHeader", "1/1-2").processing("a/ah").inline();
}

/// The reason why a packet is bad.
fn judge(packet: &Packet) -> Option<usize> {
    let Some((header, rest)) = network(packet).filter(|(header, _)| header.get(9) == Some(&6))
    else {
        return Some(0);
    };
    let length = be16(header, 2).map_or(0, usize::from).saturating_sub(header.len());
    let Some(segment) = rest.get(..length) else { return Some(1) };
    let offset = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    if offset < 20 || length < offset {
        return Some(1);
    }
    (segment_checksum(header, segment) != 0).then_some(2)
}

impl Element for CheckTCPHeader {
    arguments! { this, given;
        set Checks => this.0;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let say =
            |element: &str, reason: &str| format!("{element}: TCP header check failed: {reason}");
        self.0.run(batch, context, judge, say);
    }

    handlers! { this, context, value;
        read "drops" => this.0.drops();
        read "drop_details" => this.0.details();
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::{EthernetHeader, Frame, Header, MacAddr};

    use crate::testing::Bench;

    fn judge(class: &str, bytes: &[u8]) -> usize {
        let mut bench = Bench::new(class, &[]);
        bench.log();
        let mut packet = bench.arena.packet(bytes).unwrap();
        packet.set_network_header(0, 20);
        let out = bench.push_packets(0, vec![packet]);
        let drops = bench.router.read("e.drops", "").unwrap();
        assert_eq!(drops, out[0].0.to_string());
        out[0].0
    }

    #[test]
    fn good_packets_pass_and_bad_ones_do_not() {
        let (own, other) = (MacAddr([2; 6]), MacAddr([4; 6]));
        let frame = || Frame::new(own, other).ipv4([1, 2, 3, 4], [5, 6, 7, 8]);
        for (class, bytes, check_at) in [
            ("CheckTCPHeader", frame().tcp(1, 2, 3, 0x10, b"payload"), 36),
            ("CheckUDPHeader", frame().udp(1, 2, b"payload"), 26),
            ("CheckICMPHeader", frame().echo(1, 2, b"payload"), 22),
        ] {
            let good = &bytes[EthernetHeader::LEN..];
            assert_eq!(judge(class, good), 0, "{class}");
            for (at, value) in [(check_at, good[check_at] ^ 1), (9, 99)] {
                let mut bad = good.to_vec();
                bad[at] = value;
                assert_eq!(judge(class, &bad), 1, "{class} byte {at}");
            }
            assert_eq!(judge(class, &good[..24]), 1, "{class} cut");
        }
    }

    #[test]
    fn the_first_failure_is_logged() {
        for (arguments, lines) in [(&[][..], 1), (&["VERBOSE true"], 2)] {
            let mut bench = Bench::new("CheckTCPHeader", arguments);
            let log = bench.log();
            bench.push(0, &[b"a"]);
            bench.push(0, &[b"b"]);
            assert_eq!(*log.borrow(), vec!["e: TCP header check failed: not TCP"; lines]);
            let details = bench.router.read("e.drop_details", "").unwrap();
            assert_eq!(details, "2\tnot TCP\n0\tbad packet length\n0\tbad TCP checksum\n");
        }
    }
}
