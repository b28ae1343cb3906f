//! Tests of `IP6NDSolicitor`.

use super::*;
use crate::shared::nd::tests::frame;
use crate::testing::Bench;
use europa_packet::Frame;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn bench() -> Bench {
    Bench::new("IP6NDSolicitor", &["2001:db8::1 fe80::1", "02:00:00:00:00:01"])
}

fn send(bench: &mut Bench, target: &str) -> Vec<(usize, Vec<u8>)> {
    let bytes = Frame::bare().ipv6(address("2001:db8:1::9"), address(target)).udp(1, 2, b"x");
    let mut packet = bench.arena.packet(&bytes).unwrap();
    packet.set_annotation(DST_IP6, address(target).octets());
    bench.push_packets(0, vec![packet])
}

fn framed(to: MacAddr, target: &str) -> (usize, Vec<u8>) {
    let frame = Frame::new(OWN, to).ipv6(address("2001:db8:1::9"), address(target));
    (0, frame.udp(1, 2, b"x"))
}

fn question(source: &str, target: &str, to: Option<MacAddr>) -> (usize, Vec<u8>) {
    let group = solicited_node(address(target));
    let (to, to_mac) = match to {
        Some(mac) => (address(target), mac),
        None => (group, multicast_mac(group)),
    };
    let ends = Ends { from_mac: OWN, to_mac, from: address(source), to };
    (1, frame(ends, 135, 0, address(target), &[1, 1, 2, 0, 0, 0, 0, 1]))
}

fn answer(who: MacAddr, target: &str, flags: u8) -> Vec<u8> {
    let [a, b, c, d, e, f] = who.0;
    let (from, to) = (address(target), address("2001:db8::1"));
    let ends = Ends { from_mac: who, to_mac: OWN, from, to };
    frame(ends, 136, flags, from, &[2, 1, a, b, c, d, e, f])
}

#[test]
fn asks_learns_and_probes() {
    let second = 1_000_000_000;
    let mut bench = bench();
    let there = "2001:db8::9";
    assert_eq!(send(&mut bench, there), [question("2001:db8::1", there, None)]);
    assert_eq!(send(&mut bench, there), []);
    assert_eq!(bench.push(1, &[&answer(A, "2001:db8::8", 0x60)]), [], "nobody asked");
    assert_eq!(bench.push(1, &[&answer(A, there, 0x60)]), [framed(A, there), framed(A, there)]);
    bench.now_ns = 40 * second;
    assert_eq!(send(&mut bench, there), [framed(A, there)]);
    let table = bench.router.read("e.table", "").unwrap();
    assert_eq!(table, "2001:db8::9 delay 02:00:00:00:00:0a 40.000000\n");
    bench.now_ns = 46 * second;
    assert_eq!(bench.run(), [question("2001:db8::1", there, Some(A))]);
    // Without the override flag, an advertisement with another address changes nothing while the
    // neighbour is probed.
    bench.push(1, &[&answer(B, there, 0x40)]);
    assert_eq!(send(&mut bench, there), [framed(A, there)]);
    bench.push(1, &[&answer(B, there, 0x60)]);
    assert_eq!(send(&mut bench, there), [framed(B, there)]);
    assert_eq!(bench.router.next_timer_ns(), None);
}

#[test]
fn asks_only_when_packets_come_if_nobody_takes_what_waits_in_vain() {
    let arguments = ["2001:db8::1", "02:00:00:00:00:01"];
    let mut bench = Bench::with_outputs("IP6NDSolicitor", &arguments, 2);
    let (there, own) = ("2001:db8::9", "2001:db8::1");
    assert_eq!(send(&mut bench, there), [question(own, there, None)]);
    assert_eq!(send(&mut bench, there), [], "asked just now");
    for second in 1..10 {
        bench.now_ns = second * SECOND_NS;
        assert_eq!(bench.run(), [], "nothing by itself");
    }
    assert_eq!(send(&mut bench, there), [question(own, there, None)]);
    let stats = "2 packets killed\n2 ND Solicitation Message sent\n";
    assert_eq!(bench.router.read("e.stats", "").unwrap(), stats);
    assert_eq!(bench.push(1, &[&answer(A, there, 0x60)]), [framed(A, there)]);
    let table = "2001:db8::9 1 02-00-00-00-00-0A\n";
    assert_eq!(bench.router.read("e.table", "").unwrap(), table);
    bench.now_ns = 75 * SECOND_NS;
    let mut sent = send(&mut bench, there);
    sent.sort();
    assert_eq!(sent, [framed(A, there), question(own, there, None)], "the group again");
}

#[test]
fn gives_up_after_three_questions() {
    let mut bench = bench();
    assert_eq!(send(&mut bench, "fe80::9"), [question("fe80::1", "fe80::9", None)]);
    let outputs: Vec<_> = (1..10)
        .map(|second| {
            bench.now_ns = second * 1_000_000_000;
            bench.run().into_iter().map(|(output, _)| output).collect::<Vec<_>>()
        })
        .filter(|outputs| !outputs.is_empty())
        .collect();
    assert_eq!(outputs, [[1], [1], [2]]);
    bench.out.clear();
    assert_eq!(bench.arena.free(), 1024);
}

#[test]
fn groups_are_not_asked_for() {
    let to = MacAddr([0x33, 0x33, 0, 0, 0, 5]);
    assert_eq!(send(&mut bench(), "ff02::5"), [framed(to, "ff02::5")]);
    assert_eq!(send(&mut bench(), "::"), []);
}
