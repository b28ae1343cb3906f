//! The built-in configurations against a model router, through the real language and engine.

mod edges;

use std::net::{Ipv4Addr, Ipv6Addr};

use europa_click::{Argument, ElementClasses, Processing, Shape, compile};
use europa_engine::{
    Arena, Connection, Graph, GraphElement, MemoryDevices, Registry, Router as Engine,
};
use europa_packet::icmp6::{multicast_mac, solicited_node};
use europa_packet::{ArpPacket, Frame, IpProtocol, MacAddr, checksum, ipv4};
use proptest::prelude::*;

use super::{Description, Interface, Neighbour, Next, Problem, Route, bridge, ipv4 as router_text};
use crate::registry;

struct Classes<'a>(&'a Registry);

impl ElementClasses for Classes<'_> {
    fn contains(&self, class: &str) -> bool {
        self.0.info(class).is_some()
    }

    fn shape(&self, class: &str, _: &[Argument]) -> Option<Shape> {
        let info = self.0.info(class)?;
        Some(Shape::new(info.ports, info.processing, info.flow))
    }

    fn names(&self) -> Vec<&str> {
        self.0.classes().map(|info| info.name).collect()
    }
}

/// A running configuration.
struct Model {
    engine: Engine,
    devices: MemoryDevices,
    arena: Arena,
    now_ns: u64,
}

const SLOTS: u32 = 2048;

impl Model {
    fn new(text: &str, names: &[&str]) -> Model {
        let registry = registry();
        let checked = compile(text, "builtin", &Classes(&registry))
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let elements = checked.elements.iter().map(|element| GraphElement {
            name: element.name.clone(),
            class: element.class.clone(),
            arguments: element.arguments.iter().map(|argument| argument.text.clone()).collect(),
        });
        let connections = checked.connections.iter().map(|c| Connection {
            from: c.from.index(),
            output: c.from_port as usize,
            to: c.to.index(),
            input: c.to_port as usize,
            pull: checked.elements[c.to.index()].inputs[c.to_port as usize].processing
                == Processing::Pull,
        });
        let graph = Graph {
            elements: elements.collect(),
            connections: connections.collect(),
            one_by_one: false,
        };
        let arena = Arena::heap(SLOTS, 4096);
        let devices = MemoryDevices::new(names, &arena);
        let engine = Engine::build(&graph, &registry, &arena, &devices, 0)
            .unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        assert!(engine.warnings().is_empty(), "{text}");
        Model { engine, devices, arena, now_ns: 0 }
    }

    /// Delivers frames to an interface; returns the sent frames with their interfaces.
    fn receive(&mut self, interface: usize, frames: &[Vec<u8>]) -> Vec<(usize, Vec<u8>)> {
        self.devices.received[interface].extend_from_slice(frames);
        for _ in 0..100 {
            if !self.engine.run_once(self.now_ns, &mut self.devices) {
                break;
            }
        }
        let sent = self.devices.sent.iter_mut().enumerate();
        sent.flat_map(|(index, frames)| frames.drain(..).map(move |frame| (index, frame))).collect()
    }
}

