//! Traces a packet: every step is reported, and other packets are not affected.

use europa_engine::trace::{Fate, Fetched, What};
use europa_engine::{Arena, Graph, MemoryDevices, Router};
use europa_packet::checksum;

/// Every packet (`ret #1`).
const ALL: &str = "1 6 0 0 1";
/// `ip[8] == 1` behind an Ethernet header: TTL 1.
const TTL_1: &str = "4 48 0 0 22 21 0 1 1 6 0 0 1 6 0 0 0";

/// A frame with an IPv4 packet to this address.
fn frame(to: [u8; 4], ttl: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9, 8, 0];
    let mut ip = vec![0x45, 0, 0, 28, 0, 1, 0, 0, ttl, 17, 0, 0, 10, 0, 1, 2];
    ip.extend(to);
    let sum = checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend([0; 8]);
    frame.extend(ip);
    frame
}

struct Bench {
    router: Router,
    devices: MemoryDevices,
}

impl Bench {
    fn new() -> Bench {
        let arena = Arena::heap(64, 2048);
        let devices = MemoryDevices::new(&["in", "out"], &arena);
        let mut graph = Graph::default();
        let elements: Vec<usize> = [
            ("from", "FromDevice", &["in"][..]),
            ("tee", "Tee", &["2"]),
            ("strip", "Strip", &["14"]),
            ("check", "CheckIPHeader", &[]),
            ("get", "GetIPAddress", &["16"]),
            ("route", "StaticIPLookup", &["10.0.2.0/24 10.0.2.9 0"]),
            ("ttl", "DecIPTTL", &[]),
            ("unstrip", "Unstrip", &["14"]),
            ("queue", "Queue", &["100"]),
            ("to", "ToDevice", &["out"]),
            ("drop", "Discard", &[]),
        ]
        .iter()
        .map(|(name, class, arguments)| graph.add(name, class, arguments))
        .collect();
        for (at, pair) in elements[..10].windows(2).enumerate() {
            // Tee's last output gets the packet, the others get copies.
            graph.connect(pair[0], usize::from(at == 1), pair[1], 0);
        }
        graph.connect(elements[1], 0, elements[10], 0);
        let registry = europa_elements::registry();
        let graph = graph.resolved(&registry);
        let router = Router::build(&graph, &registry, &arena, &devices, 0).expect("a graph");
        Bench { router, devices }
    }

    fn run(&mut self, frames: &[Vec<u8>]) {
        self.devices.received[0].extend(frames.iter().cloned());
        for now in 1..20 {
            self.router.run_once(now, &mut self.devices);
        }
    }

    fn fetch(&mut self) -> Fetched {
        let text = self.router.read("trace", "").expect("a handler");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// A step in a few words.
fn words(what: &What) -> String {
    match what {
        What::Received { interface, .. } => format!("received {interface}"),
        What::Made { from, element, .. } => format!("made by {element} from {from}"),
        What::Element(hop) => {
            let changed = if hop.after.is_some() { ", changed" } else { "" };
            let notes: String = hop.notes.iter().map(|note| format!(" ({note})")).collect();
            format!("{} {:?}{changed}{notes}", hop.name, hop.fate)
        }
        What::Sent { interface, .. } => format!("sent {interface}"),
        What::Host { .. } => "host".into(),
        What::Gone => "gone".into(),
    }
}

fn steps(fetched: &Fetched, packet: u32) -> Vec<String> {
    let of_it = fetched.events.iter().filter(|event| event.packet == packet);
    of_it.map(|event| words(&event.what)).collect()
}

#[test]
fn each_step_of_a_packet_is_told() {
    let mut bench = Bench::new();
    bench.router.write("trace", &format!("1 256 {ALL}")).expect("a trace");
    let frames = [frame([10, 0, 2, 2], 64), frame([10, 0, 2, 3], 64)];
    bench.run(&frames);
    let fetched = bench.fetch();
    assert_eq!((fetched.left, fetched.under_way, fetched.lost), (0, 0, 0));
    assert_eq!(
        steps(&fetched, 1),
        [
            "received in",
            "tee Output(1)",
            "strip Output(0), changed",
            "check Output(0)",
            "get Output(0)",
            "route Output(0) (route to 10.0.2.2: via 10.0.2.9, output 0)",
            "ttl Output(0), changed",
            "unstrip Output(0), changed",
            "queue Kept",
            "queue Output(0)",
            "sent out",
        ]
    );
    assert_eq!(steps(&fetched, 2), ["made by tee from 1", "drop Dropped"]);
    assert_eq!(fetched.events.len(), 13, "nobody else is followed");
    assert_eq!(bench.devices.sent[1].len(), 2, "and nobody lost");
    // The same packets are sent as without a trace.
    let mut other = Bench::new();
    other.run(&frames);
    assert_eq!(bench.devices.sent, other.devices.sent);
    for element in ["tee", "ttl", "queue", "drop"] {
        let count = |bench: &mut Bench| bench.router.read(&format!("{element}.packets"), "");
        assert_eq!(count(&mut bench), count(&mut other), "{element}");
    }
}

#[test]
fn drops_have_causes() {
    let mut spoilt = frame([10, 0, 2, 2], 64);
    spoilt[25] ^= 1;
    let foreign = frame([10, 9, 9, 9], 64);
    let expired = frame([10, 0, 2, 2], 1);
    for (program, frames, packet, last) in [
        (ALL, vec![spoilt], 0, "check Dropped (bad IP checksum)"),
        (ALL, vec![foreign], 0, "route Dropped (no route to 10.9.9.9) (drops is now 1)"),
        (TTL_1, vec![frame([10, 0, 2, 2], 2), expired], 1, "ttl Dropped (drops is now 1)"),
    ] {
        let mut bench = Bench::new();
        bench.router.write("trace", &format!("5 64 {program}")).expect("a trace");
        bench.run(&frames);
        let fetched = bench.fetch();
        let all = steps(&fetched, 1);
        assert_eq!(all.last().map(String::as_str), Some(last), "{packet}: {all:?}");
        let drops = fetched
            .events
            .iter()
            .filter(|event| matches!(&event.what, What::Element(hop) if hop.fate == Fate::Dropped));
        // The copy that tee makes is dropped too.
        assert_eq!(drops.count(), 2);
    }
}

#[test]
fn a_trace_ends_when_it_is_told_or_nobody_asks() {
    let mut bench = Bench::new();
    for order in ["", "1 2", "1 64 1 7 0 0 0", "x 64 1 6 0 0 0"] {
        assert_eq!(bench.router.write("trace", order).is_ok(), order.is_empty(), "{order:?}");
    }
    let order = format!("1000 64 {ALL}");
    bench.router.write("trace", &order).expect("a trace");
    bench.run(&[frame([10, 0, 2, 2], 64)]);
    assert!(!bench.fetch().events.is_empty());
    bench.router.write("trace", "").expect("its end");
    bench.run(&[frame([10, 0, 2, 2], 64)]);
    assert_eq!(bench.fetch(), Fetched::default());
    bench.router.write("trace", &order).expect("a trace");
    bench.router.run_once(20_000_000_000, &mut bench.devices);
    bench.devices.received[0].push(frame([10, 0, 2, 2], 64));
    bench.router.run_once(20_000_000_001, &mut bench.devices);
    assert_eq!(bench.fetch(), Fetched::default());
}
