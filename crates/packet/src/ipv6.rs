//! IPv6 and its extension headers (RFC 8200).

use std::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, IpProtocol, ParseError};

/// Smallest MTU of a link that carries IPv6, in bytes.
pub const MIN_MTU: usize = 1280;

/// Extension headers that [`Ipv6Packet::upper`] walks at most; RFC 8200 section
/// 4.1 recommends an order with seven.
pub const MAX_EXTENSIONS: usize = 8;

/// An IPv6 header.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub version_class_flow: U32,
    /// Length of the bytes after this header.
    pub payload_len: U16,
    /// The next header.
    pub next_header: IpProtocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl Header for Ipv6Header {}

impl Ipv6Header {
    /// A header for `payload_len` bytes; `None` if they are too many. Hop limit 64.
    pub fn new(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_header: IpProtocol,
        payload_len: usize,
    ) -> Option<Self> {
        Some(Self {
            version_class_flow: U32::new(6 << 28),
            payload_len: U16::new(u16::try_from(payload_len).ok()?),
            next_header,
            hop_limit: 64,
            source: source.octets(),
            destination: destination.octets(),
        })
    }

    /// Version field; 6.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_class_flow.to_bytes()[0] >> 4
    }

    /// Traffic class: differentiated services (6 bits), congestion (2 bits).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0xf_ffff
    }

    /// Source address.
    #[inline]
    pub fn source_addr(&self) -> Ipv6Addr {
        self.source.into()
    }

    /// Destination address.
    #[inline]
    pub fn destination_addr(&self) -> Ipv6Addr {
        self.destination.into()
    }

    /// Decrements the hop limit. If it is 0 or 1, returns false and changes nothing.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> bool {
        if self.hop_limit <= 1 {
            return false;
        }
        self.hop_limit -= 1;
        true
    }
}

/// A Fragment header (RFC 8200 section 4.5).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct FragmentHeader {
    /// The next header.
    pub next_header: IpProtocol,
    /// Reserved.
    pub reserved: u8,
    /// Offset in units of 8 bytes (13 bits), reserved (2), more fragments (1).
    pub offset_more: U16,
    /// Identification, for reassembly.
    pub id: U32,
}

impl Header for FragmentHeader {}

impl FragmentHeader {
    /// Offset of this fragment's payload in that of the packet, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        usize::from(self.offset_more.get() & 0xfff8)
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.offset_more.get() & 1 != 0
    }
}

/// An IPv6 packet whose length agrees with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Packet<'a> {
    /// The header.
    pub header: &'a Ipv6Header,
    /// The bytes behind the header, without padding behind the packet.
    pub payload: &'a [u8],
}

/// The part behind a packet's extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// The protocol of the payload. It is an extension header only if that header cannot be skipped
    /// (ESP, no next header).
    pub protocol: IpProtocol,
    /// Length of the extension headers in bytes.
    pub extensions_len: usize,
    /// The bytes behind the extension headers. In a fragment other than the first, these are from
    /// the middle of the payload.
    pub payload: &'a [u8],
    /// The Fragment header, if there is one. At a fragment other than the first, no further header
    /// is read.
    pub fragment: Option<&'a FragmentHeader>,
}

