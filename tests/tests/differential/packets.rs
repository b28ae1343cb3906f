//! Packets that a router is tried with.

use std::net::{Ipv4Addr, Ipv6Addr};

use europa_packet::{Frame, MacAddr};

use super::far::mac;
use super::random::Random;

/// A frame that comes in by an interface.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) interface: usize,
    pub(crate) frame: Vec<u8>,
    /// Its description.
    pub(crate) what: String,
}

/// Destinations that settings are about, beside neighbours and the router itself.
pub(crate) const FAR: &str = "10.9.1.7";
const FAR6: &str = "fd09:1::7";

/// A packet; most are such as routers forward. `macs` are the router's Ethernet addresses.
pub(crate) fn packet(random: &mut Random, macs: &[MacAddr], number: u16) -> Packet {
    let interface = random.below(macs.len());
    let is_v4 = random.below(3) > 0;
    let (from, to) = (mac(interface, 2), destination_mac(random, macs[interface]));
    let ttl = *random.one(&[64, 64, 64, 64, 64, 2, 1]);
    let length = *random.one(&[20, 20, 20, 200, 1200, 1300, 1400, 1428, 1472 - 20]);
    let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
    let dont_fragment = random.below(2) == 0;
    let head = Frame::new(from, to);
    let (head, source, target) = if is_v4 {
        let source = source4(random, interface);
        let target = target4(random, interface);
        let flags = if dont_fragment { 0x4000 } else { 0 };
        let tos = *random.one(&[0, 0, 0, 16]);
        let head = head.ipv4(source, target).ttl(ttl).id(number).flags_fragment(flags).tos(tos);
        (head, source.to_string(), target.to_string())
    } else {
        let source: Ipv6Addr = format!("fd00:{interface}::2").parse().expect("an address");
        let target = target6(random, interface);
        (head.ipv6(source, target).ttl(ttl), source.to_string(), target.to_string())
    };
    let (kind, frame) = match random.below(4) {
        0 => ("echo", head.echo(7, number, &payload)),
        1 => ("TCP SYN", head.tcp(1000 + number, 7000, 1, 2, &[])),
        _ => ("UDP", head.udp(1000 + number, 7000, &payload)),
    };
    let df = if dont_fragment && is_v4 { ", DF" } else { "" };
    let bytes = frame.len();
    let what = format!(
        "{number}: by eth{interface} to {to}, {kind} {source} to {target}, ttl {ttl}, {bytes} bytes{df}"
    );
    Packet { interface, frame, what }
}

fn destination_mac(random: &mut Random, own: MacAddr) -> MacAddr {
    match random.below(12) {
        0 => MacAddr([2, 0, 0x5e, 0, 1, 1]),
        1 if random.below(3) == 0 => MacAddr::BROADCAST,
        _ => own,
    }
}

fn source4(random: &mut Random, interface: usize) -> Ipv4Addr {
    let text = match random.below(16) {
        0 => format!("10.0.{interface}.1"),
        1 => "10.0.1.1".into(),
        2 => "10.9.1.9".into(),
        _ => format!("10.0.{interface}.2"),
    };
    text.parse().expect("an address")
}

fn target4(random: &mut Random, interface: usize) -> Ipv4Addr {
    let others = format!("10.0.{}.2", (interface + 1 + random.below(2)) % 3);
    let text = match random.below(12) {
        0 => format!("10.0.{interface}.1"),
        1 => format!("10.0.{interface}.9"),
        2 => "10.77.0.1".into(),
        3 => "10.0.1.255".into(),
        4..=8 => FAR.into(),
        _ => others,
    };
    text.parse().expect("an address")
}

fn target6(random: &mut Random, interface: usize) -> Ipv6Addr {
    let text = match random.below(8) {
        0 => format!("fd00:{interface}::1"),
        1 => format!("fd00:{interface}::9"),
        2 => "fd77::1".into(),
        3..=5 => FAR6.into(),
        _ => format!("fd00:{}::2", (interface + 1) % 3),
    };
    text.parse().expect("an address")
}
