//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, IpProtocol, ParseError, checksum};

/// "Do not fragment" in [`Ipv4Header::flags_fragment`].
pub const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments follow" in [`Ipv4Header::flags_fragment`].
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Fragment offset, in units of 8 bytes, in [`Ipv4Header::flags_fragment`].
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

/// Option types (RFC 791 section 3.1, RFC 2113).
pub mod option {
    /// End of the option list; one byte.
    pub const END: u8 = 0;
    /// Padding; one byte.
    pub const NO_OPERATION: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Time stamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert, as RSVP sends it.
    pub const ROUTER_ALERT: u8 = 148;
}

/// An IPv4 header without its options.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (4 bits), header length in units of 4 bytes (4 bits).
    pub version_ihl: u8,
    /// Differentiated services (6 bits), congestion (2 bits).
    pub tos: u8,
    /// Length of header and payload in bytes.
    pub total_len: U16,
    /// Identification, for reassembly.
    pub id: U16,
    /// [`DONT_FRAGMENT`], [`MORE_FRAGMENTS`], [`FRAGMENT_OFFSET`].
    pub flags_fragment: U16,
    /// TTL, in hops.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: IpProtocol,
    /// Internet checksum of the header.
    pub checksum: U16,
    /// Source address.
    pub source: U32,
    /// Destination address.
    pub destination: U32,
}

impl Header for Ipv4Header {}

impl Ipv4Header {
    /// A header without options for `payload_len` bytes; `None` if they are too many. TTL 64, no
    /// flags, checksum set.
    pub fn new(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: IpProtocol,
        payload_len: usize,
    ) -> Option<Self> {
        let total_len = u16::try_from(Self::LEN.checked_add(payload_len)?).ok()?;
        let mut header = Self {
            version_ihl: 0x45,
            tos: 0,
            total_len: U16::new(total_len),
            id: U16::new(0),
            flags_fragment: U16::new(0),
            ttl: 64,
            protocol,
            checksum: U16::new(0),
            source: U32::new(source.into()),
            destination: U32::new(destination.into()),
        };
        header.checksum.set(checksum::checksum(header.as_bytes()));
        Some(header)
    }

    /// Version field; 4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Length of the header with its options in bytes, 0 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl & 0xf) * 4
    }

    /// Differentiated services code point.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Source address.
    #[inline]
    pub fn source_addr(&self) -> Ipv4Addr {
        self.source.get().into()
    }

    /// Destination address.
    #[inline]
    pub fn destination_addr(&self) -> Ipv4Addr {
        self.destination.get().into()
    }

    /// Whether the packet may not be fragmented.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_fragment.get() & DONT_FRAGMENT != 0
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_fragment.get() & MORE_FRAGMENTS != 0
    }

    /// Offset of this fragment's payload in that of the packet, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.flags_fragment.get() & FRAGMENT_OFFSET) * 8
    }

    /// Whether the packet is part of a larger one.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment.get() & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Whether the checksum is right, for a header without options.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        checksum::verify_20(zerocopy::transmute_ref!(self))
    }

    /// Decrements the TTL and adjusts the checksum (RFC 1624 equation 3). If the TTL is 0 or 1,
    /// returns false and changes nothing.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        if self.ttl <= 1 {
            return false;
        }
        self.ttl -= 1;
        self.checksum.set(checksum::decrement_high_byte(self.checksum.get()));
        true
    }

    /// Replaces the source by `address` and adjusts the header's checksum. Returns the former
    /// address, so that the transport checksum can be adjusted too.
    #[inline]
    pub fn set_source(&mut self, address: u32) -> u32 {
        let old = self.source.get();
        self.checksum.set(checksum::update_u32(self.checksum.get(), old, address));
        self.source.set(address);
        old
    }

    /// Like [`Ipv4Header::set_source`], for the destination.
    #[inline]
    pub fn set_destination(&mut self, address: u32) -> u32 {
        let old = self.destination.get();
        self.checksum.set(checksum::update_u32(self.checksum.get(), old, address));
        self.destination.set(address);
        old
    }
}

/// An IPv4 packet whose lengths are consistent with each other and with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Packet<'a> {
    /// The fixed part of the header.
    pub header: &'a Ipv4Header,
    /// Options, 0 to 40 bytes.
    pub options: &'a [u8],
    /// Payload, without padding behind the packet's total length.
    pub payload: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// Checks version and lengths of the packet at the front of `bytes`, not its
    /// checksum.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        const WHAT: &str = "IPv4 packet";
        let have = bytes.len();
        let truncated = |need| ParseError::Truncated { what: WHAT, have, need };
        let (header, _) = Ipv4Header::parse(bytes).ok_or(truncated(Ipv4Header::LEN))?;
        if header.version() != 4 {
            return Err(ParseError::Version { what: WHAT, found: header.version(), want: 4 });
        }
        let header_len = header.header_len();
        if header_len < Ipv4Header::LEN {
            return Err(ParseError::Length {
                what: "IPv4 header length",
                found: header_len,
                least: Ipv4Header::LEN,
            });
        }
        let total_len = usize::from(header.total_len.get());
        if total_len < header_len {
            return Err(ParseError::Length {
                what: "IPv4 total length",
                found: total_len,
                least: header_len,
            });
        }
        let packet = bytes.get(..total_len).ok_or(truncated(total_len))?;
        let (front, payload) = packet.split_at_checked(header_len).ok_or(truncated(header_len))?;
        let options = front.get(Ipv4Header::LEN..).unwrap_or_default();
        Ok(Self { header, options, payload })
    }

    /// Whether the header's checksum is right.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        if self.options.is_empty() {
            return self.header.checksum_is_valid();
        }
        (checksum::sum(self.header.as_bytes()) + checksum::sum(self.options)).is_valid()
    }

    /// The options, one after the other.
    pub fn options(&self) -> Options<'a> {
        Options { bytes: self.options, at: 0 }
    }
}