impl<'a> Ipv6Packet<'a> {
    /// Checks version and length of the packet at the front of `bytes`.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        const WHAT: &str = "IPv6 packet";
        let (header, rest) = Ipv6Header::parse(bytes).ok_or(ParseError::Truncated {
            what: WHAT,
            have: bytes.len(),
            need: Ipv6Header::LEN,
        })?;
        if header.version() != 6 {
            return Err(ParseError::Version { what: WHAT, found: header.version(), want: 6 });
        }
        let length = usize::from(header.payload_len.get());
        let payload = rest.get(..length).ok_or(ParseError::Truncated {
            what: WHAT,
            have: bytes.len(),
            need: Ipv6Header::LEN + length,
        })?;
        Ok(Self { header, payload })
    }

    /// Walks over at most [`MAX_EXTENSIONS`] extension headers.
    #[inline]
    pub fn upper(&self) -> Result<Upper<'a>, ParseError> {
        const WHAT: &str = "IPv6 extension header";
        let mut upper = Upper {
            protocol: self.header.next_header,
            extensions_len: 0,
            payload: self.payload,
            fragment: None,
        };
        for _ in 0..=MAX_EXTENSIONS {
            let bytes = upper.payload;
            let truncated = |need| ParseError::Truncated { what: WHAT, have: bytes.len(), need };
            let length = match upper.protocol {
                IpProtocol::HOP_BY_HOP
                | IpProtocol::ROUTING
                | IpProtocol::DESTINATION_OPTIONS
                | IpProtocol::MOBILITY => usize::from(*bytes.get(1).ok_or(truncated(8))?) * 8 + 8,
                // The length is in units of 4 bytes, less 2 (RFC 4302 section 2.2).
                IpProtocol::AUTHENTICATION => {
                    usize::from(*bytes.get(1).ok_or(truncated(8))?) * 4 + 8
                }
                IpProtocol::FRAGMENT => {
                    let (fragment, _) =
                        FragmentHeader::parse(bytes).ok_or(truncated(FragmentHeader::LEN))?;
                    upper.fragment = Some(fragment);
                    FragmentHeader::LEN
                }
                _ => return Ok(upper),
            };
            let (extension, payload) = bytes.split_at_checked(length).ok_or(truncated(length))?;
            upper.protocol = IpProtocol(*extension.first().ok_or(truncated(1))?);
            upper.extensions_len += length;
            upper.payload = payload;
            if upper.fragment.is_some_and(|fragment| fragment.offset() > 0) {
                return Ok(upper);
            }
        }
        Err(ParseError::TooMany { what: WHAT, most: MAX_EXTENSIONS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(next_header: IpProtocol, payload: &[u8]) -> Vec<u8> {
        let header =
            Ipv6Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, next_header, payload.len());
        [header.unwrap().as_bytes(), payload].concat()
    }

    #[test]
    fn fields_are_where_they_belong() {
        let mut bytes = packet(IpProtocol::UDP, &[]);
        bytes[..4].copy_from_slice(&[0x6a, 0xb1, 0x23, 0x45]);
        let (header, _) = Ipv6Header::parse_mut(&mut bytes).unwrap();
        assert_eq!((header.version(), header.traffic_class()), (6, 0xab));
        assert_eq!(header.flow_label(), 0x12345);
        header.hop_limit = 2;
        assert!(header.decrement_hop_limit());
        assert!(!header.decrement_hop_limit());
        assert_eq!(header.hop_limit, 1);
    }

    #[test]
    fn lengths_are_checked() {
        let bytes = packet(IpProtocol::UDP, &[1, 2, 3]);
        for length in 0..bytes.len() {
            assert!(Ipv6Packet::parse(&bytes[..length]).is_err(), "{length} bytes");
        }
        let padded = [&bytes[..], &[0; 9]].concat();
        assert_eq!(Ipv6Packet::parse(&padded).unwrap().payload, [1, 2, 3]);
        let mut other = bytes;
        other[0] = 0x45;
        let error = Ipv6Packet::parse(&other).unwrap_err();
        assert_eq!(error, ParseError::Version { what: "IPv6 packet", found: 4, want: 6 });
    }

    #[test]
    fn extension_headers_are_walked() {
        use IpProtocol as P;
        let hop = |next: P| vec![next.0, 0, 1, 4, 0, 0, 0, 0];
        let fragment = |next: P, offset: u8| vec![next.0, 0, 0, offset, 0, 0, 0, 9];
        // first header, bytes, protocol and length found, or refusal
        let table = [
            ("none", P::UDP, vec![0; 8], Some((P::UDP, 0, false))),
            ("one", P::HOP_BY_HOP, [hop(P::ICMP6), vec![7]].concat(), Some((P::ICMP6, 8, false))),
            (
                "three",
                P::HOP_BY_HOP,
                [hop(P::ROUTING), hop(P::FRAGMENT), fragment(P::TCP, 1)].concat(),
                Some((P::TCP, 24, true)),
            ),
            (
                "authentication counts in fours",
                P::AUTHENTICATION,
                [vec![P::TCP.0, 1], vec![0; 10]].concat(),
                Some((P::TCP, 12, false)),
            ),
            (
                "the middle of a packet is not a header",
                P::FRAGMENT,
                fragment(P::DESTINATION_OPTIONS, 8),
                Some((P::DESTINATION_OPTIONS, 8, true)),
            ),
            ("empty", P::NO_NEXT, vec![], Some((P::NO_NEXT, 0, false))),
            ("cut", P::HOP_BY_HOP, vec![17], None),
            ("announces too much", P::HOP_BY_HOP, vec![17, 1, 0, 0, 0, 0, 0, 0], None),
            ("cut fragment", P::FRAGMENT, vec![17, 0, 0, 0, 0, 0, 0], None),
            ("endless", P::ROUTING, hop(P::ROUTING).repeat(9), None),
            (
                "just enough",
                P::ROUTING,
                [hop(P::ROUTING).repeat(7), hop(P::UDP)].concat(),
                Some((P::UDP, 64, false)),
            ),
        ];
        for (what, first, payload, found) in table {
            let bytes = packet(first, &payload);
            let upper = Ipv6Packet::parse(&bytes).unwrap().upper();
            let result = upper.ok().map(|u| (u.protocol, u.extensions_len, u.fragment.is_some()));
            assert_eq!(result, found, "{what}: {upper:?}");
        }
    }
}