const OWN: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 0]), MacAddr([2, 0, 0, 0, 0, 1])];
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
/// Hosts on both sides, the next router, and a host behind it.
const HOST_A: [u8; 4] = [10, 0, 0, 9];
const HOST_B: [u8; 4] = [10, 1, 0, 9];
const BEHIND: [u8; 4] = [10, 2, 0, 9];
const OWN_A: [u8; 4] = [10, 0, 0, 1];
const OWN_B: [u8; 4] = [10, 1, 0, 1];
const HOST_A6: &str = "2001:db8::9";
const HOST_B6: &str = "2001:db8:1::9";
const LOCAL_A6: &str = "fe80::9";

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Two interfaces: MTU 1500 and 1400; a route with a next router, and a more specific unreachable
/// route.
fn description() -> Description {
    let interface = |index: usize, mtu, addresses: &[&str]| Interface {
        name: format!("eth{index}"),
        mac: OWN[index],
        mtu,
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
    };
    let via = |to: &str, address: &str| Route {
        to: to.parse().unwrap(),
        next: Next::Via { address: address.parse().unwrap(), interface: None },
    };
    let hole = |to: &str| Route { to: to.parse().unwrap(), next: Next::Blackhole };
    let neighbour = |address: &str, mac, interface| Neighbour {
        address: address.parse().unwrap(),
        mac,
        interface,
    };
    Description {
        interfaces: vec![
            interface(0, 1500, &["10.0.0.1/24", "2001:db8::1/64"]),
            interface(1, 1400, &["10.1.0.1/16", "2001:db8:1::1/64"]),
        ],
        routes: vec![
            via("10.2.0.0/16", "10.1.0.2"),
            hole("10.2.3.0/24"),
            via("10.2.3.4/32", "10.0.0.2"),
            via("2001:db8:2::/48", "2001:db8:1::2"),
            hole("2001:db8:2:3::/64"),
        ],
        neighbours: vec![
            neighbour("10.0.0.9", A, 0),
            neighbour("10.0.0.2", B, 0),
            neighbour("10.1.0.9", B, 1),
            neighbour("10.1.0.2", A, 1),
            neighbour("2001:db8::9", A, 0),
            neighbour("fe80::9", A, 0),
            neighbour("2001:db8:1::9", B, 1),
            neighbour("2001:db8:1::2", A, 1),
        ],
        labels: None,
    }
}

fn model() -> Model {
    Model::new(&router_text(&description()).unwrap(), &["eth0", "eth1"])
}

/// A frame of host A to the router.
fn v4(source: [u8; 4], to: [u8; 4], ttl: u8, length: usize) -> Vec<u8> {
    Frame::new(A, OWN[0]).ipv4(source, to).ttl(ttl).udp(1, 2, &vec![7; length])
}

fn v6(source: &str, to: &str, hops: u8, length: usize) -> Vec<u8> {
    let frame = Frame::new(A, OWN[0]).ipv6(address(source), address(to)).ttl(hops);
    frame.udp(1, 2, &vec![7; length])
}

/// A frame whose IPv6 header names this protocol.
fn next_header(protocol: u8, to: &str) -> Vec<u8> {
    let frame = Frame::new(A, OWN[0]).ipv6(address(HOST_A6), address(to));
    frame.transport(IpProtocol(protocol), &[0; 16])
}