/// An option of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Type; see [`option`].
    pub kind: u8,
    /// Offset of the type byte from the start of the options, in bytes.
    pub offset: usize,
    /// The bytes behind type and length.
    pub data: &'a [u8],
}

/// Iterates over the options of an IPv4 header, without padding. Ends with an error at the first
/// option that does not fit.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.bytes.get(self.at) == Some(&option::NO_OPERATION) {
            self.at += 1;
        }
        let rest = self.bytes.get(self.at..)?;
        let (&kind, tail) = rest.split_first()?;
        if kind == option::END {
            return None;
        }
        let length = tail.first().map_or(0, |&length| usize::from(length));
        let Some(data) = rest.get(2..length) else {
            self.at = self.bytes.len();
            return Some(Err(if length < 2 {
                ParseError::Length { what: "IPv4 option", found: length, least: 2 }
            } else {
                ParseError::Truncated { what: "IPv4 option", have: rest.len(), need: length }
            }));
        };
        let offset = self.at;
        self.at += length;
        Some(Ok(Ipv4Option { kind, offset, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Ipv4Header {
        Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), IpProtocol::UDP, 0).unwrap()
    }

    #[test]
    fn lengths_are_checked() {
        // version and header length, total length, available bytes, refusal
        let table = [
            (0x45, 20, 20, None),
            (0x45, 20, 60, None),
            (0x46, 24, 24, None),
            (0x45, 20, 19, Some("19 bytes, 20 needed")),
            (0x65, 20, 20, Some("version 6, 4 wanted")),
            (0x44, 20, 20, Some("header length: length 16, at least 20")),
            (0x45, 19, 20, Some("total length: length 19, at least 20")),
            (0x46, 20, 24, Some("total length: length 20, at least 24")),
            (0x45, 21, 20, Some("20 bytes, 21 needed")),
            (0x4f, 60, 59, Some("59 bytes, 60 needed")),
        ];
        for (version_ihl, total_len, have, refusal) in table {
            let mut bytes = [0u8; 64];
            let (h, _) = Ipv4Header::parse_mut(&mut bytes).unwrap();
            *h = Ipv4Header { version_ihl, total_len: U16::new(total_len), ..header() };
            let result = Ipv4Packet::parse(&bytes[..have]);
            match refusal {
                None => {
                    let packet = result.unwrap();
                    assert_eq!(packet.options.len() + 20, packet.header.header_len());
                    assert!(packet.payload.is_empty());
                }
                Some(text) => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains(text), "{error}, not {text}");
                }
            }
        }
    }

    #[test]
    fn ttl_goes_down_and_checksum_stays_right() {
        for id in 0..=u16::MAX {
            let mut h = Ipv4Header { id: U16::new(id), ttl: 2, checksum: U16::new(0), ..header() };
            h.checksum.set(checksum::checksum(h.as_bytes()));
            assert!(h.decrement_ttl());
            assert!(checksum::verify(h.as_bytes()), "id {id}");
            assert!(h.checksum_is_valid(), "id {id}");
            let wrong = Ipv4Header { tos: 1, ..h };
            assert!(!wrong.checksum_is_valid(), "id {id}");
            let before = h;
            assert!(!h.decrement_ttl());
            assert_eq!(h, before);
        }
    }

    #[test]
    fn addresses_change_and_checksum_stays_right() {
        for address in [0, 1, 0xffff, 0xffff_0000, 0xffff_ffff, 0x0a00_0001] {
            let mut h = header();
            assert_eq!(h.set_source(address), 0x0a00_0001);
            assert_eq!(h.set_destination(address), 0x0a00_0002);
            assert!(checksum::verify(h.as_bytes()), "{address:x}");
        }
    }

    #[test]
    fn options_are_walked() {
        let walk = |bytes| -> Vec<_> { Options { bytes, at: 0 }.collect() };
        let good = walk(&[1, 148, 4, 0, 0, 7, 3, 4, 0, 9]);
        assert_eq!(
            good,
            [
                Ok(Ipv4Option { kind: option::ROUTER_ALERT, offset: 1, data: &[0, 0] }),
                Ok(Ipv4Option { kind: option::RECORD_ROUTE, offset: 5, data: &[4] }),
            ]
        );
        for bad in [&[7][..], &[7, 0], &[7, 1], &[7, 4, 0]] {
            let result = walk(bad);
            assert_eq!(result.len(), 1, "{bad:?}");
            assert!(result[0].is_err(), "{bad:?}");
        }
        assert_eq!(walk(&[1, 1, 1, 1]), []);
    }
}
