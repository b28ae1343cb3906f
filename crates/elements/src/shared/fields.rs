//! Header fields by offset, and common changes of IP packets.
//!
//! The views of `europa-packet` need complete headers. Here packets may be truncated anywhere, as
//! in traces.

use europa_engine::Packet;
use europa_packet::{IpProtocol, checksum};
use europa_pool::packet::annotation;

/// `N` bytes at an offset.
#[inline(always)]
pub(crate) fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk().copied()
}

/// 16 bits at an offset.
#[inline(always)]
pub(crate) fn be16(data: &[u8], at: usize) -> Option<u16> {
    bytes(data, at).map(u16::from_be_bytes)
}

/// 32 bits at an offset.
#[inline(always)]
pub(crate) fn be32(data: &[u8], at: usize) -> Option<u32> {
    bytes(data, at).map(u32::from_be_bytes)
}

/// Writes bytes at an offset. `false`, and no change, if they do not fit.
#[inline(always)]
pub(crate) fn set<const N: usize>(data: &mut [u8], at: usize, value: [u8; N]) -> bool {
    match data.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        Some(place) => {
            *place = value;
            true
        }
        None => false,
    }
}

/// The IPv4 header at the front of bytes that are at least that long.
pub(crate) fn ip_header(data: &[u8]) -> Option<&[u8]> {
    let length = usize::from(data.first()? & 15) * 4;
    data.get(..length).filter(|header| header.len() >= 20)
}

/// Writes the checksum of the IPv4 header at the front. `false` if there is no header.
pub(crate) fn set_ip_checksum(data: &mut [u8]) -> bool {
    let Some(length) = ip_header(data).map(<[u8]>::len) else { return false };
    set(data, 10, [0; 2]);
    let check = data.get(..length).map_or(0, checksum::checksum);
    set(data, 10, check.to_be_bytes())
}

/// Sum of the pseudo-header of an IPv4 packet with `length` bytes behind its header.
fn pseudo(header: &[u8], length: usize) -> checksum::Sum {
    let address = |at| be32(header, at).unwrap_or(0);
    let protocol = IpProtocol(header.get(9).copied().unwrap_or(0));
    let destination = last_hop(header).unwrap_or(address(16));
    checksum::pseudo_v4(address(12).into(), destination.into(), protocol, length as u16)
}

/// The last address of a source route, if the header has one: checksums include it in place of the
/// present destination (RFC 1122 section 3.2.1.8).
fn last_hop(header: &[u8]) -> Option<u32> {
    let mut options = header.get(20..)?;
    loop {
        let length = match *options.first()? {
            0 => return None,
            1 => 1,
            kind => {
                let length = usize::from(*options.get(1)?);
                if matches!(kind, 131 | 137) && (7..=options.len()).contains(&length) {
                    return be32(options, length - 4);
                }
                length.max(2)
            }
        };
        options = options.get(length..)?;
    }
}

/// The value for a segment's checksum field, computed over the segment with the field itself: 0 if
/// the segment is intact. If the field is 0, it is the value to store.
pub(crate) fn segment_checksum(header: &[u8], segment: &[u8]) -> u16 {
    (pseudo(header, segment.len()) + checksum::sum(segment)).checksum()
}

/// A packet's IPv4 header and the bytes after it, if it has one.
pub(crate) fn network(packet: &Packet) -> Option<(&[u8], &[u8])> {
    let data = packet.network_header()?;
    let length = usize::from(data.first()? & 15) * 4;
    data.split_at_checked(length).filter(|(header, _)| header.len() >= 20)
}

/// Like [`network`], mutable.
pub(crate) fn network_mut(packet: &mut Packet) -> Option<(&mut [u8], &mut [u8])> {
    let data = packet.network_header_mut()?;
    let length = usize::from(data.first()? & 15) * 4;
    data.split_at_mut_checked(length).filter(|(header, _)| header.len() >= 20)
}

/// Whether an IPv4 header belongs to a fragment.
pub(crate) fn is_fragment(header: &[u8]) -> bool {
    be16(header, 6).is_some_and(|field| field & 0x3fff != 0)
}

/// Whether the IPv4 packet of this header contains a transport header.
pub(crate) fn is_first(header: &[u8]) -> bool {
    be16(header, 6).is_some_and(|field| field & 0x1fff == 0)
}

