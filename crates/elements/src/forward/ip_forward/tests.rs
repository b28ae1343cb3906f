//! Tests of the module above.

use super::*;
use crate::testing::Bench;
use europa_packet::{Frame, checksum};
use europa_pool::packet::annotation::DST_IP6;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::Ipv6Addr;

const HOP: u32 = 0x0a00_0009;

fn packet(ttl: u8, flags: u8, length: usize) -> Vec<u8> {
    let payload = vec![7; length - 28];
    let mut bytes = Frame::bare().ipv4([192, 0, 2, 1], [192, 0, 2, 2]).udp(1, 2, &payload);
    bytes[8] = ttl;
    bytes[6] = flags;
    bytes[10..12].fill(0);
    let check = checksum::checksum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&check.to_be_bytes());
    bytes
}

#[test]
fn packets_are_ready_or_untouched() {
    for (what, outputs, next, bytes, output) in [
        ("good", 3, HOP, packet(64, 0, 100), 0),
        ("last hop", 3, HOP, packet(2, 0, 100), 0),
        ("expired", 3, HOP, packet(1, 0, 100), 1),
        ("unknown", 3, HOP + 1, packet(64, 0, 100), 1),
        ("just fits", 3, HOP, packet(64, 0x40, 1000), 0),
        ("too long, DF", 3, HOP, packet(64, 0x40, 1001), 1),
        ("too long", 3, HOP, packet(64, 0, 1001), 2),
        ("too long, nobody cuts", 2, HOP, packet(64, 0, 1001), 1),
        ("too long, expired", 3, HOP, packet(1, 0, 1001), 1),
        ("too long, unknown", 3, HOP + 1, packet(64, 0, 1001), 1),
    ] {
        let arguments = ["02:00:00:00:00:01", "1000"];
        let mut bench = Bench::with_outputs("IPForward", &arguments, outputs);
        bench.router.write("e.load", "set 10.0.0.9 02:00:00:00:00:0a").unwrap();
        let mut packet = bench.arena.packet(&bytes).unwrap();
        packet.set_network_header(0, 20);
        packet.set_dst_ip(next);
        let out = bench.push_packets(0, vec![packet]);
        assert_eq!(out[0].0, output, "{what}");
        if output > 0 {
            assert_eq!(out[0].1, bytes, "{what}");
            continue;
        }
        let (header, ip) = out[0].1.split_at(14);
        assert_eq!(header, [2, 0, 0, 0, 0, 10, 2, 0, 0, 0, 0, 1, 8, 0], "{what}");
        assert_eq!((ip[8], &ip[20..]), (bytes[8] - 1, &bytes[20..]), "{what}");
        assert!(checksum::verify(&ip[..20]), "{what}");
    }
}

#[test]
fn ipv6_too() {
    let mut bench = Bench::new("IP6Forward", &["02:00:00:00:00:01", "1280"]);
    bench.router.write("e.load", "set fe80::9 02:00:00:00:00:0a").unwrap();
    for (hops, length, output) in [(2, 100, 0), (1, 100, 1), (64, 1281, 1)] {
        let mut bytes = vec![0; length];
        (bytes[0], bytes[7]) = (0x60, hops);
        let mut packet = bench.arena.packet(&bytes).unwrap();
        packet.set_network_header(0, 40);
        let next: Ipv6Addr = "fe80::9".parse().unwrap();
        packet.set_annotation(DST_IP6, next.octets());
        let out = bench.push_packets(0, vec![packet]);
        assert_eq!(out[0].0, output);
        if output == 0 {
            assert_eq!((out[0].1.len(), out[0].1[14 + 7]), (length + 14, hops - 1));
        }
    }
    assert_eq!(bench.router.read("e.used", ""), Ok("fe80::9\n".into()));
    assert_eq!(bench.router.read("e.used", ""), Ok(String::new()));
}

#[test]
fn a_policy_overrides_the_configuration() {
    let good = |length| {
        let mut bytes = packet(64, 0, length);
        bytes[6] = 0;
        bytes
    };
    for (what, policy, length, wanted) in [
        ("none", "", 100, 0),
        ("a shorter MTU", "mtu 500", 501, 3),
        ("a shorter MTU, fits", "mtu 500", 500, 0),
        ("the configured MTU", "mtu 1000", 1001, 2),
        ("everything", "all tc has a qdisc", 100, 3),
        ("the way it came", "same 0 redirects", 100, 3),
        ("another way", "same 1 redirects", 100, 0),
    ] {
        let mut bench = Bench::with_outputs("IPForward", &["02:00:00:00:00:01", "1000"], 4);
        bench.router.write("e.load", "set 10.0.0.9 02:00:00:00:00:0a").unwrap();
        bench.router.write("e.policy", policy).unwrap();
        let mut packet = bench.arena.packet(&good(length)).unwrap();
        packet.set_network_header(0, 20);
        packet.set_dst_ip(HOP);
        packet.set_interface(0);
        let out = bench.push_packets(0, vec![packet]);
        assert_eq!(out[0].0, wanted, "{what}");
        assert_eq!(bench.router.read("e.policy", ""), Ok(policy.into()), "{what}");
    }
}

#[test]
fn another_address_is_in_the_headers_of_all_neighbours() {
    let mut bench = Bench::with_outputs("IPForward", &["02:00:00:00:00:01", "1000"], 3);
    bench.router.write("e.load", "set 10.0.0.9 02:00:00:00:00:0a").unwrap();
    bench.router.write("e.policy", "mac 02:00:00:00:00:07").unwrap();
    bench.router.write("e.load", "set 10.0.0.8 02:00:00:00:00:0b").unwrap();
    for next in [HOP, HOP - 1] {
        let mut packet = bench.arena.packet(&packet(64, 0, 100)).unwrap();
        packet.set_network_header(0, 20);
        packet.set_dst_ip(next);
        let out = bench.push_packets(0, vec![packet]);
        assert_eq!(out[0].1[6..12], [2, 0, 0, 0, 0, 7]);
    }
    for bad in ["frob 1", "mtu x", "mac 1", "all", "same x y", "same 1"] {
        assert!(bench.router.write("e.policy", bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn the_table_is_a_map(orders in prop::collection::vec((0..200u32, any::<bool>()), 0..600)) {
        let (mut table, mut model) = (Table::<u32>::new(), HashMap::new());
        for (number, (address, add)) in orders.into_iter().enumerate() {
            let header = [number as u8; 14];
            if add {
                table.set(address, header);
                model.insert(address, header);
            } else {
                table.remove(address);
                model.remove(&address);
            }
            prop_assert_eq!(table.count, model.len());
        }
        for address in 0..200 {
            prop_assert_eq!(table.get(address), model.get(&address).copied());
        }
    }
}

#[test]
fn bad_lines_are_told() {
    let mut bench = Bench::new("IPForward", &["02:00:00:00:00:01", "1500"]);
    for bad in ["set 10.0.0.9", "set fe80::1 02:00:00:00:00:0a", "remove x", "frob 1"] {
        assert!(bench.router.write("e.load", bad).is_err(), "{bad}");
    }
    assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
}
