//! The headers of a frame: Ethernet, with one VLAN tag or none, and IP behind it.
//!
//! Each function returns `None` if the frame is too short or has another protocol. Headers are
//! views of the frame's bytes: a change of a header changes the packet.

use std::net::IpAddr;

use europa_packet::{
    EtherType, EthernetHeader, Header as _, Ipv4Header, Ipv6Header, MacAddr, checksum,
};

/// Bytes of an Ethernet header, and of a VLAN tag behind it.
const ETHERNET: usize = 14;
const TAG: usize = 4;

/// The type of a frame's payload, and where the payload begins: behind the Ethernet header and a VLAN
/// tag (IEEE 802.1Q, clause 9).
#[inline]
pub fn payload(frame: &[u8]) -> Option<(EtherType, usize)> {
    let kind = EthernetHeader::at(frame, 0)?.ether_type;
    if kind != EtherType::VLAN {
        return Some((kind, ETHERNET));
    }
    let inner = frame.get(ETHERNET + 2..ETHERNET + TAG)?.first_chunk()?;
    Some((EtherType(*inner), ETHERNET + TAG))
}

/// The Ethernet header.
#[inline]
pub fn ethernet(frame: &[u8]) -> Option<&EthernetHeader> {
    EthernetHeader::at(frame, 0)
}

/// The Ethernet header, mutable.
#[inline]
pub fn ethernet_mut(frame: &mut [u8]) -> Option<&mut EthernetHeader> {
    EthernetHeader::at_mut(frame, 0)
}

/// Exchanges source and destination address of a frame.
#[inline]
pub fn swap_macs(frame: &mut [u8]) -> Option<(MacAddr, MacAddr)> {
    let header = EthernetHeader::at_mut(frame, 0)?;
    std::mem::swap(&mut header.source, &mut header.destination);
    Some((header.source, header.destination))
}

/// The IPv4 header, without options.
#[inline]
pub fn ipv4(frame: &[u8]) -> Option<&Ipv4Header> {
    match payload(frame)? {
        (EtherType::IPV4, at) => Ipv4Header::at(frame, at).filter(|header| header.version() == 4),
        _ => None,
    }
}

/// The IPv4 header, mutable. The caller must update its checksum; see [`set_dscp`] and
/// [`checksum::update_u16`].
#[inline]
pub fn ipv4_mut(frame: &mut [u8]) -> Option<&mut Ipv4Header> {
    match payload(frame)? {
        (EtherType::IPV4, at) => {
            Ipv4Header::at_mut(frame, at).filter(|header| header.version() == 4)
        }
        _ => None,
    }
}

/// The IPv6 header.
#[inline]
pub fn ipv6(frame: &[u8]) -> Option<&Ipv6Header> {
    match payload(frame)? {
        (EtherType::IPV6, at) => Ipv6Header::at(frame, at),
        _ => None,
    }
}

/// The IPv6 header, mutable.
#[inline]
pub fn ipv6_mut(frame: &mut [u8]) -> Option<&mut Ipv6Header> {
    match payload(frame)? {
        (EtherType::IPV6, at) => Ipv6Header::at_mut(frame, at),
        _ => None,
    }
}

/// Source and destination address of an IP packet of either family.
#[inline]
pub fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    if let Some(header) = ipv4(frame) {
        return Some((header.source_addr().into(), header.destination_addr().into()));
    }
    let header = ipv6(frame)?;
    Some((header.source.into(), header.destination.into()))
}

/// Sets the code point (RFC 2474, six bits) of an IP packet of either family. It keeps the two bits
/// of ECN, and updates the checksum of IPv4 (RFC 1624). False if the frame contains no IP packet.
#[inline]
pub fn set_dscp(frame: &mut [u8], dscp: u8) -> bool {
    if let Some(header) = ipv4_mut(frame) {
        let old = u16::from_be_bytes([header.version_ihl, header.tos]);
        header.tos = dscp << 2 | header.tos & 3;
        let new = u16::from_be_bytes([header.version_ihl, header.tos]);
        header.checksum.set(checksum::update_u16(header.checksum.get(), old, new));
        return true;
    }
    let Some(header) = ipv6_mut(frame) else { return false };
    let old = header.version_class_flow.get();
    header.version_class_flow.set(old & !(0xfc << 20) | u32::from(dscp & 0x3f) << 22);
    true
}

#[cfg(test)]
mod tests {
    use europa_packet::Frame;

    use super::*;

    #[test]
    fn the_code_point_of_both_families_is_set() {
        let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let four = Frame::new(a, b).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tos(1);
        let mut four = four.udp(1, 2, b"x");
        assert!(set_dscp(&mut four, 46));
        assert_eq!(four[15], 46 << 2 | 1);
        assert!(checksum::verify(&four[14..34]));
        assert_eq!(addresses(&four).unwrap().1, IpAddr::from([10, 0, 0, 2]));

        let mut six = vec![0; 54];
        six[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        assert!(set_dscp(&mut six, 46));
        assert_eq!(six[14..18], [0x6b, 0x80, 0, 0]);
        assert!(!set_dscp(&mut [0; 60], 46) && !set_dscp(&mut [0; 5], 46));
    }

    #[test]
    fn a_vlan_tag_is_passed_over() {
        let mut frame = [0; 60];
        frame[12..18].copy_from_slice(&[0x81, 0, 0, 7, 8, 0]);
        assert_eq!(payload(&frame), Some((EtherType::IPV4, 18)));
        assert_eq!(payload(&frame[..16]), None);
    }

    #[test]
    fn addresses_of_ethernet_change_places() {
        let mut frame = [0; 14];
        frame[5] = 1;
        frame[11] = 2;
        let (source, destination) = swap_macs(&mut frame).unwrap();
        assert_eq!((source.0[5], destination.0[5]), (1, 2));
    }
}