fn with_options(to: [u8; 4], options: [u8; 4]) -> Vec<u8> {
    let mut frame = v4(HOST_A, to, 64, 9);
    frame.splice(34..34, options);
    frame[14] = 0x46;
    frame[17] += 4;
    frame[24..26].fill(0);
    let check = checksum::checksum(&frame[14..38]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame
}

/// The same frame after one hop.
fn forwarded(frame: &[u8], from: MacAddr, to: MacAddr) -> Vec<u8> {
    let mut next = frame.to_vec();
    next[..6].copy_from_slice(&to.0);
    next[6..12].copy_from_slice(&from.0);
    if next[12..14] == [8, 0] {
        next[22] -= 1;
        let check = checksum::decrement_high_byte(u16::from_be_bytes([next[24], next[25]]));
        next[24..26].copy_from_slice(&check.to_be_bytes());
    } else {
        next[21] -= 1;
    }
    next
}

/// Type and code of an ICMP or ICMPv6 error in a frame, and its source.
fn error(frame: &[u8]) -> (u8, u8, String) {
    if frame[12..14] == [8, 0] {
        assert!(checksum::verify(&frame[14..34]) && checksum::verify(&frame[34..]));
        let source: [u8; 4] = frame[26..30].try_into().unwrap();
        (frame[34], frame[35], Ipv4Addr::from(source).to_string())
    } else {
        let source: [u8; 16] = frame[22..38].try_into().unwrap();
        let to: [u8; 16] = frame[38..54].try_into().unwrap();
        let message = &frame[54..];
        let pseudo =
            checksum::pseudo_v6(source.into(), to.into(), IpProtocol::ICMP6, message.len() as u32);
        assert!((pseudo + checksum::sum(message)).is_valid());
        (frame[54], frame[55], Ipv6Addr::from(source).to_string())
    }
}

#[test]
fn packets_are_forwarded() {
    let next = MacAddr([2, 0, 0, 0, 0, 0xa]);
    for (name, frame, interface, to) in [
        ("to a neighbour", v4(HOST_A, HOST_B, 64, 100), 1, B),
        ("by the next router", v4(HOST_A, BEHIND, 64, 100), 1, next),
        ("by a more specific route", v4(HOST_B, [10, 2, 3, 4], 64, 9), 0, B),
        ("as long as it may be", v4(HOST_A, HOST_B, 2, 1400 - 28), 1, B),
        ("IPv6 to a neighbour", v6(HOST_A6, HOST_B6, 64, 100), 1, B),
        ("IPv6 by the next router", v6(HOST_A6, "2001:db8:2::9", 2, 9), 1, next),
    ] {
        let wanted = forwarded(&frame, OWN[interface], to);
        let mut out = model().receive(0, &[frame]);
        // A host that has a shorter way gets a redirect, which another test covers.
        out.retain(|(_, frame)| frame[12..14] != [8, 0] || frame[23] != 1);
        assert_eq!(out, [(interface, wanted)], "{name}");
    }
}

#[test]
fn nothing_leaves_in_silence_or_by_mistake() {
    let group = |mac: [u8; 6]| {
        let mut frame = v4(HOST_A, HOST_B, 64, 9);
        frame[..6].copy_from_slice(&mac);
        frame
    };
    for (name, frame) in [
        ("blackhole", v4(HOST_A, [10, 2, 3, 9], 64, 9)),
        ("limited broadcast", v4(HOST_A, [255; 4], 64, 9)),
        ("directed broadcast", v4(HOST_A, [10, 1, 255, 255], 64, 9)),
        ("all zeros", v4(HOST_A, [10, 1, 0, 0], 64, 9)),
        ("multicast", v4(HOST_A, [239, 1, 1, 1], 64, 9)),
        ("net 127", v4(HOST_A, [127, 0, 0, 1], 64, 9)),
        ("class E", v4(HOST_A, [250, 0, 0, 1], 64, 9)),
        ("from net 127", v4([127, 0, 0, 1], HOST_B, 64, 9)),
        ("from a broadcast address", v4([10, 0, 0, 255], HOST_B, 64, 9)),
        ("from a group", v4([224, 0, 0, 1], HOST_B, 64, 9)),
        ("from the router itself", v4(OWN_A, HOST_B, 64, 9)),
        ("link broadcast", group([0xff; 6])),
        ("link group", group([1, 0, 0x5e, 0, 0, 1])),
        ("IPv6 blackhole", v6(HOST_A6, "2001:db8:2:3::9", 64, 9)),
        ("IPv6 group", v6(HOST_A6, "ff0e::1", 64, 9)),
        ("IPv6 from nowhere", v6("::", HOST_B6, 64, 9)),
        ("IPv6 from a link-local address", v6(LOCAL_A6, HOST_B6, 64, 9)),
        ("IPv6 to a link-local address", v6(HOST_A6, "fe80::77", 64, 9)),
        ("IPv6 to itself", v6(HOST_A6, "::1", 64, 9)),
        ("to another link's address", v6(LOCAL_A6, "fe80::ff:fe00:1", 64, 9)),
        ("from afar to another link's address", v6(HOST_A6, "fe80::ff:fe00:1", 64, 9)),
        ("without a next header", next_header(59, "2001:db8::1")),
        ("options and unknown ICMPv6", next_header(60, "2001:db8::1")),
        ("unknown protocol to a group", next_header(253, "ff02::1")),
    ] {
        let mut model = model();
        assert_eq!(model.receive(0, &[frame]), [], "{name}");
        assert_eq!(model.arena.free(), SLOTS as usize, "{name}");
    }
}

#[test]
fn errors_are_reported() {
    let df = Frame::new(A, OWN[0]).ipv4(HOST_A, HOST_B).flags_fragment(ipv4::DONT_FRAGMENT);
    let options = with_options(HOST_B, [7, 1, 4, 0]);
    let tcp = Frame::new(A, OWN[0]).ipv4(HOST_A, OWN_B).tcp(1, 22, 0, 2, b"");
    let other = Frame::new(A, OWN[0]).ipv4(HOST_A, OWN_A).transport(IpProtocol::GRE, b"1234");
    for (name, frame, wanted) in [
        ("TTL", v4(HOST_A, HOST_B, 1, 9), (11, 0, "10.0.0.1")),
        ("no route", v4(HOST_A, [192, 0, 2, 1], 64, 9), (3, 0, "10.0.0.1")),
        ("must not be cut", df.udp(1, 2, &[0; 1373]), (3, 4, "10.0.0.1")),
        ("bad option", options, (12, 0, "10.0.0.1")),
        ("UDP port", v4(HOST_A, OWN_A, 1, 9), (3, 3, "10.0.0.1")),
        ("TCP port", tcp, (3, 3, "10.0.0.1")),
        ("protocol", other, (3, 2, "10.0.0.1")),
        ("hop limit", v6(HOST_A6, HOST_B6, 1, 9), (3, 0, "2001:db8::1")),
        ("no IPv6 route", v6(HOST_A6, "2002::1", 64, 9), (1, 0, "2001:db8::1")),
        ("too big", v6(HOST_A6, HOST_B6, 64, 1400), (2, 0, "2001:db8::1")),
        ("IPv6 port", v6(HOST_A6, "2001:db8:1::1", 1, 9), (1, 4, "2001:db8:1::1")),
        (
            "IPv6 port of the subnet's routers",
            v6(HOST_A6, "2001:db8::", 1, 9),
            (1, 4, "2001:db8::1"),
        ),
        ("IPv6 protocol", next_header(253, "2001:db8::1"), (4, 1, "2001:db8::1")),
        ("bad option to the router", with_options(OWN_A, [7, 1, 4, 0]), (12, 0, "10.0.0.1")),
        (
            "port of a link-local address",
            v6(LOCAL_A6, "fe80::ff:fe00:0", 1, 9),
            (1, 4, "fe80::ff:fe00:0"),
        ),
    ] {
        let mut model = model();
        let out = model.receive(0, &[frame]);
        assert_eq!(out.len(), 1, "{name}: {out:?}");
        let (interface, frame) = &out[0];
        assert_eq!((*interface, &frame[..12]), (0, &[A.0, OWN[0].0].concat()[..]), "{name}");
        let (kind, code, source) = error(frame);
        assert_eq!((kind, code, source.as_str()), wanted, "{name}");
        assert_eq!(model.arena.free(), SLOTS as usize, "{name}");
    }
}

#[test]
fn mtus_are_told_and_kept() {
    let df = Frame::new(A, OWN[0]).ipv4(HOST_A, HOST_B).flags_fragment(ipv4::DONT_FRAGMENT);
    let out = model().receive(0, &[df.udp(1, 2, &[0; 1373])]);
    assert_eq!(out[0].1[40..42], 1400u16.to_be_bytes());
    let out = model().receive(0, &[v6(HOST_A6, HOST_B6, 64, 1400)]);
    assert_eq!(out[0].1[58..62], 1400u32.to_be_bytes());
    let out = model().receive(0, &[v4(HOST_A, HOST_B, 64, 3000)]);
    let lengths: Vec<_> = out.iter().map(|(interface, frame)| (*interface, frame.len())).collect();
    assert_eq!(lengths, [(1, 14 + 1396), (1, 14 + 1396), (1, 14 + 20 + 3008 - 2 * 1376)]);
}

#[test]
fn pings_are_answered() {
    for own in [OWN_A, OWN_B] {
        let ping = Frame::new(A, OWN[0]).ipv4(HOST_A, own).ttl(1).echo(1, 2, b"abc");
        let out = model().receive(0, &[ping]);
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].0, error(&out[0].1)), (0, (0, 0, Ipv4Addr::from(own).to_string())));
    }
    for (source, own, from) in [
        (HOST_A6, "2001:db8::1", "2001:db8::1"),
        (HOST_A6, "2001:db8:1::1", "2001:db8:1::1"),
        // The anycast address of the subnet's routers; answers come from the router's own address.
        (HOST_A6, "2001:db8::", "2001:db8::1"),
        (LOCAL_A6, "fe80::ff:fe00:0", "fe80::ff:fe00:0"),
        (LOCAL_A6, "2001:db8::1", "2001:db8::1"),
        (HOST_A6, "fe80::ff:fe00:0", "fe80::ff:fe00:0"),
    ] {
        let frame = Frame::new(A, OWN[0]).ipv6(address(source), address(own)).ttl(1);
        let out = model().receive(0, &[frame.echo(1, 2, b"abc")]);
        assert_eq!(out.len(), 1, "{source} {own}");
        assert_eq!((out[0].0, error(&out[0].1)), (0, (129, 0, from.to_owned())));
        assert_eq!(out[0].1[..6], A.0);
    }
}

