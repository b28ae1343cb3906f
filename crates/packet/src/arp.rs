//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{EtherType, Header, MacAddr};

/// Hardware type of Ethernet.
pub const HARDWARE_ETHERNET: u16 = 1;
/// Operation of a request.
pub const REQUEST: u16 = 1;
/// Operation of a reply.
pub const REPLY: u16 = 2;

/// An ARP packet for Ethernet and IPv4.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ArpPacket {
    /// [`HARDWARE_ETHERNET`].
    pub hardware: U16,
    /// [`EtherType::IPV4`].
    pub protocol: EtherType,
    /// 6.
    pub hardware_len: u8,
    /// 4.
    pub protocol_len: u8,
    /// [`REQUEST`] or [`REPLY`].
    pub operation: U16,
    /// Ethernet address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender.
    pub sender_ip: U32,
    /// Ethernet address of the target; meaningless in a request.
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: U32,
}

impl Header for ArpPacket {}

impl ArpPacket {
    /// A request for the Ethernet address of `target_ip`.
    pub fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Self {
            hardware: U16::new(HARDWARE_ETHERNET),
            protocol: EtherType::IPV4,
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(REQUEST),
            sender_mac,
            sender_ip: U32::new(sender_ip.into()),
            target_mac: MacAddr::ZERO,
            target_ip: U32::new(target_ip.into()),
        }
    }

    /// The reply to this request, which says that its target is at `mac`.
    pub fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: U16::new(REPLY),
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
            ..*self
        }
    }

    /// Whether the fixed fields have the values for Ethernet and IPv4.
    #[inline]
    pub fn is_ethernet_ipv4(&self) -> bool {
        self.hardware.get() == HARDWARE_ETHERNET
            && self.protocol == EtherType::IPV4
            && self.hardware_len == 6
            && self.protocol_len == 4
    }

    /// IPv4 address of the sender.
    #[inline]
    pub fn sender(&self) -> Ipv4Addr {
        self.sender_ip.get().into()
    }

    /// IPv4 address of the target.
    #[inline]
    pub fn target(&self) -> Ipv4Addr {
        self.target_ip.get().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_reply_are_bytes() {
        let request = ArpPacket::request(
            MacAddr([2, 0, 0, 0, 0, 1]),
            [10, 0, 0, 1].into(),
            [10, 0, 0, 2].into(),
        );
        let bytes =
            [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
        assert_eq!(request.as_bytes(), bytes);
        let reply = request.reply(MacAddr([2, 0, 0, 0, 0, 2]));
        let bytes =
            [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1];
        assert_eq!(reply.as_bytes(), bytes);
        let (parsed, rest) = ArpPacket::parse(&bytes).unwrap();
        assert_eq!((parsed, rest.len()), (&reply, 0));
        assert!(parsed.is_ethernet_ipv4());
        assert_eq!(parsed.sender(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(parsed.target(), Ipv4Addr::new(10, 0, 0, 1));
        assert!(ArpPacket::parse(&bytes[..27]).is_none());
    }
}
