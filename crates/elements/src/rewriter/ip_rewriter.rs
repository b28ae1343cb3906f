//! # IPRewriter
//!
//! ## Synopsis
//! `IPRewriter(SPEC, ... [, MAPPING_CAPACITY, TIMEOUT, GUARANTEE, DST_ANNO, REPLY_ANNO, ...])`
//!
//! ## Ports
//! As many push inputs as specifications, any number of push outputs.
//!
//! ## Description
//! Rewrites addresses and ports of TCP and UDP packets, flow by flow (network address and port
//! translation). The specification of the input decides about the first packet of a flow. All
//! further packets are treated the same, and replies are rewritten back. TCP and UDP flows are
//! distinguished. Checksums are updated. Other packets, and all fragments but the first, are
//! dropped, or pass if the input says `pass`. The network header annotation must be set.
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
//!   `IPRewriterPatterns`.
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
//! - `tcp_table`, `udp_table` (read): the flows, a line for each direction.
//! - `tcp_lookup`, `udp_lookup` (read with `SADDR SPORT DADDR DPORT`): the mapping of such packets.
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
//! `UDPRewriter`, `TCPRewriter`, `IPAddrRewriter`, `ICMPPingRewriter`, `ICMPRewriter`,
//! `IPRewriterPatterns`

use super::core::element::rewriter_element;
use super::core::{Kind, Rewriter};
use crate::prelude::*;

/// Rewrites flows.
pub(crate) struct IPRewriter(pub(super) Rewriter);

impl Default for IPRewriter {
    fn default() -> IPRewriter {
        IPRewriter(Rewriter::new(Kind::TcpAndUdp))
    }
}

impl Class for IPRewriter {
    const INFO: ClassInfo = ClassInfo::new("IPRewriter", "1-/1-").processing("h/h").inline();
}

impl Element for IPRewriter {
    rewriter_element!(by protocol);
}

#[cfg(test)]
mod tests {
    use europa_packet::{EthernetHeader, Frame, Header, MacAddr};

    use crate::testing::Bench;

    fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        let frame = Frame::new(MacAddr([2; 6]), MacAddr([4; 6])).ipv4(from.0, to.0);
        frame.udp(from.1, to.1, b"payload")[EthernetHeader::LEN..].to_vec()
    }

    fn push(bench: &mut Bench, input: usize, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut packet = bench.arena.packet(bytes).unwrap();
        packet.set_network_header(0, 20);
        bench.push_packets(input, vec![packet])
    }

    #[test]
    fn flows_go_there_and_back() {
        for class in ["IPRewriter", "UDPRewriter"] {
            let mut bench =
                Bench::with_inputs(class, &["pattern 1.0.0.1 1024-1025# - - 0 1", "drop"], 2);
            let (inside, outside) = (([10, 0, 0, 1], 5), ([2, 0, 0, 2], 80));
            let sent = push(&mut bench, 0, &udp(inside, outside));
            assert_eq!(sent, [(0, udp(([1, 0, 0, 1], 1024), outside))], "{class}");
            assert_eq!(bench.out[0].1.dst_ip(), 0x0200_0002);
            let back = push(&mut bench, 1, &udp(outside, ([1, 0, 0, 1], 1024)));
            assert_eq!(back, [(1, udp(outside, inside))]);
            // A packet without a request.
            assert_eq!(push(&mut bench, 1, &udp(outside, ([1, 0, 0, 1], 1025))), []);
            let sent = push(&mut bench, 0, &udp(([10, 0, 0, 1], 6), outside));
            assert_eq!(sent, [(0, udp(([1, 0, 0, 1], 1025), outside))]);
            // All ports are in use.
            assert_eq!(push(&mut bench, 0, &udp(([10, 0, 0, 1], 7), outside)), []);
            assert_eq!(bench.router.read("e.mapping_failures", ""), Ok("1".into()));
            assert_eq!(
                bench.router.read("e.patterns", ""),
                Ok("1.0.0.1 1024-1025 - - [2]\n<drop>\n".into())
            );
            let table = if class == "IPRewriter" { "udp_table" } else { "table" };
            let table = bench.router.read(&format!("e.{table}"), "").unwrap();
            let line =
                "(10.0.0.1, 5, 2.0.0.2, 80) => (1.0.0.1, 1024, 2.0.0.2, 80) [*0 1] i0 exp300";
            assert!(table.contains(line), "{table}");
            bench.router.write("e.clear", "").unwrap();
            assert_eq!(bench.router.read("e.size", ""), Ok("0".into()));
            // Only flows in the table are counted.
            for (handler, value) in [("table_size", "0"), ("pattern0", "1.0.0.1 1024-1025 - -\n")] {
                assert_eq!(bench.router.read(&format!("e.{handler}"), ""), Ok(value.into()));
            }
        }
    }

    #[test]
    fn a_full_table_keeps_its_guarantees() {
        let mut bench = Bench::with_inputs(
            "IPRewriter",
            &["pattern 1.0.0.1 1024-2000# - - 0 1", "MAPPING_CAPACITY 1"],
            1,
        );
        let outside = ([2, 0, 0, 2], 80);
        for (seconds, port, sent) in [(0, 5, 1), (4, 6, 0), (6, 6, 1), (7, 5, 0)] {
            bench.now_ns = seconds * 1_000_000_000;
            assert_eq!(
                push(&mut bench, 0, &udp(([10, 0, 0, 1], port), outside)).len(),
                sent,
                "{seconds}"
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (spec, error) in [
            ("pattern 1.0.0.1 1x - - 0 1", "input spec 0: bad source port"),
            ("pattern 1.0.0.x 1 - - 0 1", "input spec 0: bad source address"),
            ("pattern 1.0.0.0 456-19 - - 0 1", "input spec 0: bad source port"),
            ("pattern 1.0.0.1 1 - - 0 9", "input spec 0: output port out of range"),
            ("pattern x 0 1", "input spec 0: no such pattern 'x'"),
            ("nothing at all", "input spec 0: unknown specification"),
            ("x", "input spec 0: unknown specification"),
        ] {
            assert_eq!(Bench::error_of_inputs("IPRewriter", &[spec], 1), error);
        }
    }

    #[test]
    fn flows_outlive_a_hot_swap() {
        let arguments = ["pattern 1.0.0.1 1024# - - 0 1", "drop"];
        let mut old = Bench::with_inputs("IPRewriter", &arguments, 2);
        let (inside, outside) = (([10, 0, 0, 1], 5), ([2, 0, 0, 2], 80));
        push(&mut old, 0, &udp(inside, outside));
        let mut new = Bench::with_inputs("IPRewriter", &arguments, 2);
        new.router.take_state(&mut old.router);
        assert_eq!(
            push(&mut new, 1, &udp(outside, ([1, 0, 0, 1], 1024))),
            [(1, udp(outside, inside))]
        );
    }
}
