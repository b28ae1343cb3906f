//! Prints one packet as a line of text, in the words of tcpdump.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    ArpPacketSlice, EtherType, Icmpv4Type, Icmpv6Type, LaxNetSlice, LaxSlicedPacket, LinkSlice,
    TransportSlice,
};

/// The text of an Ethernet address.
pub fn mac(address: &[u8]) -> String {
    address.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// The contents of an Ethernet frame.
pub fn frame(data: &[u8]) -> String {
    let Ok(packet) = LaxSlicedPacket::from_ethernet(data) else {
        return format!("{} bytes, too short for a header", data.len());
    };
    let (mut text, mut kind, mut at) = (String::new(), None, 12);
    if let Some(LinkSlice::Ethernet2(ethernet)) = &packet.link {
        let (from, to) = (mac(&ethernet.source()), mac(&ethernet.destination()));
        text = format!("{from} > {to}, ");
        kind = Some(ethernet.ether_type());
    }
    // IEEE 802.1Q and 802.1ad.
    while let Some([0x81, 0x00, high, low] | [0x88, 0xa8, high, low]) = data.get(at..at + 4) {
        let _ = write!(text, "vlan {}, ", u16::from_be_bytes([high & 15, *low]));
        at += 4;
        kind = data.get(at..at + 2).map(|kind| EtherType(u16::from_be_bytes([kind[0], kind[1]])));
    }
    if kind == Some(MPLS)
        && let Some(stack) = data.get(at + 2..)
    {
        return text + &labels(stack);
    }
    text + &inside(&packet).unwrap_or_else(|| other(kind))
}

/// MPLS, unicast (RFC 3032, section 5).
const MPLS: EtherType = EtherType(0x8847);

/// A label stack, and the IP packet behind it (RFC 3032, section 2.1).
fn labels(mut stack: &[u8]) -> String {
    let mut text = "MPLS".to_owned();
    while let [high, middle, low, ttl, rest @ ..] = stack {
        let label = u32::from_be_bytes([0, *high, *middle, *low]) >> 4;
        let _ = write!(text, " (label {label}, tc {}, ttl {ttl})", low >> 1 & 7);
        stack = rest;
        if low & 1 == 1 {
            let inside = ip(rest).unwrap_or_else(|| format!("length {}", rest.len()));
            return format!("{text}, {inside}");
        }
    }
    format!("{text}, cut off")
}

/// IP protocol number of GRE.
const GRE: u8 = 47;

/// A GRE header, and the packet behind it (RFC 2784, section 2; RFC 2890, section 2).
fn gre(data: &[u8]) -> Option<String> {
    let [flags, _, high, low, rest @ ..] = data else { return None };
    let kind = u16::from_be_bytes([*high, *low]);
    let mut rest = if flags & 0x80 == 0 { rest } else { rest.get(4..)? };
    let mut text = "GRE".to_owned();
    if flags & 0x20 != 0 {
        let (key, behind) = rest.split_first_chunk::<4>()?;
        let _ = write!(text, ", key {}", u32::from_be_bytes(*key));
        rest = behind;
    }
    if flags & 0x10 != 0 {
        let (number, behind) = rest.split_first_chunk::<4>()?;
        let _ = write!(text, ", seq {}", u32::from_be_bytes(*number));
        rest = behind;
    }
    let inside = match kind {
        0x0800 | 0x86dd => ip(rest),
        // Transparent Ethernet bridging.
        0x6558 => Some(frame(rest)),
        _ => None,
    };
    Some(format!("{text}, {}", inside.unwrap_or_else(|| other(Some(EtherType(kind))))))
}

/// The contents of an IP packet without a frame; `None` if it is no IP packet.
pub fn ip(data: &[u8]) -> Option<String> {
    inside(&LaxSlicedPacket::from_ip(data).ok()?)
}

fn other(kind: Option<EtherType>) -> String {
    match kind {
        Some(EtherType(number)) => format!("ethertype 0x{number:04x}"),
        None => "no frame".to_owned(),
    }
}

fn inside(packet: &LaxSlicedPacket<'_>) -> Option<String> {
    let (from, to, protocol, payload_bytes, hops): (IpAddr, IpAddr, u8, &[u8], String) =
        match packet.net.as_ref()? {
            LaxNetSlice::Arp(arp) => return Some(arp_line(arp)),
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                let fragment = match (header.fragments_offset().value(), header.more_fragments()) {
                    (0, false) => String::new(),
                    (offset, more) => {
                        format!(", fragment at {}{}", offset * 8, if more { "+" } else { "" })
                    }
                };
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                    header.protocol().0,
                    ip.payload().payload,
                    format!("ttl {}{fragment}", header.ttl()),
                )
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                    ip.payload().ip_number.0,
                    ip.payload().payload,
                    format!("hlim {}", header.hop_limit()),
                )
            }
        };
    let family = if from.is_ipv4() { "IP" } else { "IP6" };
    let payload = |bytes: &[u8]| format!("length {}", bytes.len());
    Some(match &packet.transport {
        Some(TransportSlice::Udp(udp)) => format!(
            "{family} {from}.{} > {to}.{}: UDP, {}, {hops}",
            udp.source_port(),
            udp.destination_port(),
            payload(udp.payload())
        ),
        Some(TransportSlice::Tcp(tcp)) => {
            let flags: String = [
                (tcp.syn(), 'S'),
                (tcp.fin(), 'F'),
                (tcp.rst(), 'R'),
                (tcp.psh(), 'P'),
                (tcp.urg(), 'U'),
                (tcp.ack(), '.'),
            ]
            .iter()
            .filter_map(|(set, letter)| set.then_some(*letter))
            .collect();
            format!(
                "{family} {from}.{} > {to}.{}: TCP [{flags}], seq {}, ack {}, win {}, {}, {hops}",
                tcp.source_port(),
                tcp.destination_port(),
                tcp.sequence_number(),
                tcp.acknowledgment_number(),
                tcp.window_size(),
                payload(tcp.payload())
            )
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            let what = icmp4(&icmp.icmp_type());
            format!("{family} {from} > {to}: ICMP {what}, {}, {hops}", payload(icmp.payload()))
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            let what = icmp6(&icmp.icmp_type(), icmp.payload());
            format!("{family} {from} > {to}: ICMP6 {what}, {hops}")
        }
        _ => {
            let tunnel = if protocol == GRE { gre(payload_bytes) } else { None };
            let what = tunnel.unwrap_or_else(|| format!("protocol {protocol}"));
            format!("{family} {from} > {to}: {what}, {hops}")
        }
    })
}

