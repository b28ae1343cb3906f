//! Graphs with passes give the same results as without, for valid and broken packets.

use europa_engine::{Arena, Flags, Graph, NoDevices, Packet, PacketType, Registry, Router};
use europa_packet::checksum;
use europa_pool::packet::annotation::FIX_IP_SRC;
use proptest::prelude::*;

use crate::testing::{Bench, part};

/// The kind of a packet.
#[derive(Clone, Debug)]
struct Sketch {
    ether_type: u16,
    first: u8,
    ttl: u8,
    flags: u8,
    source: u32,
    destination: u32,
    options: Vec<u8>,
    payload: u16,
    /// Added to the length field of the header.
    length_error: i8,
    bad_checksum: bool,
    /// The packet is cut to this many bytes, if it is longer.
    cut: u16,
    packet_type: u8,
    paint: u8,
    fix_source: bool,
    headroom: u8,
}

impl Sketch {
    fn bytes(&self) -> Vec<u8> {
        let mut header = vec![self.first, 0, 0, 0, 0, 7, self.flags, 0, self.ttl, 17, 0, 0];
        header.extend(self.source.to_be_bytes());
        header.extend(self.destination.to_be_bytes());
        header.extend(&self.options);
        let length = header.len() as i32 + i32::from(self.payload) + i32::from(self.length_error);
        header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        if self.first & 15 == 5 && !self.options.is_empty() {
            header[0] += (self.options.len() / 4) as u8;
        }
        let check = checksum::checksum(&header) ^ u16::from(self.bad_checksum);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
        frame.extend(self.ether_type.to_be_bytes());
        frame.extend(header);
        frame.extend((0..self.payload).map(|at| at as u8));
        frame.truncate(self.cut.into());
        frame
    }

    fn packet(&self, arena: &Arena) -> Packet {
        let mut packet = arena.packet(&self.bytes()).unwrap();
        packet.set_headroom(self.headroom.into()).unwrap();
        packet.set_mac_header(0);
        let types =
            [PacketType::Host, PacketType::Broadcast, PacketType::Multicast, PacketType::OtherHost];
        packet.set_packet_type(types[usize::from(self.packet_type) % 4]);
        packet.set_annotation(30, [self.paint]);
        packet.set_annotation(FIX_IP_SRC, [u8::from(self.fix_source)]);
        packet
    }
}

/// Usually `usual`, sometimes another value.
fn mostly<T: Clone + std::fmt::Debug + 'static>(
    usual: T,
    other: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = T> {
    prop_oneof![12 => Just(usual), 1 => other]
}

fn options() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        Just(vec![7, 7, 4, 0, 0, 0, 0, 0]),
        Just(vec![68, 8, 5, 0, 0, 0, 0, 0]),
        prop::collection::vec(any::<u8>(), 4..=8).prop_map(|mut bytes| {
            bytes.truncate(bytes.len() / 4 * 4);
            bytes
        }),
    ];
    mostly(Vec::new(), option)
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let addresses = prop_oneof![
        8 => (0u32..4, 1u32..4).prop_map(|(net, host)| 0x0a00_0000 | net << 16 | host),
        1 => any::<u32>(),
        1 => Just(0xe000_0005),
    ];
    let header = (
        mostly(0x0800, prop_oneof![Just(0x0806), Just(0x86dd), any::<u16>()]),
        mostly(0x45, any::<u8>()),
        mostly(64, 0u8..3),
        mostly(0, prop_oneof![Just(0x40), any::<u8>()]),
        mostly(0x0a09_0807, prop_oneof![Just(0), Just(u32::MAX), Just(0x0a00_00ff), any::<u32>()]),
        addresses,
        options(),
    );
    let rest = (
        mostly(26, 0u16..400),
        mostly(0, any::<i8>()),
        mostly(false, Just(true)),
        mostly(u16::MAX, 0u16..60),
        mostly(0, 0u8..4),
        mostly(0, 0u8..4),
        mostly(false, Just(true)),
        mostly(128, 0u8..32),
    );
    (header, rest).prop_map(|(header, rest)| {
        let (ether_type, first, ttl, flags, source, destination, options) = header;
        let (payload, length_error, bad_checksum, cut, packet_type, paint, fix_source, headroom) =
            rest;
        Sketch {
            ether_type,
            first,
            ttl,
            flags,
            source,
            destination,
            options,
            payload,
            length_error,
            bad_checksum,
            cut,
            packet_type,
            paint,
            fix_source,
            headroom,
        }
    })
}

