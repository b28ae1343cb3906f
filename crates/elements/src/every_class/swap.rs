//! Hot swap to the same configuration: every packet that an element holds survives.

use europa_engine::{Arena, NoDevices, Packet, Router};
use europa_packet::{ArpPacket, Frame, MacAddr};

use super::{build, fitting, is_left_out};
use crate::shared::fields::set_ip_checksum;
use crate::testing::{Bench, ip_packet, part};

const SECOND_NS: u64 = 1_000_000_000;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// All classes that hold packets between turns, with suitable arguments. `FromDump` and similar
/// classes, `Memif`, `Socket` and `ToDevice` have separate tests.
const KEEPS: &[(&str, &[&str])] = &[
    ("ARPQuerier", &["10.0.0.1", "02:00:00:00:00:01"]),
    ("AggregateIPFlows", &[]),
    ("DRRSched", &["20"]),
    ("DelayShaper", &["2s"]),
    ("DelayUnqueue", &["2s"]),
    ("FrontDropQueue", &[]),
    ("FullNoteQueue", &[]),
    ("IP6NDSolicitor", &["2001:db8::1", "02:00:00:00:00:01"]),
    ("IPReassembler", &[]),
    ("LinkUnqueue", &["2s", "1MBps"]),
    ("MPEGQueue", &[]),
    ("MSQueue", &[]),
    ("MixedQueue", &[]),
    ("MultiReplayUnqueue", &["STOP 5", "BURST 1"]),
    ("NotifierQueue", &[]),
    ("Queue", &[]),
    ("QuickNoteQueue", &[]),
    ("ReplayUnqueue", &["STOP 5", "BURST 1"]),
    ("SimpleQueue", &[]),
    ("ThreadSafeQueue", &[]),
    ("TimeSortedSched", &["BUFFER 3"]),
];

/// A fragment of packet `id`: eight bytes from byte `at` on. `more` says whether fragments follow.
fn fragment(id: u16, at: usize, more: bool) -> Vec<u8> {
    let payload: Vec<u8> = (at..at + 8).map(|n| n as u8 + 1).collect();
    let mut packet = ip_packet(0x0a00_0009, 0x0a00_0002, 9, &payload);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    let field = (at / 8) as u16 | if more { 0x2000 } else { 0 };
    packet[6..8].copy_from_slice(&field.to_be_bytes());
    set_ip_checksum(&mut packet);
    packet
}

/// Packets that elements keep: later fragments, and packets for unknown neighbours.
fn first(arena: &Arena, time_ns: u64) -> Vec<Packet> {
    let mut all: Vec<Vec<u8>> = (1..4).map(|id| fragment(id, 8, false)).collect();
    all.extend((1..5).map(|n| ip_packet(0x0a00_0009, 0x0a00_0002, 9, &[n; 8])));
    all.iter().zip(time_ns..).map(|(bytes, time_ns)| packet(arena, bytes, time_ns)).collect()
}

/// The packets that release the held ones: the first fragments, and the neighbour's answer.
fn second(arena: &Arena, time_ns: u64) -> Vec<Packet> {
    let all = (1..4).map(|id| fragment(id, 0, true));
    all.zip(time_ns..).map(|(bytes, time_ns)| packet(arena, &bytes, time_ns)).collect()
}

fn packet(arena: &Arena, bytes: &[u8], time_ns: u64) -> Packet {
    let mut packet = arena.packet(bytes).unwrap();
    packet.set_network_header(0, 20);
    packet.set_dst_ip(0x0a00_0002);
    packet.set_timestamp_ns(time_ns);
    packet
}

/// The output: a push output by its number, a pull output as `None`.
type Out = (Option<usize>, Vec<u8>);

fn run(router: &mut Router, now_ns: u64) {
    for _ in 0..20 {
        router.run_once(now_ns, &mut NoDevices);
    }
}

