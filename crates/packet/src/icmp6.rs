//! ICMPv6 (RFC 4443) and Neighbor Discovery (RFC 4861).

use std::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, MacAddr, ParseError};

/// Type of an ICMPv6 message. Can be matched against the constants.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct Icmp6Type(pub u8);

#[allow(missing_docs)]
impl Icmp6Type {
    pub const UNREACHABLE: Self = Self(1);
    pub const PACKET_TOO_BIG: Self = Self(2);
    pub const TIME_EXCEEDED: Self = Self(3);
    pub const PARAMETER_PROBLEM: Self = Self(4);
    pub const ECHO_REQUEST: Self = Self(128);
    pub const ECHO_REPLY: Self = Self(129);
    pub const ROUTER_SOLICITATION: Self = Self(133);
    pub const ROUTER_ADVERTISEMENT: Self = Self(134);
    pub const NEIGHBOR_SOLICITATION: Self = Self(135);
    pub const NEIGHBOR_ADVERTISEMENT: Self = Self(136);
    pub const REDIRECT: Self = Self(137);

    /// Whether a message of this type reports an error: no error may be sent
    /// about it (RFC 4443 section 2.4(e)).
    #[inline]
    pub fn is_error(self) -> bool {
        self.0 < 128
    }
}

/// Codes of [`Icmp6Type::UNREACHABLE`].
#[allow(missing_docs)]
pub mod unreachable {
    pub const NO_ROUTE: u8 = 0;
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 1;
    pub const BEYOND_SCOPE: u8 = 2;
    pub const ADDRESS: u8 = 3;
    pub const PORT: u8 = 4;
}

/// An ICMPv6 header.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct Icmp6Header {
    /// The kind of the message.
    pub kind: Icmp6Type,
    /// Its cause, by type.
    pub code: u8,
    /// Checksum over pseudo-header and message.
    pub checksum: U16,
    /// By type: identifier and sequence number, MTU, pointer, flags.
    pub rest: U32,
}

impl Header for Icmp6Header {}

/// A Neighbor Solicitation; options follow (RFC 4861 section 4.3).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct NeighborSolicitation {
    /// Type 135; `rest` is reserved.
    pub icmp: Icmp6Header,
    /// The address whose link-layer address is requested.
    pub target: [u8; 16],
}

impl Header for NeighborSolicitation {}

/// Flags of [`NeighborAdvertisement`], in `icmp.rest`.
pub mod neighbor_flag {
    /// The sender is a router.
    pub const ROUTER: u32 = 0x8000_0000;
    /// The advertisement answers a solicitation.
    pub const SOLICITED: u32 = 0x4000_0000;
    /// The link-layer address replaces the known one.
    pub const OVERRIDE: u32 = 0x2000_0000;
}

/// A Neighbor Advertisement; options follow (RFC 4861 section 4.4).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct NeighborAdvertisement {
    /// Type 136; `rest` holds [`neighbor_flag`]s.
    pub icmp: Icmp6Header,
    /// The owner of the link-layer address.
    pub target: [u8; 16],
}

impl Header for NeighborAdvertisement {}

/// A Router Solicitation; options follow (RFC 4861 section 4.1).
pub type RouterSolicitation = Icmp6Header;

/// A Router Advertisement; options follow (RFC 4861 section 4.2).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct RouterAdvertisement {
    /// The kind of the message.
    pub kind: Icmp6Type,
    /// 0.
    pub code: u8,
    /// Checksum over pseudo-header and message.
    pub checksum: U16,
    /// Hop limit that hosts should use; 0 means unspecified.
    pub hop_limit: u8,
    /// Managed (0x80), other configuration (0x40).
    pub flags: u8,
    /// Time for which the sender is a default router, in seconds.
    pub lifetime_s: U16,
    /// Time for which a neighbour counts as reachable, in milliseconds.
    pub reachable_ms: U32,
    /// Time between solicitations, in milliseconds.
    pub retransmit_ms: U32,
}

impl Header for RouterAdvertisement {}

/// A Prefix Information option behind its type and length (RFC 4861 section 4.6.2).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct PrefixInformation {
    /// Length of the prefix in bits.
    pub prefix_len: u8,
    /// On-link (0x80), autonomous configuration (0x40).
    pub flags: u8,
    /// Time for which the prefix is on-link, in seconds.
    pub valid_s: U32,
    /// Time for which addresses derived from it are preferred, in seconds.
    pub preferred_s: U32,
    /// Reserved.
    pub reserved: U32,
    /// The prefix.
    pub prefix: [u8; 16],
}

impl Header for PrefixInformation {}

/// Types of Neighbor Discovery options.
#[allow(missing_docs)]
pub mod option {
    pub const SOURCE_LINK_LAYER: u8 = 1;
    pub const TARGET_LINK_LAYER: u8 = 2;
    pub const PREFIX_INFORMATION: u8 = 3;
    pub const MTU: u8 = 5;
}