/// Sets the type of service except the bits outside `mask`, and updates the checksum.
pub(crate) fn set_tos(packet: &mut Packet, mask: u8, value: u8) {
    if let Some((header, _)) = network_mut(packet)
        && let (Some(old), Some(check)) = (be16(header, 0), be16(header, 10))
    {
        let new = old & !u16::from(mask) | u16::from(value & mask);
        set(header, 0, new.to_be_bytes());
        set(header, 10, checksum::update_u16(check, old, new).to_be_bytes());
    }
}

/// Writes an address into an IPv4 header (at offset 12 or 16), and updates its checksum and that of
/// TCP and UDP.
pub(crate) fn set_address(packet: &mut Packet, at: usize, address: [u8; 4]) -> bool {
    let Some(data) = packet.network_header_mut() else { return false };
    // The header may claim options that the packet does not contain.
    let length = data.first().map_or(0, |first| usize::from(first & 15) * 4).max(20);
    let (header, rest) = data.split_at_mut(length.min(data.len()));
    let (true, Some(old), Some(check)) = (header.len() >= 20, be32(header, at), be16(header, 10))
    else {
        return false;
    };
    let new = u32::from_be_bytes(address);
    set(header, at, address);
    set(header, 10, checksum::update_u32(check, old, new).to_be_bytes());
    if is_first(header) {
        let offset = match header.get(9) {
            Some(6) if rest.len() >= 20 => 16,
            Some(17) if rest.len() >= 8 && be16(rest, 6) != Some(0) => 6,
            _ => return true,
        };
        let check = checksum::update_u32(be16(rest, offset).unwrap_or(0), old, new);
        let check = if offset == 6 { checksum::udp(check) } else { check };
        set(rest, offset, check.to_be_bytes());
    }
    true
}

/// Adds zero bytes at the front of a packet; moves its contents if necessary.
pub(crate) fn grow_front(packet: &mut Packet, count: usize) -> Option<&mut [u8]> {
    if packet.headroom() < count {
        packet.set_headroom(count)?;
    }
    let front = packet.push(count)?;
    front.fill(0);
    Some(front)
}

/// Adds zero bytes at the end of a packet; moves its contents if necessary.
pub(crate) fn grow_tail(packet: &mut Packet, count: usize) -> Option<()> {
    if packet.tailroom() < count {
        let short = count - packet.tailroom();
        packet.set_headroom(packet.headroom().checked_sub(short)?)?;
    }
    packet.put(count)?.fill(0);
    Some(())
}

/// Annotations that have a meaning to several elements.
pub(crate) trait Annotations {
    /// Bytes missing from the end of the packet.
    fn extra_length(&self) -> u32;
    /// Sets them.
    fn set_extra_length(&mut self, bytes: u32);
    /// Number of packets that this one represents in addition to itself.
    fn extra_packets(&self) -> u32;
    /// Sets their number.
    fn set_extra_packets(&mut self, count: u32);
    /// Aggregate number.
    fn aggregate(&self) -> u32;
    /// Sets it.
    fn set_aggregate(&mut self, number: u32);
    /// Time of the first packet of a set, in nanoseconds since 1970.
    fn first_timestamp_ns(&self) -> u64;
    /// Sets it.
    fn set_first_timestamp_ns(&mut self, time_ns: u64);
}

impl Annotations for Packet {
    fn extra_length(&self) -> u32 {
        u32::from_ne_bytes(self.annotation(annotation::EXTRA_LENGTH))
    }

    fn set_extra_length(&mut self, bytes: u32) {
        // The usual packet has no extra length, and a write would touch another cache line.
        if bytes != self.extra_length() {
            self.set_annotation(annotation::EXTRA_LENGTH, bytes.to_ne_bytes());
        }
    }

    fn extra_packets(&self) -> u32 {
        u32::from_ne_bytes(self.annotation(annotation::EXTRA_PACKETS))
    }

    fn set_extra_packets(&mut self, count: u32) {
        if count != self.extra_packets() {
            self.set_annotation(annotation::EXTRA_PACKETS, count.to_ne_bytes());
        }
    }

    fn aggregate(&self) -> u32 {
        u32::from_ne_bytes(self.annotation(annotation::AGGREGATE))
    }

    fn set_aggregate(&mut self, number: u32) {
        self.set_annotation(annotation::AGGREGATE, number.to_ne_bytes());
    }

    fn first_timestamp_ns(&self) -> u64 {
        u64::from_ne_bytes(self.annotation(annotation::FIRST_TIMESTAMP))
    }

    fn set_first_timestamp_ns(&mut self, time_ns: u64) {
        self.set_annotation(annotation::FIRST_TIMESTAMP, time_ns.to_ne_bytes());
    }
}