#[test]
fn neighbours_ask_and_are_asked() {
    let mut model = model();
    let asked = ArpPacket::request(A, HOST_A.into(), OWN_A.into());
    let question = Frame::new(A, MacAddr::BROADCAST).arp(&asked);
    let answer = Frame::new(OWN[0], A).arp(&asked.reply(OWN[0]));
    assert_eq!(model.receive(0, &[question]), [(0, answer)]);
    // The router does not answer requests for another interface's address.
    let other = ArpPacket::request(A, HOST_A.into(), OWN_B.into());
    assert_eq!(model.receive(0, &[Frame::new(A, MacAddr::BROADCAST).arp(&other)]), []);

    let there = [10, 1, 0, 77];
    let frame = v4(HOST_A, there, 64, 9);
    let asks = ArpPacket::request(OWN[1], OWN_B.into(), there.into());
    let question = Frame::new(OWN[1], MacAddr::BROADCAST).arp(&asks);
    assert_eq!(model.receive(0, std::slice::from_ref(&frame)), [(1, question.clone())]);
    let reply = Frame::new(B, OWN[1]).arp(&asks.reply(B));
    assert_eq!(model.receive(1, &[reply]), [(1, forwarded(&frame, OWN[1], B))]);

    let there = "2001:db8:1::77";
    let frame = v6(HOST_A6, there, 64, 9);
    let out = model.receive(0, std::slice::from_ref(&frame));
    let group = solicited_node(address(there));
    assert_eq!((out.len(), out[0].0, &out[0].1[..6]), (1, 1, &multicast_mac(group).0[..]));
    let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend(address(there).octets());
    message.extend([2, 1, 2, 0, 0, 0, 0, 0xb]);
    let reply = Frame::new(B, OWN[1]).ipv6(address(there), address("2001:db8:1::1")).ttl(255);
    assert_eq!(model.receive(1, &[reply.icmp6(&message)]), [(1, forwarded(&frame, OWN[1], B))]);

    // No neighbour answers: the sender gets an error. The router also sends messages of its own.
    let silent = v4(HOST_A, [10, 1, 0, 78], 64, 9);
    assert_eq!(model.receive(0, &[silent]).len(), 1);
    let told: Vec<_> = (1..10)
        .flat_map(|second| {
            model.now_ns = second * 1_000_000_000;
            model.receive(0, &[])
        })
        .filter(|(interface, frame)| *interface == 0 && frame[12..14] == [8, 0])
        .map(|(_, frame)| error(&frame))
        .collect();
    assert_eq!(told, [(3, 1, "10.0.0.1".to_owned())]);
    assert_eq!(model.arena.free(), SLOTS as usize);
}