fn icmp4(kind: &Icmpv4Type) -> String {
    match kind {
        Icmpv4Type::EchoRequest(echo) => format!("echo request, id {}, seq {}", echo.id, echo.seq),
        Icmpv4Type::EchoReply(echo) => format!("echo reply, id {}, seq {}", echo.id, echo.seq),
        Icmpv4Type::DestinationUnreachable(why) => format!("unreachable, {why:?}"),
        Icmpv4Type::TimeExceeded(why) => format!("time exceeded, {why:?}"),
        Icmpv4Type::Redirect(to) => {
            format!("redirect to {}", Ipv4Addr::from(to.gateway_internet_address))
        }
        Icmpv4Type::Unknown { type_u8, code_u8, .. } => format!("type {type_u8}, code {code_u8}"),
        other => format!("{other:?}"),
    }
}

fn icmp6(kind: &Icmpv6Type, body: &[u8]) -> String {
    let target = || {
        let octets: Option<[u8; 16]> = body.get(..16).and_then(|bytes| bytes.try_into().ok());
        octets.map_or(String::new(), |octets| format!(" {}", Ipv6Addr::from(octets)))
    };
    match kind {
        Icmpv6Type::EchoRequest(echo) => format!("echo request, id {}, seq {}", echo.id, echo.seq),
        Icmpv6Type::EchoReply(echo) => format!("echo reply, id {}, seq {}", echo.id, echo.seq),
        Icmpv6Type::DestinationUnreachable(why) => format!("unreachable, {why:?}"),
        Icmpv6Type::PacketTooBig { mtu } => format!("packet too big, mtu {mtu}"),
        Icmpv6Type::TimeExceeded(why) => format!("time exceeded, {why:?}"),
        Icmpv6Type::NeighborSolicitation => format!("neighbour solicitation, who has{}", target()),
        Icmpv6Type::NeighborAdvertisement(_) => {
            format!("neighbour advertisement, tgt is{}", target())
        }
        Icmpv6Type::RouterSolicitation => "router solicitation".into(),
        Icmpv6Type::Unknown { type_u8, code_u8, .. } => format!("type {type_u8}, code {code_u8}"),
        other => format!("{other:?}"),
    }
}

