//! Tests of `AggregateIPFlows`.

use europa_packet::Frame;

use super::flow::{FIN, RST};
use super::*;
use crate::testing::Bench;

const A: [u8; 4] = [18, 26, 4, 44];
const B: [u8; 4] = [10, 0, 0, 4];

#[test]
fn flows_are_bounded() {
    let mut bench = Bench::new("AggregateIPFlows", &["UDP_TIMEOUT 10", "REAP 5"]);
    assert_eq!(push(&mut bench, 1, &udp((A, 1), (B, 2))), [(0, 1, 0)]);
    bench.element::<AggregateIPFlows>().flows = MOST_FLOWS;
    assert_eq!(push(&mut bench, 1, &udp((A, 3), (B, 2)))[0].0, 1, "a new one");
    assert_eq!(push(&mut bench, 1, &udp((B, 2), (A, 1))), [(0, 1, 1)], "one that is known");
    bench.element::<AggregateIPFlows>().flows = 1;
    assert_eq!(push(&mut bench, 2, &udp((A, 3), (B, 2))), [(0, 2, 0)]);
    push(&mut bench, 20, &udp((A, 5), (B, 2)));
    assert_eq!(bench.element::<AggregateIPFlows>().flows, 1, "the others have ended");
}

#[test]
fn fragments_that_wait_leave_the_pool_to_others() {
    let mut bench = Bench::new("AggregateIPFlows", &[]);
    for host in 0..1000u16 {
        let [high, low] = host.to_be_bytes();
        let mut packet = crate::testing::ip_packet(0x0a00_0001, 0x0b00_0000, 9, &[0; 8]);
        packet[18..20].copy_from_slice(&[high, low]);
        packet[6..8].copy_from_slice(&[0, 1]);
        push(&mut bench, 1, &packet);
    }
    assert_eq!(bench.arena.capacity() - bench.arena.free(), bench.out.len() + 1024 / 8);
    bench.router.write("e.clear", "").unwrap();
    assert_eq!(bench.run().len(), 1024 / 8);
}

/// Pushes a packet that arrived at `second`; returns output, aggregate and paint of each packet
/// that this sends.
fn push(bench: &mut Bench, second: u64, bytes: &[u8]) -> Vec<(usize, u32, u8)> {
    let mut packet = bench.arena.packet(bytes).unwrap();
    packet.set_network_header(0, 20);
    packet.set_timestamp_ns(second * 1_000_000_000);
    bench.push_packets(0, vec![packet]);
    bench.out.iter().map(|(port, packet)| (*port, packet.aggregate(), packet.paint())).collect()
}

fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    Frame::bare().ipv4(from.0, to.0).udp(from.1, to.1, b"12345678")
}

fn tcp(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: u8) -> Vec<u8> {
    let mut bytes = udp(from, to);
    bytes.resize(40, 0);
    (bytes[9], bytes[33]) = (6, flags);
    bytes
}

#[test]
fn flows_are_numbered_both_ways() {
    let mut bench = Bench::new("AggregateIPFlows", &["UDP_TIMEOUT 10"]);
    for (second, from, to, wanted) in [
        (1, (A, 30), (B, 40), (0, 1, 0)),
        (2, (A, 30), (A, 41), (0, 2, 0)),
        (3, (B, 40), (A, 30), (0, 1, 1)),
        (4, (A, 41), (A, 30), (0, 2, 1)),
        // A packet in the opposite direction, and a new flow after the timeout.
        (5, (B, 1), (A, 2), (0, 3, 0)),
        (14, (B, 40), (A, 30), (0, 4, 0)),
    ] {
        assert_eq!(push(&mut bench, second, &udp(from, to)), [wanted], "{second}");
    }
    let ping = Frame::bare().ipv4(A, B).echo(1, 2, b"");
    assert_eq!(push(&mut bench, 15, &ping)[0].0, 1);
}

