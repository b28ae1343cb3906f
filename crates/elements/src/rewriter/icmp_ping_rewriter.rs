//! # ICMPPingRewriter
//!
//! ## Synopsis
//! `ICMPPingRewriter(SPEC, ... [, MAPPING_CAPACITY, TIMEOUT, GUARANTEE, DST_ANNO, REPLY_ANNO, ...])`
//!
//! ## Ports
//! As many push inputs as specifications, any number of push outputs.
//!
//! ## Description
//! Rewrites addresses and identifiers of ICMP echo requests, and those of the replies. In patterns
//! SPORT is the identifier. Other packets are dropped, or passed where the input says `pass`. The
//! network header annotation must be set.
//!
//! ## Arguments
//! - SPEC: for each input, the treatment of packets of new flows. `drop`: they are dropped. `pass
//!   [OUTPUT]`: they pass unchanged. `keep FOUTPUT ROUTPUT`: they make a flow that changes nothing.
//!   `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: they make a flow with new addresses and
//!   ports, whose packets leave by FOUTPUT and whose replies leave by ROUTPUT. The name of a
//!   mapper: the mapper chooses. In a pattern `-` keeps the packet's value. SPORT may be a range,
//!   `1024-65535`: the flow keeps its port if that is in the range and free; otherwise it gets a
//!   random one. With `#` behind the range, ports are used one after the other; with `?`, always at
//!   random. Without ports, SADDR may be a range or a prefix. A pattern may also be a name from
//!   `IPRewriterPatterns`. As in Click's earlier versions, with one input `SADDR, DADDR` stands for
//!   `pattern SADDR - DADDR - 0 1`.
//! - MAPPING_CAPACITY (keyword): most flows, default and at most 1048576; or the name of another
//!   rewriter, with which it then shares the memory and the limit of flows.
//! - GUARANTEE (keyword): time after a packet during which its flow keeps its place, default 5 s.
//!   After that a new flow may take the place of the flow that would expire first.
//! - TIMEOUT, TCP_TIMEOUT, TCP_NODATA_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, UDP_STREAMING_TIMEOUT
//!   (keywords): how long unused flows are kept.
//! - REAP_INTERVAL (keyword): how often expired flows are removed, default 15 minutes.
//! - DST_ANNO (keyword): set the destination address annotation too; default true.
//! - REPLY_ANNO (keyword): a byte of the annotation area: replies get the value from the flow's
//!   first packet.
//!
//! ## Handlers
//! - `table` (read): the flows, a line for each direction.
//! - `lookup` (read with `SADDR SPORT DADDR DPORT`): the mapping of such packets; SPORT is the
//!   identifier, DPORT is ignored.
//! - `table_size`, `mapping_failures` (read): number of flows; number of flows that could not be
//!   made.
//! - `table_size`, `mapping_failures` (read): number of flows; number of flows that could not be
//!   made.
//! - `capacity` (read, write): most flows.
//! - `clear` (write): forgets all flows.
//! - `patterns` (read): the inputs' specifications, with their flows.
//! - `pattern0` ... `pattern3` (read, write): one specification; writing it forgets its flows.
//!
//! ## See also
//! `IPRewriter`, `UDPRewriter`, `TCPRewriter`, `IPAddrRewriter`, `ICMPRewriter`,
//! `IPRewriterPatterns`

use super::core::element::rewriter_element;
use super::core::{Kind, Rewriter};
use crate::prelude::*;

/// Rewrites flows.
pub(crate) struct ICMPPingRewriter(pub(super) Rewriter);

impl Default for ICMPPingRewriter {
    fn default() -> ICMPPingRewriter {
        ICMPPingRewriter(Rewriter::new(Kind::Ping))
    }
}

impl Class for ICMPPingRewriter {
    const INFO: ClassInfo = ClassInfo::new("ICMPPingRewriter", "1-/1-").processing("h/h").inline();
}

impl Element for ICMPPingRewriter {
    rewriter_element!();
}

#[cfg(test)]
mod tests {
    use europa_packet::{EthernetHeader, Frame, Header, MacAddr};

    use crate::testing::Bench;

    #[test]
    fn identifiers_change_there_and_back() {
        let echo = |from: [u8; 4], to: [u8; 4], identifier, reply: bool| {
            let frame = Frame::new(MacAddr([2; 6]), MacAddr([4; 6])).ipv4(from, to);
            let mut bytes = frame.echo(identifier, 9, b"abc")[EthernetHeader::LEN..].to_vec();
            if reply {
                bytes[20] = 0;
                bytes[22..24].fill(0);
                let check = europa_packet::checksum::checksum(&bytes[20..]);
                bytes[22..24].copy_from_slice(&check.to_be_bytes());
            }
            bytes
        };
        let (inside, outside, own) = ([10, 0, 0, 1], [2, 0, 0, 2], [1, 0, 0, 1]);
        let mut bench =
            Bench::with_inputs("ICMPPingRewriter", &["pattern 1.0.0.1 50-60# - - 0 1", "drop"], 2);
        for (input, before, output, after) in [
            (0, echo(inside, outside, 7, false), 0, echo(own, outside, 50, false)),
            (1, echo(outside, own, 50, true), 1, echo(outside, inside, 7, true)),
            (0, echo(inside, outside, 8, false), 0, echo(own, outside, 51, false)),
        ] {
            let mut packet = bench.arena.packet(&before).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(bench.push_packets(input, vec![packet]), [(output, after)]);
        }
        for (asked, answer) in [
            ("10.0.0.1 7 2.0.0.2 7", "1.0.0.1 50 2.0.0.2 50"),
            ("2.0.0.2 50 1.0.0.1 50", "2.0.0.2 7 10.0.0.1 7"),
            ("10.0.0.1 9 2.0.0.2 9", ""),
        ] {
            assert_eq!(bench.router.read("e.lookup", asked), Ok(answer.into()), "{asked}");
        }
        let table = bench.router.read("e.table", "").unwrap();
        for line in [
            "(10.0.0.1, 2.0.0.2, 7) => (1.0.0.1, 2.0.0.2, 50) [*0 1] i0 exp300\n",
            "(2.0.0.2, 1.0.0.1, 50) => (2.0.0.2, 10.0.0.1, 7) [0 *1] i0 exp300\n",
        ] {
            assert!(table.contains(line), "{table}");
        }
    }
}
