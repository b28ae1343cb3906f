//! The key of a packet, and marks on it, where it lies in its router's pool.
//!
//! The router may write there at any time. So it can make its own packets match another rule of its
//! slice. That is harmless: checks that protect others are on the copy.

use std::mem::offset_of;

use europa_filter::{Fields, Key, ipv4_key, ipv6_key};
use europa_packet::checksum::update_u16;
use europa_pool::Mapping;
use europa_pool::layout::{KEY_BYTES, Metadata};

use super::action::{CONGESTION, DSCP};

/// A packet's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketKey {
    V4(Key<2>),
    V6(Key<5>),
}

/// Bytes of a frame that are looked at: Ethernet, the longest header of IPv4 and ports; of IPv6,
/// some extension headers.
const LOOKED_AT: usize = 128;
const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// The key of a frame of `length` bytes at `place` in `memory`; `None` if it is not IP, or
/// truncated.
#[inline]
pub(super) fn key(
    memory: &Mapping,
    place: usize,
    length: usize,
    interface: u16,
) -> Option<PacketKey> {
    let mut bytes = [0; LOOKED_AT];
    let frame = bytes.get_mut(..length.min(LOOKED_AT))?;
    if !memory.copy_out(place, frame) {
        return None;
    }
    key_of(frame, interface)
}

/// The key that a router has written into the metadata of a slot, which begins at `place`.
#[inline]
pub(super) fn own_key(memory: &Mapping, place: usize) -> Option<Key<5>> {
    let mut bytes = [0; KEY_BYTES];
    memory.copy_out(place + offset_of!(Metadata, key), &mut bytes).then(|| words(&bytes))
}

/// A key's bytes as words, the first byte at the left.
pub fn words(bytes: &[u8; KEY_BYTES]) -> Key<5> {
    let mut key = [0; 5];
    for (word, bytes) in key.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    key
}

fn key_of(frame: &[u8], interface: u16) -> Option<PacketKey> {
    let packet = frame.get(ETHERNET..)?;
    match *frame.get(12..14)?.first_chunk()? {
        IPV4 => ipv4(packet, interface),
        IPV6 => ipv6(packet, interface),
        _ => None,
    }
}

fn ipv4(packet: &[u8], interface: u16) -> Option<PacketKey> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let length = usize::from(header[0] & 0xf) * 4;
    if header[0] >> 4 != 4 || length < 20 {
        return None;
    }
    let mut fields = Fields {
        protocol: header[9],
        dscp: header[1] >> 2,
        later_fragment: u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0,
        interface,
        ..Fields::default()
    };
    if !fields.later_fragment {
        transport(&mut fields, packet.get(length..).unwrap_or_default());
    }
    let [.., a, b, c, d, e, f, g, h] = *header;
    Some(PacketKey::V4(ipv4_key([a, b, c, d].into(), [e, f, g, h].into(), &fields)))
}

fn ipv6(packet: &[u8], interface: u16) -> Option<PacketKey> {
    let header: &[u8; 40] = packet.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let mut fields = Fields {
        dscp: (u16::from_be_bytes([header[0], header[1]]) >> 6) as u8 & 0x3f,
        interface,
        ..Fields::default()
    };
    let (mut next, mut rest) = (header[6], &packet[40..]);
    loop {
        let length = match (next, rest) {
            // Hop-by-hop options, routing, destination options.
            (0 | 43 | 60, [_, length, ..]) => (usize::from(*length) + 1) * 8,
            // Authentication (RFC 4302 section 2.2).
            (51, [_, length, ..]) => (usize::from(*length) + 2) * 4,
            (44, [_, _, high, low, ..]) => {
                fields.later_fragment = u16::from_be_bytes([*high, *low]) >> 3 != 0;
                8
            }
            _ => break,
        };
        next = rest[0];
        rest = rest.get(length..).unwrap_or_default();
    }
    fields.protocol = next;
    if !fields.later_fragment {
        transport(&mut fields, rest);
    }
    let address = |at: usize| -> Option<[u8; 16]> { header.get(at..at + 16)?.try_into().ok() };
    Some(PacketKey::V6(ipv6_key(address(8)?.into(), address(24)?.into(), &fields)))
}

/// Ports and flags.
#[inline]
fn transport(fields: &mut Fields, header: &[u8]) {
    // TCP, UDP, DCCP, SCTP, UDP-Lite have their ports at the same place.
    if !matches!(fields.protocol, 6 | 17 | 33 | 132 | 136) {
        return;
    }
    if let Some([a, b, c, d]) = header.first_chunk() {
        fields.source_port = u16::from_be_bytes([*a, *b]);
        fields.destination_port = u16::from_be_bytes([*c, *d]);
    }
    if fields.protocol == 6
        && let Some(flags) = header.get(13)
    {
        fields.tcp_flags = *flags;
    }
}

/// The byte of the traffic class once it is marked.
fn marked(class: u8, mark: u8) -> u8 {
    let class = if mark & DSCP != 0 { mark << 2 | class & 3 } else { class };
    // Packets of flows without ECN must not be marked (RFC 3168 section 5).
    if mark & CONGESTION != 0 && class & 3 != 0 { class | 3 } else { class }
}

/// Marks a frame of this length, if it is IP.
pub(super) fn mark(memory: &Mapping, place: usize, length: usize, mark: u8) {
    let mut frame = [0; ETHERNET + 20];
    if length >= frame.len() && memory.copy_out(place, &mut frame) && mark_header(&mut frame, mark)
    {
        memory.copy_in(place + ETHERNET, &frame[ETHERNET..]);
    }
}