#[test]
fn senders_learn_of_a_shorter_way() {
    // The packet goes to the next router, which is in the sender's own subnet.
    let frame = v4(HOST_A, [10, 2, 3, 4], 64, 9);
    let mut out = model().receive(0, std::slice::from_ref(&frame));
    out.sort();
    let told = out.iter().find(|(_, frame)| frame[23] == 1).unwrap();
    assert_eq!(error(&told.1), (5, 1, "10.0.0.1".to_owned()));
    assert_eq!(told.1[38..42], [10, 0, 0, 2]);
    assert!(out.contains(&(0, forwarded(&frame, OWN[0], B))));
    assert_eq!(out.len(), 2);
}

#[test]
fn jumbo_frames_pass_where_they_may() {
    let mut description = description();
    description.interfaces[0].mtu = 9000;
    description.interfaces[1].mtu = 9000;
    let mut model = Model::new(&router_text(&description).unwrap(), &["eth0", "eth1"]);
    let frame = v4(HOST_A, HOST_B, 64, 3000);
    let out = model.receive(0, std::slice::from_ref(&frame));
    assert_eq!(out, [(1, forwarded(&frame, OWN[1], B))]);
}

#[test]
fn all_kinds_of_routers_have_a_configuration() {
    let mut only4 = description();
    let mut only6 = description();
    let mut mixed = description();
    for (index, interface) in only4.interfaces.iter_mut().enumerate() {
        interface.addresses.retain(|net| net.addr().is_ipv4());
        let addresses = &mut only6.interfaces[index].addresses;
        addresses.retain(|net| net.addr().is_ipv6());
        mixed.interfaces[index].addresses.retain(|net| net.addr().is_ipv4() == (index == 0));
    }
    for description in [&mut only4, &mut only6, &mut mixed] {
        description.routes.clear();
        description.neighbours.clear();
        Model::new(&router_text(description).unwrap(), &["eth0", "eth1"]);
    }
    let mut point = only4.clone();
    point.interfaces[0].addresses = vec!["192.0.2.0/31".parse().unwrap()];
    point.interfaces[1].addresses = vec!["192.0.2.2/32".parse().unwrap()];
    Model::new(&router_text(&point).unwrap(), &["eth0", "eth1"]);
    let mut unused = only4.clone();
    unused.interfaces[1].addresses.clear();
    Model::new(&router_text(&unused).unwrap(), &["eth0", "eth1"]);
    assert_eq!(router_text(&Description::default()), Err(Problem::NoAddress));
}