/// The output since then.
fn take_out(router: &mut Router, pull: usize, now_ns: u64) -> Vec<Out> {
    let pulls = router.find("puller").is_some();
    if pulls {
        part::puller(router, pull);
    }
    run(router, now_ns);
    let pulled = if pulls { part::puller(router, 0) } else { Vec::new() };
    let pulled = pulled.iter().map(|packet| (None, packet.data().to_vec()));
    let pushed = part::sink(router);
    let pushed = pushed.iter().map(|(output, packet)| (Some(*output), packet.data().to_vec()));
    pulled.chain(pushed).collect()
}

fn used(arena: &Arena) -> usize {
    arena.capacity() - arena.free()
}

/// The output of an element that gets packets, is swapped if `swaps`, and gets more packets. Also
/// returns the number of packets that it held before the second part.
fn outcome(class: &str, arguments: &[&str], single: bool, swaps: bool) -> (Vec<Out>, usize) {
    let arena = Arena::heap(1024, 2048);
    let start_ns = 5 * SECOND_NS;
    let build = |now_ns| {
        let router = build(class, arguments, single, &arena, now_ns);
        router.unwrap_or_else(|| panic!("{class}{arguments:?}"))
    };
    let mut router = build(start_ns);
    let inputs = (0..).take_while(|n| router.find(&format!("source{n}")).is_some()).count();
    if inputs > 0 {
        part::source(&mut router, 0, first(&arena, start_ns));
    }
    if router.find("queue1").is_some() {
        part::source(&mut router, 1, first(&arena, start_ns + 100));
    }
    run(&mut router, start_ns);
    let mut out = take_out(&mut router, 2, start_ns + 1);
    let waits_outside: usize = (0..inputs)
        .filter_map(|n| router.read(&format!("queue{n}.length"), "").ok()?.parse::<usize>().ok())
        .sum();
    let before = used(&arena);
    if swaps {
        let mut new = build(start_ns + 2);
        new.take_state(&mut router);
        drop(std::mem::replace(&mut router, new));
        assert_eq!(used(&arena), before, "{class}: packets are lost at a swap");
    }
    if inputs > 0 {
        part::source(&mut router, 0, second(&arena, start_ns + 9));
    }
    if inputs > 1 && router.find("queue1").is_none() {
        let question = ArpPacket::request(MAC, [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let answer = Frame::new(OTHER, MAC).arp(&question.reply(OTHER));
        part::source(&mut router, 1, [arena.packet(&answer).unwrap()]);
    }
    out.extend(take_out(&mut router, 100, start_ns + 10));
    // This is longer than any delay of an element, and any wait for an answer.
    for second in 1..10 {
        out.extend(take_out(&mut router, 100, start_ns + second * SECOND_NS));
    }
    out.sort();
    (out, before - waits_outside)
}

#[test]
fn what_an_element_keeps_comes_out_after_a_swap() {
    for (class, arguments) in KEEPS {
        let (with, kept) = outcome(class, arguments, false, true);
        assert!(kept > 0, "{class} keeps nothing: the test shows nothing");
        let (without, _) = outcome(class, arguments, false, false);
        assert_eq!(with, without, "{class}");
    }
}

/// A new class that holds packets also belongs in [`KEEPS`].
#[test]
fn no_other_class_keeps_packets() {
    let registry = Bench::registry();
    let mut untried = Vec::new();
    for class in registry.classes().map(|info| info.name) {
        if KEEPS.iter().any(|(keeps, _)| *keeps == class) || is_left_out(class) {
            continue;
        }
        let Some((arguments, single)) = fitting(class) else {
            untried.push(class);
            continue;
        };
        let (_, kept) = outcome(class, arguments, single, true);
        assert_eq!(kept, 0, "{class}{arguments:?} keeps packets and is not tested");
    }
    eprintln!("not tried: {untried:?}");
    assert!(untried.len() * 10 < registry.classes().count(), "{untried:?}");
}