fn arp_line(arp: &ArpPacketSlice<'_>) -> String {
    let address = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
        Ok(octets) => Ipv4Addr::from(octets).to_string(),
        Err(_) => mac(bytes),
    };
    let (from, to) = (address(arp.sender_protocol_addr()), address(arp.target_protocol_addr()));
    match arp.operation().0 {
        1 => format!("ARP, who has {to} tell {from}"),
        2 => format!("ARP, {from} is at {}", mac(arp.sender_hw_addr())),
        other => format!("ARP, operation {other}"),
    }
}

/// Time of day in UTC with microseconds, as `HH:MM:SS.ssssss`.
pub fn clock(ns_since_1970: u64) -> String {
    let seconds = ns_since_1970 / 1_000_000_000 % 86_400;
    let micros = ns_since_1970 % 1_000_000_000 / 1000;
    format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn lines() {
        let ethernet = || PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let v4 = || ethernet().ipv4([10, 0, 1, 2], [10, 0, 2, 2], 64);
        let built = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            write(&mut bytes);
            bytes
        };
        let head = "02:00:00:00:00:01 > 02:00:00:00:00:02, ";
        for (bytes, line) in [
            (
                built(&|to| v4().icmpv4_echo_request(7, 1).write(to, &[0; 56]).unwrap()),
                "IP 10.0.1.2 > 10.0.2.2: ICMP echo request, id 7, seq 1, length 56, ttl 64",
            ),
            (
                built(&|to| v4().udp(1000, 53).write(to, b"12345").unwrap()),
                "IP 10.0.1.2.1000 > 10.0.2.2.53: UDP, length 5, ttl 64",
            ),
            (
                built(&|to| {
                    ethernet()
                        .ipv6([0xfd; 16], [0xfc; 16], 9)
                        .tcp(1, 2, 3, 4)
                        .syn()
                        .write(to, &[])
                        .unwrap();
                }),
                "IP6 fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd.1 > \
                 fcfc:fcfc:fcfc:fcfc:fcfc:fcfc:fcfc:fcfc.2: TCP [S], seq 3, ack 0, win 4, length 0, hlim 9",
            ),
            (
                built(&|to| {
                    let inner = PacketBuilder::ipv4([10, 1, 0, 2], [10, 2, 0, 2], 9).udp(5, 6);
                    // Key and number; the inner packet is IPv4.
                    let mut tunnel = vec![0x30, 0, 0x08, 0, 0, 0, 0, 7, 0, 0, 0, 1];
                    inner.write(&mut tunnel, b"1").unwrap();
                    v4().write(to, etherparse::IpNumber(47), &tunnel).unwrap();
                }),
                "IP 10.0.1.2 > 10.0.2.2: GRE, key 7, seq 1, \
                 IP 10.1.0.2.5 > 10.2.0.2.6: UDP, length 1, ttl 9, ttl 64",
            ),
        ] {
            assert_eq!(frame(&bytes), format!("{head}{line}"));
            assert_eq!(ip(&bytes[14..]).as_deref(), Some(line));
            for cut in 0..bytes.len() {
                // A packet that is cut at any length gives a line.
                assert!(!frame(&bytes[..cut]).is_empty());
            }
        }
        assert_eq!(frame(&[0; 3]), "3 bytes, too short for a header");
        let mut stack = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        // Two VLAN tags, then the labels 100 and 16; the second label is the last.
        stack.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0x20, 10, 0x88, 0x47]);
        stack.extend([0x00, 0x06, 0x46, 63, 0x00, 0x01, 0x01, 62]);
        let line =
            "vlan 5, vlan 10, MPLS (label 100, tc 3, ttl 63) (label 16, tc 0, ttl 62), length 0";
        assert_eq!(frame(&stack), format!("{head}{line}"));
        assert!(
            frame(&stack[..27]).ends_with("(label 100, tc 3, ttl 63), cut off"),
            "{}",
            frame(&stack[..27])
        );
        assert_eq!(clock(86_399_000_001_000), "23:59:59.000001");
    }
}