#[test]
fn wrong_routes_are_refused() {
    let route = |to: &str, next| Route { to: to.parse().unwrap(), next };
    let via = |address: &str| Next::Via { address: address.parse().unwrap(), interface: None };
    for (route, wanted) in [
        (route("10.9.0.0/16", via("192.0.2.1")), "is in the subnet of no interface"),
        (route("10.9.0.0/16", via("2001:db8::2")), "is not of the same IP version"),
        (route("10.9.0.0/16", Next::Interface(7)), "interface 7 has no IPv4 address"),
    ] {
        let mut description = description();
        description.routes.push(route);
        let problem = router_text(&description).unwrap_err().to_string();
        assert!(problem.contains(wanted), "{problem}");
    }
}

#[test]
fn bridges_learn_and_flood() {
    let description = description();
    let mut model = Model::new(&bridge(&description.interfaces), &["eth0", "eth1"]);
    let frame =
        |from, to, length| Frame::new(from, to).ipv4(HOST_A, HOST_B).udp(1, 2, &vec![0; length]);
    let there = frame(A, B, 9);
    assert_eq!(model.receive(0, std::slice::from_ref(&there)), [(1, there.clone())]);
    let back = frame(B, A, 9);
    assert_eq!(model.receive(1, std::slice::from_ref(&back)), [(0, back)]);
    assert_eq!(model.receive(1, &[there]), [], "A has moved to where B is");
    let long = frame(MacAddr([2, 0, 0, 0, 0, 7]), MacAddr::BROADCAST, 1405);
    assert_eq!(model.receive(0, &[long]), [], "longer than the other side's MTU");
    assert_eq!(model.receive(0, &[frame(MacAddr::BROADCAST, B, 9)]), [], "from everybody");
}