/// A Neighbor Discovery option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    /// Link-layer address of the sender.
    SourceLinkLayer(MacAddr),
    /// Link-layer address of the target.
    TargetLinkLayer(MacAddr),
    /// A prefix of the link.
    Prefix(&'a PrefixInformation),
    /// MTU of the link in bytes.
    Mtu(u32),
    /// Any other option, or one that is too short for its type.
    Other {
        /// Its type.
        kind: u8,
        /// The bytes behind type and length.
        data: &'a [u8],
    },
}

/// Iterates over the options of a Neighbor Discovery message. Ends with an error at the first
/// option that does not fit: then the whole message must be ignored.
pub fn nd_options(bytes: &[u8]) -> NdOptions<'_> {
    NdOptions { bytes }
}

/// See [`nd_options`].
#[derive(Clone, Debug)]
pub struct NdOptions<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for NdOptions<'a> {
    type Item = Result<NdOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        const WHAT: &str = "Neighbor Discovery option";
        let bytes = self.bytes;
        let &kind = bytes.first()?;
        let length = bytes.get(1).map_or(0, |&units| usize::from(units) * 8);
        let Some((option, rest)) = bytes.split_at_checked(length).filter(|_| length > 0) else {
            self.bytes = &[];
            return Some(Err(if length == 0 {
                ParseError::Length { what: WHAT, found: length, least: 8 }
            } else {
                ParseError::Truncated { what: WHAT, have: bytes.len(), need: length }
            }));
        };
        self.bytes = rest;
        let data = option.get(2..).unwrap_or_default();
        let mac = || data.first_chunk().copied().map(MacAddr);
        let known = match kind {
            option::SOURCE_LINK_LAYER => mac().map(NdOption::SourceLinkLayer),
            option::TARGET_LINK_LAYER => mac().map(NdOption::TargetLinkLayer),
            option::PREFIX_INFORMATION => {
                PrefixInformation::parse(data).map(|(prefix, _)| NdOption::Prefix(prefix))
            }
            option::MTU => data
                .get(2..)
                .and_then(|rest| rest.first_chunk())
                .map(|mtu| NdOption::Mtu(u32::from_be_bytes(*mtu))),
            _ => None,
        };
        Some(Ok(known.unwrap_or(NdOption::Other { kind, data })))
    }
}

/// The group for solicitations of an address (RFC 4291 section 2.7.1).
#[inline]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    (GROUP | u128::from(address) & 0xff_ffff).into()
}

/// The Ethernet address of an IPv6 multicast group (RFC 2464 section 7).
#[inline]
pub fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_walked() {
        let mut bytes = vec![1, 1, 2, 0, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0, 5, 220, 3, 4, 64, 0xc0];
        bytes.extend([0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 0, 0x20, 1]);
        bytes.extend([0; 14]);
        bytes.extend([3, 1, 0, 0, 0, 0, 0, 0]);
        let options: Vec<_> = nd_options(&bytes).map(Result::unwrap).collect();
        assert_eq!(options[0], NdOption::SourceLinkLayer(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!(options[1], NdOption::Mtu(1500));
        let NdOption::Prefix(prefix) = options[2] else { panic!("{options:?}") };
        assert_eq!((prefix.prefix_len, prefix.flags), (64, 0xc0));
        assert_eq!((prefix.valid_s.get(), prefix.preferred_s.get()), (9, 8));
        assert_eq!(prefix.prefix[..2], [0x20, 1]);
        assert_eq!(options[3], NdOption::Other { kind: 3, data: &[0; 6] });
        assert_eq!(options.len(), 4);
    }

    #[test]
    fn broken_options_end_the_walk() {
        for bytes in [&[1][..], &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 2, 0, 0, 0, 0, 0, 0]] {
            let options: Vec<_> = nd_options(bytes).collect();
            assert_eq!(options.len(), 1, "{bytes:?}");
            assert!(options[0].is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn solicitations_go_to_the_group() {
        let group = solicited_node("2001:db8::1:800:200e:8c6c".parse().unwrap());
        assert_eq!(group, "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
        assert_eq!(multicast_mac(group).to_string(), "33:33:ff:0e:8c:6c");
    }

    #[test]
    fn messages_have_their_lengths() {
        assert_eq!((Icmp6Header::LEN, NeighborSolicitation::LEN), (8, 24));
        assert_eq!((NeighborAdvertisement::LEN, RouterAdvertisement::LEN), (24, 16));
        assert_eq!((RouterSolicitation::LEN, PrefixInformation::LEN), (8, 30));
        assert!(Icmp6Type::PACKET_TOO_BIG.is_error());
        assert!(!Icmp6Type::ECHO_REQUEST.is_error());
    }
}
