use crate::testing::Bench;
use europa_packet::{ArpPacket, Frame, MacAddr};

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const SECOND: u64 = 1_000_000_000;

fn bench(extra: &[&str]) -> Bench {
    let mut arguments = vec!["10.0.0.1/24 10.1.0.1/16", "02:00:00:00:00:01"];
    arguments.extend(extra);
    Bench::new("ARPQuerier", &arguments)
}

fn ip(target: [u8; 4], text: &[u8]) -> Vec<u8> {
    Frame::bare().ipv4([192, 0, 2, 1], target).udp(1, 2, text)
}

fn send(bench: &mut Bench, target: [u8; 4], text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut packet = bench.arena.packet(&ip(target, text)).unwrap();
    packet.set_dst_ip(u32::from_be_bytes(target));
    bench.push_packets(0, vec![packet])
}

fn framed(to: MacAddr, target: [u8; 4], text: &[u8]) -> (usize, Vec<u8>) {
    (0, Frame::new(OWN, to).ipv4([192, 0, 2, 1], target).udp(1, 2, text))
}

fn question(to: MacAddr, source: [u8; 4], target: [u8; 4]) -> (usize, Vec<u8>) {
    let packet = ArpPacket::request(OWN, source.into(), target.into());
    (1, Frame::new(OWN, to).arp(&packet))
}

fn answer(who: MacAddr, address: [u8; 4]) -> Vec<u8> {
    let asked = ArpPacket::request(OWN, [10, 0, 0, 1].into(), address.into());
    Frame::new(who, OWN).arp(&asked.reply(who))
}

fn at(bench: &mut Bench, seconds: u64) -> Vec<(usize, Vec<u8>)> {
    bench.now_ns = seconds * SECOND;
    bench.run()
}

#[test]
fn asks_waits_and_sends_in_order() {
    let mut bench = bench(&[]);
    let there = [10, 0, 0, 9];
    assert_eq!(send(&mut bench, there, b"1"), [question(MacAddr::BROADCAST, [10, 0, 0, 1], there)]);
    assert_eq!(send(&mut bench, there, b"2"), []);
    assert_eq!(bench.router.read("e.length", ""), Ok("2".into()));
    assert_eq!(
        bench.push(1, &[&answer(A, there)]),
        [framed(A, there, b"1"), framed(A, there, b"2")]
    );
    assert_eq!(send(&mut bench, there, b"3"), [framed(A, there, b"3")]);
    let table = "10.0.0.9 1 02-00-00-00-00-0A 0.000000\n";
    assert_eq!(bench.router.read("e.table", ""), Ok(table.into()));
    // The request comes from the address in the other subnet.
    let other = [10, 1, 7, 7];
    assert_eq!(send(&mut bench, other, b"1"), [question(MacAddr::BROADCAST, [10, 1, 0, 1], other)]);
}

#[test]
fn gives_up_after_three_questions() {
    let mut bench = bench(&[]);
    let there = [10, 0, 0, 9];
    let asked = [question(MacAddr::BROADCAST, [10, 0, 0, 1], there)];
    let before = bench.arena.free();
    assert_eq!(send(&mut bench, there, b"1"), asked);
    assert_eq!(at(&mut bench, 1), []);
    assert_eq!(at(&mut bench, 2), asked);
    assert_eq!(at(&mut bench, 4), asked);
    assert_eq!(at(&mut bench, 6), [(2, ip(there, b"1"))]);
    assert_eq!(at(&mut bench, 60), []);
    assert_eq!(bench.router.next_timer_ns(), None);
    bench.out.clear();
    assert_eq!(bench.arena.free(), before);
    assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
}

#[test]
fn checks_old_entries_and_forgets_dead_ones() {
    let mut bench = bench(&[]);
    let there = [10, 0, 0, 9];
    send(&mut bench, there, b"1");
    bench.push(1, &[&answer(A, there)]);
    bench.now_ns = 61 * SECOND;
    let checked = [question(A, [10, 0, 0, 1], there), framed(A, there, b"2")];
    assert_eq!(send(&mut bench, there, b"2"), checked);
    assert_eq!(send(&mut bench, there, b"3"), [framed(A, there, b"3")]);
    bench.push(1, &[&answer(A, there)]);
    assert_eq!(at(&mut bench, 63), []);
    bench.now_ns = 130 * SECOND;
    assert_eq!(send(&mut bench, there, b"4").len(), 2);
    for second in 131..140 {
        at(&mut bench, second);
    }
    assert_eq!(send(&mut bench, there, b"5"), [question(MacAddr::BROADCAST, [10, 0, 0, 1], there)]);
}