/// Valid frames with some changed bytes.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let echo = Frame::new(A, OWN[0]).ipv4(HOST_A, OWN_A).echo(1, 2, b"abc");
    let echo6 = Frame::new(A, OWN[0]).ipv6(address(HOST_A6), address("2001:db8::1"));
    let mut solicitation = vec![135, 0, 0, 0, 0, 0, 0, 0];
    solicitation.extend(address("2001:db8::1").octets());
    solicitation.extend([1, 1, 2, 0, 0, 0, 0, 0xa]);
    let ns = Frame::new(A, OWN[0]).ipv6(address(HOST_A6), address("2001:db8::1")).ttl(255);
    let seeds = vec![
        v4(HOST_A, HOST_B, 64, 30),
        v4(HOST_A, HOST_B, 1, 1480),
        v4(HOST_A, [10, 1, 3, 3], 9, 1480),
        v6(HOST_A6, HOST_B6, 2, 30),
        v6(HOST_A6, "2001:db8:1::55", 2, 1405),
        echo,
        echo6.echo(1, 2, b"abc"),
        ns.icmp6(&solicitation),
        Frame::new(A, OWN[0]).arp(&ArpPacket::request(A, HOST_A.into(), OWN_A.into())),
    ];
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let changes = prop::collection::vec(change, 0..6);
    let seeded = (prop::sample::select(seeds), changes, 0usize..80, any::<bool>());
    let changed = seeded.prop_map(|(mut frame, changes, cut, mend)| {
        frame.truncate(frame.len().saturating_sub(cut.saturating_sub(40)));
        for (at, value) in changes {
            // Mostly headers.
            let end = frame.len().clamp(1, 70);
            if let Some(byte) = frame.get_mut(at.index(end)) {
                *byte = value;
            }
        }
        let header = usize::from(frame.get(14).copied().unwrap_or(0) & 15) * 4;
        if mend && frame.len() >= 14 + header.max(20) && frame[12..14] == [8, 0] {
            frame[24..26].fill(0);
            let check = checksum::checksum(&frame[14..14 + header]);
            frame[24..26].copy_from_slice(&check.to_be_bytes());
        }
        frame
    });
    prop_oneof![changed, prop::collection::vec(any::<u8>(), 0..120)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// For any packet, no element panics, and every slot is free again when no packet waits any
    /// more.
    #[test]
    fn no_frame_does_harm_or_is_lost(
        arrivals in prop::collection::vec((0usize..2, frames()), 1..60),
        as_bridge in any::<bool>(),
    ) {
        let description = description();
        let text = match as_bridge {
            true => bridge(&description.interfaces),
            false => router_text(&description).unwrap(),
        };
        let mut model = Model::new(&text, &["eth0", "eth1"]);
        for (interface, frame) in arrivals {
            model.now_ns += 100_000_000;
            for (out, frame) in model.receive(interface, &[frame]) {
                let most = 14 + description.interfaces[out].mtu as usize;
                // Arriving frames may be longer than the MTU; a bridge does not fragment them.
                prop_assert!(as_bridge || frame.len() <= most, "{} bytes by {out}", frame.len());
            }
        }
        for _ in 0..20 {
            model.now_ns += 1_000_000_000;
            model.receive(0, &[]);
        }
        prop_assert_eq!(model.arena.free(), SLOTS as usize);
        for index in 0..model.engine.names().len() {
            prop_assert!(model.engine.element(index).is_some(), "an element did not come back");
        }
    }
}

