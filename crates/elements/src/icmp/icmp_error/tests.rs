//! Tests of `ICMPError`.

use super::*;
use crate::testing::Bench;
use europa_packet::{Frame, ipv4};

const A: [u8; 4] = [10, 0, 0, 2];
const B: [u8; 4] = [10, 1, 0, 2];
const OWN: [u8; 4] = [10, 0, 0, 1];

fn run(arguments: &[&str], bytes: &[u8], prepare: impl Fn(&mut Packet)) -> Option<Vec<u8>> {
    let mut bench = Bench::new("ICMPError", arguments);
    let mut packet = bench.arena.packet(bytes).unwrap();
    packet.set_network_header(0, bytes.first().map_or(0, |b| usize::from(b & 15) * 4));
    prepare(&mut packet);
    let out = bench.push_packets(0, vec![packet]).pop()?;
    let packet = &bench.out[0].1;
    assert_eq!((packet.dst_ip(), packet.annotation(FIX_IP_SRC)), (0x0a00_0002, [1]));
    Some(out.1)
}

fn wanted(kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest.to_be_bytes());
    message.extend(quoted);
    Frame::bare().ipv4(OWN, A).ttl(200).id(1).icmp(&message)
}

#[test]
fn errors_say_what_is_wrong() {
    let bytes = Frame::bare().ipv4(A, B).udp(1, 2, b"hello");
    for (arguments, kind, code, rest) in [
        (&["timeexceeded"][..], 11, 0, 0),
        (&["unreachable", "host"], 3, 1, 0),
        (&["unreachable", "needfrag", "PMTU 1400"], 3, 4, 1400),
        (&["redirect", "host"], 5, 1, 0x0a00_00fe),
        (&["parameterproblem", "erroratptr"], 12, 0, 21 << 24),
        (&["3", "13"], 3, 13, 0),
    ] {
        let arguments = [&["10.0.0.1"], arguments].concat();
        let error = run(&arguments, &bytes, |packet| {
            packet.set_dst_ip(0x0a00_00fe);
            packet.set_annotation(ICMP_PARAMETER_PROBLEM, [21]);
        });
        assert_eq!(error, Some(wanted(kind, code, rest, &bytes)), "{arguments:?}");
    }
}

#[test]
fn errors_are_no_longer_than_576_bytes() {
    for (length, quoted) in [(1000, 548), (548 - 28, 548), (547 - 28, 547)] {
        let bytes = Frame::bare().ipv4(A, B).udp(1, 2, &vec![7; length]);
        let error = run(&["10.0.0.1", "timeexceeded"], &bytes, |_| {});
        assert_eq!(error, Some(wanted(11, 0, 0, &bytes[..quoted])), "{length}");
    }
    // Padding behind the packet is not quoted.
    let bytes = Frame::bare().ipv4(A, B).udp(1, 2, b"");
    let padded = [&bytes[..], &[0; 18]].concat();
    let error = run(&["10.0.0.1", "timeexceeded"], &padded, |_| {});
    assert_eq!(error, Some(wanted(11, 0, 0, &bytes)));
}