/// Connects each side output to a separate sink port.
struct Plan {
    graph: Graph,
    sink: usize,
    ports: usize,
}

impl Plan {
    fn side(&mut self, element: usize, output: usize) {
        self.graph.connect(element, output, self.sink, self.ports);
        self.ports += 1;
    }

    /// A chain of the `classes` in `mask`, after `from`. Returns its end.
    fn chain(
        &mut self,
        name: &str,
        mut from: (usize, usize),
        classes: &[(&str, &[&str], &[usize])],
        mask: u32,
    ) -> (usize, usize) {
        for (number, (class, arguments, sides)) in classes.iter().enumerate() {
            if mask >> number & 1 == 0 {
                continue;
            }
            let element = self.graph.add(&format!("{name}{number}"), class, arguments);
            self.graph.connect(from.0, from.1, element, 0);
            sides.iter().for_each(|side| self.side(element, *side));
            from = (element, if *class == "Classifier" { 2 } else { 0 });
        }
        from
    }
}

/// A router with some elements missing, and a second source that pushes to the element in the
/// middle of each chain. Look-up: 10.0/16 to output 0, 10.1/16 to 1, 10.2/16 to 2, 10.3/16 to 0 by
/// a gateway.
fn graph(ingress: u32, egress: u32, anno: usize) -> Graph {
    let mut graph = Graph::default();
    let (source, second) =
        (graph.add("source0", "TestSource", &[]), graph.add("source1", "TestSource", &[]));
    let sink = graph.add("sink", "TestSink", &[]);
    let mut plan = Plan { graph, sink, ports: 0 };
    let anno = anno.to_string();
    let end = plan.chain(
        "in",
        (source, 0),
        &[
            (
                "Classifier",
                &["12/0806 20/0001", "12/0806 20/0002", "12/0800", "12/86dd 40/0a"],
                &[0, 1, 3],
            ),
            ("Paint", &["1", &anno], &[]),
            ("Strip", &["14"], &[]),
            ("CheckIPHeader", &["INTERFACES 10.0.0.1/24 10.9.0.1/16"], &[1]),
            ("DropMartians", &["10.0.0.255 10.1.0.255"], &[1]),
            ("GetIPAddress", &["16"], &[]),
            (
                "RadixIPLookup",
                &[
                    "10.0.0.0/16 0",
                    "10.1.0.0/16 1",
                    "10.2.0.0/16 2",
                    "10.3.0.0/16 10.0.0.1 0",
                    "10.0.1.0/28 3",
                ],
                &[3],
            ),
        ],
        ingress | 1 << 6,
    );
    let lookup = end.0;
    for output in 0..2 {
        // Each output has a different last stage.
        let mask = egress & 0x3f | (egress >> 6 & 1) << (6 + output);
        let end = plan.chain(
            &format!("out{output}-"),
            (lookup, output),
            &[
                ("DropBroadcasts", &[], &[1]),
                ("PaintTee", &["2", &anno], &[1]),
                ("IPGWOptions", &["10.0.0.1", "10.1.0.1"], &[1]),
                ("FixIPSrc", &["10.0.0.1"], &[]),
                ("DecIPTTL", &[], &[1]),
                ("IPFragmenter", &["100"], &[1]),
                ("EtherEncap", &["0x0800", "2:0:0:0:0:1", "2:0:0:0:0:2"], &[]),
                (
                    "ARPQuerier",
                    &[
                        "10.1.0.1/16",
                        "2:0:0:0:0:7",
                        "STATIC 10.1.0.1 2:0:0:0:1:1 10.1.0.2 2:0:0:0:1:2",
                    ],
                    &[1, 2],
                ),
            ],
            mask,
        );
        plan.side(end.0, end.1);
    }
    plan.side(lookup, 2);
    let middle = ["in3", "in2", "in1"]
        .into_iter()
        .find_map(|name| plan.graph.elements.iter().position(|element| element.name == name));
    plan.graph.connect(second, 0, middle.unwrap_or(lookup), 0);
    plan.graph
}