#[test]
fn with_a_slow_path_linux_gets_what_is_not_forwarded() {
    let text = super::ipv4_with_host(&description()).unwrap();
    let names = ["eth0", "eth1", "eth0@host", "eth1@host"];
    let mut model = Model::new(&text, &names);
    let frame = |to, target| Frame::new(A, to).ipv4(HOST_A, target).udp(1, 2, b"data");
    let good = frame(OWN[0], HOST_B);
    let mut with_options = good.clone();
    with_options[14] = 0x46;
    let mut expired = good.clone();
    expired[22] = 1;
    expired[24..26].fill(0);
    let sum = checksum::checksum(&expired[14..34]).to_be_bytes();
    expired[24..26].copy_from_slice(&sum);
    let arp = ArpPacket::request(A, HOST_A.into(), OWN_A.into());
    // The router knows no neighbour yet, so Linux gets every frame unchanged.
    for frame in [&good, &frame(MacAddr::BROADCAST, [255; 4]), &expired] {
        assert_eq!(model.receive(0, std::slice::from_ref(frame)), []);
        assert_eq!(std::mem::take(&mut model.devices.host[0]), std::slice::from_ref(frame));
    }
    model.engine.write("gate0.policy", "").unwrap();
    model.engine.write("gate1.policy", "").unwrap();
    model.engine.write("route.load", "set 10.1.0.0/16 - 1\nset 10.0.0.1/32 2").unwrap();
    model.engine.write("forward1.load", "set 10.1.0.9 02:00:00:00:00:0b").unwrap();
    let sent = model.receive(0, std::slice::from_ref(&good));
    assert_eq!((sent[0].0, &sent[0].1[..12]), (1, &[B.0, OWN[1].0].concat()[..]));
    for (what, frame) in [
        ("to the router", frame(OWN[0], OWN_A)),
        ("no neighbour", frame(OWN[0], [10, 1, 0, 7])),
        ("no route", frame(OWN[0], [99, 1, 0, 7])),
        ("expired", expired),
        ("options", with_options),
        ("ARP", Frame::new(A, OWN[0]).arp(&arp)),
    ] {
        assert_eq!(model.receive(0, std::slice::from_ref(&frame)), [], "{what}");
        assert_eq!(std::mem::take(&mut model.devices.host[0]), [frame], "{what}");
    }
    // Linux gets packets with options that every router on the way must read.
    model.engine.write("route6.load", "set fd00:1::/64 - 1").unwrap();
    model.engine.write("forward6_1.load", "set fd00:1::9 02:00:00:00:00:0b").unwrap();
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap();
    let v6 = || Frame::new(A, OWN[0]).ipv6(address("fd00:2::9"), address("fd00:1::9"));
    let plain = v6().udp(1, 2, b"data");
    assert_eq!(model.receive(0, std::slice::from_ref(&plain)).len(), 1);
    let alert = [&[17, 0, 5, 2, 0, 0, 1, 0][..], &plain[54..]].concat();
    let alert = v6().transport(IpProtocol(0), &alert);
    assert_eq!(model.receive(0, std::slice::from_ref(&alert)), [], "hop-by-hop options");
    assert_eq!(std::mem::take(&mut model.devices.host[0]), [alert]);
    // Linux's packets leave unchanged.
    let own = Frame::new(OWN[1], B).ipv4(OWN_B, HOST_B).udp(1, 2, b"");
    assert_eq!(model.receive(3, std::slice::from_ref(&own)), [(1, own)]);
    let free = model.arena.free();
    assert_eq!(free, SLOTS as usize, "no packet is lost");
}