#[test]
fn a_connection_ends_when_both_sides_close() {
    let mut bench = Bench::new("AggregateIPFlows", &[]);
    for (from, to, flags, number) in [
        ((A, 1), (B, 2), SYN, 1),
        ((A, 1), (B, 2), FIN, 1),
        ((A, 1), (B, 2), SYN, 1),
        ((A, 1), (B, 2), FIN, 1),
        ((B, 2), (A, 1), FIN, 1),
        ((A, 1), (B, 2), 16, 1),
        ((A, 1), (B, 2), SYN, 2),
        ((B, 2), (A, 1), RST, 2),
        ((A, 1), (B, 2), SYN, 3),
    ] {
        let out = push(&mut bench, 1, &tcp(from, to, flags));
        assert_eq!(out.first().map(|packet| packet.1), Some(number));
    }
}

#[test]
fn fragments_wait_for_their_ports() {
    let mut bench = Bench::new("AggregateIPFlows", &["FRAGMENT_TIMEOUT 5"]);
    let part = |id, bits, from: ([u8; 4], u16), to| {
        let frame = Frame::bare().ipv4(from.0, B).id(id).flags_fragment(bits);
        frame.udp(from.1, to, b"12345678")
    };
    // The later fragment comes first; another later fragment never gets its first one.
    assert_eq!(push(&mut bench, 1, &part(7, 3, (A, 1), 2)), []);
    assert_eq!(push(&mut bench, 1, &part(8, 3, (A, 1), 2)), []);
    assert_eq!(push(&mut bench, 1, &part(7, 0x2000, (A, 1), 2)), []);
    assert_eq!(push(&mut bench, 2, &udp((B, 2), (A, 1))), []);
    let out = push(&mut bench, 9, &udp((A, 1), (B, 2)));
    assert_eq!(out, [(0, 1, 0), (0, 1, 0), (0, 1, 1), (0, 1, 0), (1, 0, 1)]);
    // A host that talks to itself.
    let own = |id, bits, from, to| {
        let frame = Frame::bare().ipv4(A, A).id(id).flags_fragment(bits);
        frame.udp(from, to, b"12345678")
    };
    assert_eq!(push(&mut bench, 9, &udp((A, 3), (A, 4))), [(0, 2, 0)]);
    assert_eq!(push(&mut bench, 10, &own(5, 3, 4, 3)), []);
    assert_eq!(push(&mut bench, 10, &own(5, 0x2000, 4, 3)), []);
    let out = push(&mut bench, 20, &udp((A, 3), (A, 4)));
    assert_eq!(out, [(0, 2, 1), (0, 2, 1), (0, 2, 0)]);
    // Nothing waits any more.
    assert_eq!(push(&mut bench, 21, &udp((A, 1), (B, 2))), [(0, 1, 0)]);
    assert_eq!(push(&mut bench, 21, &part(9, 0x2000, (A, 1), 2)), []);
    bench.router.write("e.clear", "").unwrap();
    bench.run();
    assert_eq!(bench.out.len(), 1);
    assert_eq!(push(&mut bench, 22, &udp((A, 1), (B, 2))), [(0, 3, 0)]);
}

#[test]
fn errors_are_of_the_flow_that_they_are_about() {
    let mut bench = Bench::new("AggregateIPFlows", &["ICMP true"]);
    let about = udp((A, 1), (B, 2));
    assert_eq!(push(&mut bench, 1, &about), [(0, 1, 0)]);
    let message = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &about].concat();
    let error = Frame::bare().ipv4(B, A).icmp(&message);
    assert_eq!(push(&mut bench, 1, &error), [(0, 1, 2)]);
}

#[test]
fn a_file_tells_of_flows() {
    let path = std::env::temp_dir().join(format!("europa-flows-{}", std::process::id()));
    let argument = format!("TRACEINFO {}", path.display());
    let mut bench = Bench::new("AggregateIPFlows", &[&argument]);
    push(&mut bench, 1, &udp((A, 1), (B, 2)));
    push(&mut bench, 3, &udp((B, 2), (A, 1)));
    drop(bench);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let wanted = "<flow aggregate='1' src='18.26.4.44' sport='1' dst='10.0.0.4' dport='2' \
                  begin='1.000000' duration='2.000000'>\n  <stream dir='0' packets='1' />\
                  <stream dir='1' packets='1' />\n</flow>\n</trace>\n";
    assert!(text.ends_with(wanted), "{text}");
}
