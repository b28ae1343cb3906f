//! Tests of `WebGen`.

use europa_engine::Packet;

use super::super::tests::packet;
use super::super::{ACK, FIN, Flow, SYN, Segment};
use crate::shared::fields::segment_checksum;
use crate::testing::Bench;

/// The last packet: the other side's flow, and the segment with its data.
fn last(bench: &Bench) -> (Flow, Segment, Vec<u8>) {
    let packet: &Packet = &bench.out.last().unwrap().1;
    let (header, segment) = packet.data().split_at(20);
    assert_eq!(segment_checksum(header, segment), 0);
    let said = Segment::of(packet).unwrap();
    (Flow::of(packet).unwrap().reverse(), said, packet.data()[40..].to_vec())
}

#[test]
fn a_page_is_asked_for() {
    let mut bench = Bench::new("WebGen", &["7.1.0.0/16", "1.0.0.1", "1"]);
    bench.run();
    assert!(bench.out.is_empty());
    bench.now_ns = 1_000_000_000;
    bench.run();
    let (flow, syn, _) = last(&bench);
    assert_eq!((syn.flags, flow.ports[0], flow.addresses[1][..2].to_vec()), (SYN, 80, vec![7, 1]));
    let mut answer = packet(flow, 99, SYN | ACK, b"");
    let acknowledge = |packet: &mut Packet, number: u32| {
        packet.data_mut()[28..32].copy_from_slice(&number.to_be_bytes());
    };
    acknowledge(&mut answer, syn.sequence + 1);
    bench.push_packets(0, vec![answer]);
    let (_, request, text) = last(&bench);
    assert!(text.starts_with(b"GET /spec/") && text.ends_with(b" HTTP/1.0\r\n\r\n"));
    assert_eq!((request.acknowledged, request.sequence), (100, syn.sequence + 1));
    let mut page = packet(flow, 100, FIN | ACK, b"page");
    acknowledge(&mut page, request.sequence + text.len() as u32 + 1);
    bench.push_packets(0, vec![page]);
    assert_eq!(last(&bench).1.acknowledged, 105);
    for (handler, value) in [("initiated", "1"), ("completed", "1"), ("active", "0")] {
        assert_eq!(bench.router.read(&format!("e.{handler}"), ""), Ok(value.into()));
    }
    // The connection is unknown now.
    bench.push_packets(0, vec![packet(flow, 200, ACK, b"late")]);
    assert_eq!(last(&bench).1.flags, super::RST);
}

#[test]
fn a_server_that_is_silent_is_given_up() {
    let mut bench = Bench::new("WebGen", &["7.1.0.0/16", "1.0.0.1", "1"]);
    bench.log();
    let mut sent = 0;
    for second in 1..=9u64 {
        bench.now_ns = second * 1_000_000_001;
        bench.run();
        sent += bench.out.iter().filter(|(_, p)| Segment::of(p).unwrap().has(SYN)).count();
    }
    assert!(sent > 9, "{sent} SYNs");
    let timeouts: u64 = bench.router.read("e.timeouts", "").unwrap().parse().unwrap();
    assert!(timeouts >= 1, "{timeouts}");
    let error = Bench::error("WebGen", &["7.1.0.0/16", "1.0.0.1", "0"]);
    assert_eq!(error, "RATE must be between 1 and 1000000");
}
