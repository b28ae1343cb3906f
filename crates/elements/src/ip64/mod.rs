//! Translation between IPv4 and IPv6.

use std::net::{Ipv4Addr, Ipv6Addr};

use europa_packet::{IpProtocol, checksum};

use crate::shared::fields::{be16, bytes, set};

pub(crate) mod address_translator;
pub(crate) mod protocol_translator46;
pub(crate) mod protocol_translator64;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
/// Bytes of the header of each family; options and extension headers are not translated.
const IP4_BYTES: usize = 20;
const IP6_BYTES: usize = 40;
/// Bytes of an ICMP header, of either family.
const ICMP_BYTES: usize = 8;

/// The IPv4 address inside an IPv6 address that has one: `::a.b.c.d` or `::ffff:a.b.c.d`.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, ..] = address.segments();
    let octets = address.octets();
    let ipv4 = Ipv4Addr::from(*octets.last_chunk::<4>()?);
    let embeds = [a, b, c, d, e] == [0; 5] && matches!(f, 0 | 0xffff);
    (embeds && !ipv4.is_unspecified()).then_some(ipv4)
}

/// The two addresses of an IPv6 header.
fn addresses6(header: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let address = |at| bytes::<16>(header, at).map(Ipv6Addr::from);
    Some((address(8)?, address(24)?))
}

/// The two addresses of an IPv4 header.
fn addresses4(header: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let address = |at| bytes::<4>(header, at).map(Ipv4Addr::from);
    Some((address(12)?, address(16)?))
}

/// Offset of a protocol's checksum in its segment.
fn checksum_offset(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        ICMP | ICMP6 => Some(2),
        _ => None,
    }
}

/// Sets the checksum of a segment over the sum of its pseudo header, if it has one.
fn set_checksum(segment: &mut [u8], protocol: u8, pseudo: Option<checksum::Sum>) {
    let Some(at) = checksum_offset(protocol) else { return };
    if !set(segment, at, [0; 2]) {
        return;
    }
    let own = checksum::sum(segment);
    let check = pseudo.map_or(own, |pseudo| pseudo + own).checksum();
    let check = if protocol == UDP { checksum::udp(check) } else { check };
    set(segment, at, check.to_be_bytes());
}

/// Sets the checksum of a segment behind an IPv6 header.
fn set_checksum6(header: &[u8], segment: &mut [u8], protocol: u8) {
    if let (Some((from, to)), Ok(length)) = (addresses6(header), u32::try_from(segment.len())) {
        let pseudo = checksum::pseudo_v6(from, to, IpProtocol(protocol), length);
        set_checksum(segment, protocol, Some(pseudo));
    }
}

/// Sets the checksum of a segment behind an IPv4 header.
fn set_checksum4(header: &[u8], segment: &mut [u8], protocol: u8) {
    if let (Some((from, to)), Ok(length)) = (addresses4(header), u16::try_from(segment.len())) {
        let pseudo = checksum::pseudo_v4(from, to, IpProtocol(protocol), length);
        set_checksum(segment, protocol, (protocol != ICMP).then_some(pseudo));
    }
}

/// The payload of an IPv6 packet, if the packet has as many bytes as its header says.
fn payload6(packet: &[u8]) -> Option<usize> {
    let length = usize::from(be16(packet, 4)?);
    (packet.first()? >> 4 == 6 && packet.len() >= IP6_BYTES + length).then_some(length)
}