/// Whether something has changed.
fn mark_header(frame: &mut [u8; ETHERNET + 20], mark: u8) -> bool {
    let [first, second, ..] = frame[ETHERNET..] else { return false };
    let old = u16::from_be_bytes([first, second]);
    let is_v4 = frame[12..14] == IPV4;
    if !is_v4 && frame[12..14] != IPV6 {
        return false;
    }
    let class = if is_v4 { second } else { (old >> 4) as u8 };
    let class = marked(class, mark);
    let new =
        if is_v4 { old & 0xff00 | u16::from(class) } else { old & 0xf00f | u16::from(class) << 4 };
    frame[ETHERNET..ETHERNET + 2].copy_from_slice(&new.to_be_bytes());
    if is_v4 {
        let checksum = u16::from_be_bytes([frame[ETHERNET + 10], frame[ETHERNET + 11]]);
        let checksum = update_u16(checksum, old, new);
        frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
    }
    new != old
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &kind, packet].concat()
    }

    fn ipv4_packet(protocol: u8, options: usize, offset: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x45 + options as u8 / 4;
        packet[1] = 46 << 2 | 1;
        packet[6..8].copy_from_slice(&offset.to_be_bytes());
        packet[9] = protocol;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(payload);
        packet
    }

    const TCP: [u8; 14] = [0x12, 0x34, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12];

    #[test]
    fn keys() {
        let tcp = Fields {
            source_port: 0x1234,
            destination_port: 443,
            protocol: 6,
            tcp_flags: 0x12,
            dscp: 46,
            later_fragment: false,
            interface: 3,
        };
        let no_ports = Fields { source_port: 0, destination_port: 0, tcp_flags: 0, ..tcp };
        let four = |fields: &Fields| {
            PacketKey::V4(ipv4_key([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), fields))
        };
        for (what, packet, wanted) in [
            ("TCP", ipv4_packet(6, 0, 0x4000, &TCP), Some(four(&tcp))),
            ("options", ipv4_packet(6, 40, 0x2000, &TCP), Some(four(&tcp))),
            (
                "a later fragment",
                ipv4_packet(6, 0, 0x2001, &TCP),
                Some(four(&Fields { later_fragment: true, ..no_ports })),
            ),
            ("ICMP", ipv4_packet(1, 0, 0, &TCP), Some(four(&Fields { protocol: 1, ..no_ports }))),
            ("cut behind its header", ipv4_packet(6, 0, 0, &[]), Some(four(&no_ports))),
            ("cut", ipv4_packet(6, 0, 0, &[])[..19].to_vec(), None),
            ("no header length", vec![0x44; 40], None),
        ] {
            assert_eq!(key_of(&frame(IPV4, &packet), 3), wanted, "{what}");
        }
        assert_eq!(key_of(&frame([0x08, 0x06], &[0; 40]), 3), None, "ARP");
        let mut header = [0; 40];
        header[..2].copy_from_slice(&(0x6000 | 46u16 << 6).to_be_bytes());
        header[6] = 6;
        (header[23], header[39]) = (1, 2);
        let six = |fields: &Fields| {
            Some(PacketKey::V6(ipv6_key("::1".parse().unwrap(), "::2".parse().unwrap(), fields)))
        };
        let plain = frame(IPV6, &[&header[..], &TCP].concat());
        assert_eq!(key_of(&plain, 3), six(&tcp));
        header[6] = 0;
        let hop = [60, 0, 0, 0, 0, 0, 0, 0, 44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (offset, wanted) in [(1u8, tcp), (8, Fields { later_fragment: true, ..no_ports })] {
            let fragment = [6, 0, 0, offset, 0, 0, 0, 0];
            let long = frame(IPV6, &[&header[..], &hop, &fragment, &TCP].concat());
            assert_eq!(key_of(&long, 3), six(&wanted), "offset {offset}");
        }
    }

    #[test]
    fn marks_keep_the_checksum_right() {
        let sum = |header: &[u8]| {
            let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
            let sum: u32 = words.sum();
            (sum & 0xffff) + (sum >> 16)
        };
        for (class, put, wanted) in [
            (46 << 2 | 1, DSCP | 10, 10 << 2 | 1),
            (46 << 2 | 1, CONGESTION, 46 << 2 | 3),
            (46 << 2, CONGESTION, 46 << 2),
            (2, DSCP | CONGESTION | 63, 63 << 2 | 3),
            (7, DSCP | 1, 7),
        ] {
            let mut packet = ipv4_packet(17, 0, 0, &[]);
            packet[1] = class;
            let checksum = !(sum(&packet) as u16);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            let mut bytes: [u8; 34] = frame(IPV4, &packet).try_into().unwrap();
            assert_eq!(mark_header(&mut bytes, put), class != wanted);
            assert_eq!(bytes[15], wanted);
            assert_eq!(sum(&bytes[14..]), 0xffff, "class {class}");
            let mut header = [0; 20];
            header[..2].copy_from_slice(&(0x6005 | u16::from(class) << 4).to_be_bytes());
            let mut bytes: [u8; 34] = frame(IPV6, &header).try_into().unwrap();
            mark_header(&mut bytes, put);
            assert_eq!(u16::from_be_bytes([bytes[14], bytes[15]]), 0x6005 | u16::from(wanted) << 4);
        }
    }
}
