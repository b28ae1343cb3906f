//! Packets that the test sends through a router.

use std::net::{Ipv4Addr, Ipv6Addr};

use europa_packet::checksum::checksum;
use europa_packet::{Frame, MacAddr};

use super::far::mac;
use super::random::Random;

/// A frame that arrives at an interface.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) interface: usize,
    pub(crate) frame: Vec<u8>,
    /// Its description.
    pub(crate) what: String,
}

/// Destinations that settings concern, beside neighbours and the router itself.
pub(crate) const FAR: &str = "10.9.1.7";
const FAR6: &str = "fd09:1::7";

/// A group that settings concern.
const GROUP: &str = "239.1.2.3";
const GROUP6: &str = "ff05::123";

/// A packet, in most cases one that routers forward. `macs` are the router's Ethernet addresses;
/// `about` is the command that the packet should meet.
pub(crate) fn packet(random: &mut Random, macs: &[MacAddr], number: u16, about: &str) -> Packet {
    let groups = if about.contains("$MROUTE") { 2 } else { 24 };
    let sources = if is_about_one(about) { 2 } else { 8 };
    let interface = random.below(macs.len());
    let is_v4 = random.below(3) > 0;
    let is_group = random.below(groups) == 0;
    let from = mac(interface, 2);
    let to = match (is_group, is_v4) {
        (true, true) => MacAddr([1, 0, 0x5e, 1, 2, 3]),
        (true, false) => MacAddr([0x33, 0x33, 0, 0, 1, 0x23]),
        (false, _) => destination_mac(random, macs[interface]),
    };
    let ttl = *random.one(&[64, 64, 64, 64, 64, 2, 1]);
    let length = *random.one(&[20, 20, 20, 200, 1200, 1300, 1400, 1428, 1472 - 20]);
    let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
    let dont_fragment = random.below(2) == 0;
    let head = Frame::new(from, to);
    let (head, source, target) = if is_v4 {
        let source = source4(random, interface, is_group, sources);
        let target = match is_group {
            true => GROUP.parse().expect("an address"),
            false => target4(random, interface),
        };
        // A few packets are the first fragment of a packet, or a later one.
        let flags = match random.below(32) {
            0 => 0x2000,
            1 => 0x0010,
            _ if dont_fragment => 0x4000,
            _ => 0,
        };
        let tos = *random.one(&[0, 0, 0, 16]);
        let head = head.ipv4(source, target).ttl(ttl).id(number).flags_fragment(flags).tos(tos);
        (head, source.to_string(), target.to_string())
    } else {
        let source = source6(random, interface);
        let target = match is_group {
            true => GROUP6.parse().expect("an address"),
            false => target6(random, interface),
        };
        (head.ipv6(source, target).ttl(ttl), source.to_string(), target.to_string())
    };
    let (kind, frame) = match random.below(4) {
        0 => ("echo", head.echo(7000 + number, number, &payload)),
        1 => ("TCP SYN", head.tcp(1000 + number, 7000, 1, 2, &[])),
        _ => ("UDP", head.udp(1000 + number, 7000, &payload)),
    };
    let frame = if is_v4 && random.below(24) == 0 { with_options(frame) } else { frame };
    let (kind, frame) = match about.contains("-M route") && !is_group && number % 2 == 0 {
        true => ("labelled", with_label(frame, ttl)),
        false => (kind, frame),
    };
    let df = if dont_fragment && is_v4 { ", DF" } else { "" };
    let bytes = frame.len();
    let what = format!(
        "{number}: by eth{interface} to {to}, {kind} {source} to {target}, ttl {ttl}, {bytes} bytes{df}"
    );
    Packet { interface, frame, what }
}

/// A packet with label 100 in front (RFC 3032 section 2.1), if there is room for it.
fn with_label(mut frame: Vec<u8>, ttl: u8) -> Vec<u8> {
    const LABEL: u32 = 100;
    const LAST_OF_STACK: u32 = 1 << 8;
    if frame.len() + 4 <= 1514 {
        let entry = LABEL << 12 | LAST_OF_STACK | u32::from(ttl);
        frame.splice(12..14, [0x88, 0x47].into_iter().chain(entry.to_be_bytes()));
    }
    frame
}

/// An IPv4 packet with an option for routers (RFC 2113).
fn with_options(mut frame: Vec<u8>) -> Vec<u8> {
    if frame.len() + 4 > 1514 {
        return frame;
    }
    frame.splice(34..34, [148, 4, 0, 0]);
    let length = (frame.len() - 14) as u16;
    frame[14] = 0x46;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[24..26].fill(0);
    let sum = checksum(&frame[14..38]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn destination_mac(random: &mut Random, own: MacAddr) -> MacAddr {
    match random.below(12) {
        0 => MacAddr([2, 0, 0x5e, 0, 1, 1]),
        1 if random.below(3) == 0 => MacAddr::BROADCAST,
        _ => own,
    }
}

/// Whether a setting concerns only one source.
fn is_about_one(setting: &str) -> bool {
    setting.contains("10.0.0.2 ") || setting.contains("-s 10.0.0.2")
}

/// The source of a packet: for groups, and for one packet of `often`, the first neighbour.
fn source4(random: &mut Random, interface: usize, is_group: bool, often: usize) -> Ipv4Addr {
    let text = match random.below(16) {
        _ if is_group || random.below(often) == 0 => format!("10.0.{interface}.2"),
        0 => format!("10.0.{interface}.1"),
        1 => "10.0.1.1".into(),
        2 => format!("10.9.1.{}", 100 + random.below(50)),
        3 => "10.0.0.255".into(),
        // Linux tells a sender of about one error a second (`ip_error` in the kernel).
        _ => format!("10.0.{interface}.{}", 20 + random.below(20)),
    };
    text.parse().expect("an address")
}

fn source6(random: &mut Random, interface: usize) -> Ipv6Addr {
    let text = match random.below(20) {
        0 => format!("fd00:{interface}::1"),
        1 => "fd00:1::1".into(),
        2 => "fe80::2".into(),
        3 => "fd77::9".into(),
        _ => format!("fd00:{interface}::2"),
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