/// All observable properties of a packet.
fn seen(packet: &Packet) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {} {:?}",
        packet.data(),
        packet.mac_offset(),
        packet.network_offset(),
        packet.transport_offset(),
        packet.packet_type(),
        packet.headroom(),
        packet.annotation::<48>(0)
    )
}

/// All observable effects of a router: its packets in order, by output, and its handlers' values.
fn run(registry: &Registry, graph: &Graph, rounds: &[Vec<Sketch>]) -> Vec<String> {
    let arena = Arena::heap(4096, 2048);
    let graph = graph.clone().resolved(registry);
    let mut router = Router::build(&graph, registry, &arena, &NoDevices, 0).unwrap();
    router.set_log(Box::new(|_| ()));
    for (now, sketches) in rounds.iter().enumerate() {
        part::source(&mut router, now % 2, sketches.iter().map(|s| s.packet(&arena)));
        while router.run_once(now as u64 * 1_000_000_000, &mut NoDevices) {}
    }
    let mut out = part::sink(&mut router);
    out.sort_by_key(|(port, _)| *port);
    let mut lines: Vec<String> =
        out.iter().map(|(port, packet)| format!("{port}: {}", seen(packet))).collect();
    for (index, element) in graph.elements.iter().enumerate() {
        for handler in router.handlers(index) {
            // The engine decides how packets are put into batches.
            if handler.0 != "batches" && handler.1.has(Flags::READ) {
                let path = format!("{}.{}", element.name, handler.0);
                lines.push(format!("{path}: {:?}", router.read(&path, "")));
            }
        }
    }
    drop((router, out));
    lines.push(format!("{} free", arena.free()));
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn passes_change_nothing(
        rounds in prop::collection::vec(prop::collection::vec(sketch(), 0..50), 1..5),
        ingress in prop_oneof![Just(0b10_1111), Just(0b01_1111), 0u32..64],
        egress in prop_oneof![Just(0x7f), 0u32..128],
        anno in prop_oneof![Just(16usize), Just(30)],
    ) {
        let graph = graph(ingress, egress, anno);
        let with = run(&Bench::registry(), &graph, &rounds);
        let without = run(&Bench::registry().without_passes(), &graph, &rounds);
        for (with, without) in with.iter().zip(&without) {
            prop_assert_eq!(with, without);
        }
        prop_assert_eq!(with.len(), without.len());
    }
}

#[test]
fn the_usual_packet_is_worked_on_in_two_calls() {
    let usual = Sketch {
        ether_type: 0x0800,
        first: 0x45,
        ttl: 64,
        flags: 0,
        source: 0x0a09_0807,
        destination: 0x0a00_0002,
        options: Vec::new(),
        payload: 26,
        length_error: 0,
        bad_checksum: false,
        cut: u16::MAX,
        packet_type: 0,
        paint: 0,
        fix_source: false,
        headroom: 128,
    };
    for (registry, turns) in [(Bench::registry(), 3), (Bench::registry().without_passes(), 14)] {
        let arena = Arena::heap(64, 2048);
        let graph = graph(0b10_1111, 0x7f, 16).resolved(&registry);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        part::source(&mut router, 0, [usual.packet(&arena)]);
        router.run_once(0, &mut NoDevices);
        assert_eq!(part::sink(&mut router).len(), 1);
        assert_eq!(router.turns(), turns);
    }
}