#[test]
fn some_packets_are_not_answered() {
    let from = |source: [u8; 4]| Frame::bare().ipv4(source, B).udp(1, 2, b"x");
    let to = |target: [u8; 4]| Frame::bare().ipv4(A, target).udp(1, 2, b"x");
    let icmp = |kind: u8| Frame::bare().ipv4(A, B).icmp(&[kind, 0, 0, 0, 0, 0, 0, 0]);
    let fragment = |bits| Frame::bare().ipv4(A, B).flags_fragment(bits).udp(1, 2, b"x");
    for (name, bytes, answered) in [
        ("ping", icmp(8), true),
        ("unreachable", icmp(3), false),
        ("time exceeded", icmp(11), false),
        ("redirect", icmp(5), false),
        ("nothing of ICMP", Frame::bare().ipv4(A, B).icmp(&[]), false),
        ("first fragment", fragment(ipv4::MORE_FRAGMENTS), true),
        ("later fragment", fragment(1), false),
        ("to a group", to([224, 0, 0, 5]), false),
        ("to everybody", to([255; 4]), false),
        ("to a broadcast address", to([10, 0, 0, 255]), false),
        ("from net 0", from([0, 0, 0, 1]), false),
        ("from itself", from([127, 0, 0, 1]), false),
        ("from a group", from([224, 0, 0, 1]), false),
        ("from class E", from([240, 0, 0, 1]), false),
        ("from a broadcast address", from([10, 0, 0, 255]), false),
        ("short", to(B)[..19].to_vec(), false),
        ("empty", Vec::new(), false),
    ] {
        let arguments = ["10.0.0.1", "timeexceeded", "transit", "10.0.0.255"];
        assert_eq!(run(&arguments, &bytes, |_| {}).is_some(), answered, "{name}");
    }
    // FROM, next hop → source of a redirect, whether others are sent
    for (from, next_hop, source, others) in [
        ("10.0.0.0/24", [10, 0, 0, 7], Some(OWN), true),
        ("10.0.7.1/24 10.0.0.3/24", [10, 0, 0, 7], Some([10, 0, 0, 3]), true),
        ("10.0.7.1/24 10.0.0.3/24", [10, 0, 7, 7], None, true),
        ("10.1.0.0/16 10.2.0.0/16", [10, 1, 0, 7], None, false),
    ] {
        let from = format!("FROM {from}");
        let set = |packet: &mut Packet| packet.set_dst_ip(u32::from_be_bytes(next_hop));
        let redirect = run(&["10.0.0.1", "redirect", "host", &from], &to(B), set);
        let found = redirect.and_then(|bytes| bytes[12..16].try_into().ok());
        assert_eq!(found, source, "{from} {next_hop:?}");
        assert_eq!(run(&["10.0.0.1", "unreachable", &from], &to(B), set).is_some(), others);
    }
    for kind in [PacketType::Broadcast, PacketType::Multicast] {
        let set = |packet: &mut Packet| packet.set_packet_type(kind);
        assert_eq!(run(&["10.0.0.1", "timeexceeded"], &to(B), set), None);
    }
}

#[test]
fn precedence_is_that_of_routers_if_wanted() {
    let mut bytes = Frame::bare().ipv4(A, B).udp(1, 2, b"x");
    bytes[1] = 0xb9;
    for (kind, precedence, tos) in [
        ("timeexceeded", None, 0),
        ("timeexceeded", Some("PRECEDENCE 6"), 0xd8),
        ("sourcequench", Some("PRECEDENCE 6"), 0xa0),
    ] {
        let arguments: Vec<&str> = ["10.0.0.1", kind].into_iter().chain(precedence).collect();
        assert_eq!(run(&arguments, &bytes, |_| {}).unwrap()[1], tos, "{arguments:?}");
    }
}

#[test]
fn source_routes_are_reversed() {
    let mut bytes = Frame::bare().ipv4(A, B).udp(1, 2, b"x");
    // Two routers were passed, one is left.
    let route = [131, 15, 12, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0];
    bytes.splice(20..20, route);
    bytes[0] = 0x49;
    bytes[3] += 16;
    let error = run(&["10.0.0.1", "timeexceeded"], &bytes, |_| {}).unwrap();
    assert_eq!(error[20..32], [131, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0]);
    assert!(checksum::verify(&error[..32]) && checksum::verify(&error[32..]));
    assert_eq!(run(&["10.0.0.1", "redirect"], &bytes, |_| {}), None);
}

#[test]
fn errors_are_limited() {
    let mut bench = Bench::new("ICMPError", &["10.0.0.1", "timeexceeded", "RATE 100"]);
    let bytes = Frame::bare().ipv4(A, B).udp(1, 2, b"x");
    let packets = || -> Vec<Packet> {
        (0..50)
            .map(|_| {
                let mut packet = bench_packet(&bench, &bytes);
                packet.set_network_header(0, 20);
                packet
            })
            .collect()
    };
    let packets = packets();
    assert_eq!(bench.push_packets(0, packets).len(), 10);
    assert_eq!(bench.router.read("e.limited", ""), Ok("40".into()));
}

fn bench_packet(bench: &Bench, bytes: &[u8]) -> Packet {
    bench.arena.packet(bytes).unwrap()
}

#[test]
fn bad_arguments_are_refused() {
    for (arguments, error) in [
        (&["10.0.0.1", "echo"][..], "TYPE: expected ICMP error type, found 'echo'"),
        (&["10.0.0.1", "8"], "TYPE: expected ICMP error type, found '8'"),
        (&["10.0.0.1", "redirect", "port"], "CODE: expected ICMP code of this type, found 'port'"),
    ] {
        assert_eq!(Bench::error("ICMPError", arguments), error);
    }
}