#[test]
fn believes_only_what_concerns_it() {
    let mut bench = bench(&[]);
    let (there, other) = ([10, 0, 0, 9], [10, 0, 0, 10]);
    bench.push(1, &[&answer(A, there)]);
    assert_eq!(bench.router.read("e.count", ""), Ok("0".into()), "nobody asked");
    send(&mut bench, there, b"1");
    for (name, frame) in [
        ("group address", answer(MacAddr([3, 0, 0, 0, 0, 1]), there)),
        ("own address", answer(OWN, there)),
        ("another's", answer(A, other)),
        ("short", answer(A, there)[..41].to_vec()),
    ] {
        assert_eq!(bench.push(1, &[&frame]), [], "{name}");
    }
    assert_eq!(bench.push(1, &[&answer(A, there)]).len(), 1);
    // An announcement moves a known neighbour, which is then checked.
    let packet = ArpPacket::request(B, there.into(), there.into());
    bench.push(1, &[&Frame::new(B, MacAddr::BROADCAST).arp(&packet)]);
    assert_eq!(
        send(&mut bench, there, b"2"),
        [question(B, [10, 0, 0, 1], there), framed(B, there, b"2")]
    );
}

#[test]
fn groups_are_not_asked_for() {
    let group = MacAddr([1, 0, 0x5e, 0x7f, 1, 2]);
    for (target, to) in [
        ([255; 4], Some(MacAddr::BROADCAST)),
        ([10, 0, 0, 255], Some(MacAddr::BROADCAST)),
        ([10, 1, 255, 255], Some(MacAddr::BROADCAST)),
        ([239, 255, 1, 2], Some(group)),
        ([0; 4], None),
    ] {
        let wanted: Vec<_> = to.map(|to| framed(to, target, b"x")).into_iter().collect();
        assert_eq!(send(&mut bench(&[]), target, b"x"), wanted, "{target:?}");
    }
}

#[test]
fn packets_that_wait_are_bounded() {
    let limits = ["CAPACITY 3", "ENTRY_PACKET_CAPACITY 2", "ENTRY_CAPACITY 4"];
    let mut bench = bench(&limits);
    let there = [10, 0, 0, 9];
    for text in [b"1", b"2", b"3"] {
        send(&mut bench, there, text);
    }
    for host in 1..100 {
        send(&mut bench, [10, 0, 0, 100 + host], b"x");
    }
    assert_eq!(bench.router.read("e.count", ""), Ok("2".into()));
    assert_eq!(bench.router.read("e.length", ""), Ok("3".into()));
    assert_eq!(bench.router.read("e.queries", ""), Ok("2".into()));
    assert_eq!(bench.router.read("e.drops", ""), Ok("99".into()));
    assert_eq!(
        bench.push(1, &[&answer(A, there)]),
        [framed(A, there, b"2"), framed(A, there, b"3")]
    );
}

#[test]
fn handlers_change_the_table() {
    let mut bench = bench(&["STATIC 10.0.0.7 02:00:00:00:00:0b"]);
    assert_eq!(send(&mut bench, [10, 0, 0, 7], b"x"), [framed(B, [10, 0, 0, 7], b"x")]);
    send(&mut bench, [10, 0, 0, 9], b"1");
    bench.router.write("e.insert", "10.0.0.9 02:00:00:00:00:0a").unwrap();
    assert_eq!(bench.run(), [framed(A, [10, 0, 0, 9], b"1")]);
    bench.router.write("e.delete", "10.0.0.9").unwrap();
    assert_eq!(bench.router.read("e.count", ""), Ok("1".into()));
    bench.router.write("e.query", "10.0.0.9").unwrap();
    assert_eq!(bench.run(), [question(MacAddr::BROADCAST, [10, 0, 0, 1], [10, 0, 0, 9])]);
    bench.router.write("e.clear", "").unwrap();
    assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
    assert!(bench.router.write("e.insert", "10.0.0.9").is_err());
}

#[test]
fn bad_arguments_are_refused() {
    for (arguments, error) in [
        (&[][..], "IP: required argument missing"),
        (&["10.0.0.1"], "ETH: expected Ethernet address, found '10.0.0.1'"),
        (&["10.0.0.1", "2:0:0:0:0:1", "CAPACITY 1000000"], "CAPACITY: at most 262144"),
        (
            &["10.0.0.1", "2:0:0:0:0:1", "STATIC 10.0.0.2"],
            "STATIC: expected address and Ethernet address, found '10.0.0.2'",
        ),
    ] {
        assert_eq!(Bench::error("ARPQuerier", arguments), error);
    }
}

#[test]
fn the_broadcast_address_can_be_written() {
    let mut bench = bench(&[]);
    bench.router.write("e.broadcast", "10.0.0.77").unwrap();
    assert_eq!(bench.router.read("e.broadcast", ""), Ok("10.0.0.77".into()));
    let there = [10, 0, 0, 77];
    assert_eq!(send(&mut bench, there, b"1"), [framed(MacAddr::BROADCAST, there, b"1")]);
}
