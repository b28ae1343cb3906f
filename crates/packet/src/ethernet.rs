//! Ethernet II frames and VLAN tags (IEEE 802.3, 802.1Q).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Smallest frame on the wire, without the frame check sequence.
pub const MIN_FRAME_LEN: usize = 60;

/// An Ethernet address. Its text form is `02:00:00:00:00:01`.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// No address.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether this is the broadcast address.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// Whether this is a group address; broadcast is one.
    #[inline]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this address can be a station's own: neither group nor zero.
    #[inline]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }

    /// Whether this address was not assigned by a manufacturer.
    #[inline]
    pub fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl MacAddr {
    /// The address as Click writes it: `02-00-00-00-00-0A`.
    pub fn dashed(self) -> String {
        let [a, b, c, d, e, g] = self.0;
        format!("{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason why a text is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacAddrError {
    /// The number of parts is not six.
    #[error("Ethernet address \"{text}\" has {found} bytes, 6 wanted, as in 02:00:00:00:00:01")]
    Count {
        /// The text.
        text: String,
        /// Its number of parts.
        found: usize,
    },
    /// A part is not a byte in hexadecimal.
    #[error("Ethernet address \"{text}\": \"{part}\" is not one or two hexadecimal digits")]
    Digits {
        /// The text.
        text: String,
        /// The part of it that is wrong.
        part: String,
    },
}

impl FromStr for MacAddr {
    type Err = MacAddrError;

    /// Six hexadecimal bytes with `:` or `-` between them.
    fn from_str(text: &str) -> Result<Self, MacAddrError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let found = text.split(separator).count();
        if found != 6 {
            return Err(MacAddrError::Count { text: text.into(), found });
        }
        let mut bytes = [0; 6];
        for (byte, part) in bytes.iter_mut().zip(text.split(separator)) {
            let digits =
                (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
            *byte = match u8::from_str_radix(part, 16) {
                Ok(value) if digits => value,
                _ => return Err(MacAddrError::Digits { text: text.into(), part: part.into() }),
            };
        }
        Ok(Self(bytes))
    }
}

impl Serialize for MacAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Protocol of a frame's payload, in network byte order. Can be matched against the constants.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct EtherType(pub [u8; 2]);

#[allow(missing_docs)]
impl EtherType {
    pub const IPV4: Self = Self::new(0x0800);
    pub const ARP: Self = Self::new(0x0806);
    pub const VLAN: Self = Self::new(0x8100);
    pub const IPV6: Self = Self::new(0x86dd);
    pub const MPLS: Self = Self::new(0x8847);
    pub const MPLS_MULTICAST: Self = Self::new(0x8848);
    /// Outer tag of IEEE 802.1ad (provider bridges).
    pub const SERVICE_VLAN: Self = Self::new(0x88a8);
    /// IEEE Std 802 local experimental.
    pub const EXPERIMENTAL: Self = Self::new(0x88b5);

    /// The type with this number.
    #[inline]
    pub const fn new(number: u16) -> Self {
        Self(number.to_be_bytes())
    }

    /// The number. Below 0x600 it is a length (IEEE 802.3), not a type.
    #[inline]
    pub const fn get(self) -> u16 {
        u16::from_be_bytes(self.0)
    }

    /// Whether a [`VlanTag`] follows.
    #[inline]
    pub fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.get())
    }
}

/// An Ethernet II header.
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
pub struct EthernetHeader {
    /// Destination.
    pub destination: MacAddr,
    /// Source.
    pub source: MacAddr,
    /// The protocol of the payload.
    pub ether_type: EtherType,
}

impl Header for EthernetHeader {}

/// The bytes behind the type of a tag, IEEE 802.1Q: the tag's control information and the type of
/// the payload.
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
pub struct VlanTag {
    /// Priority (3 bits), drop eligible (1 bit), VLAN id (12 bits).
    pub control: U16,
    /// The protocol of the payload.
    pub ether_type: EtherType,
}

impl Header for VlanTag {}

impl VlanTag {
    /// VLAN id, 0 to 4095.
    #[inline]
    pub fn id(&self) -> u16 {
        self.control.get() & 0x0fff
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub fn priority(&self) -> u8 {
        self.control.to_bytes()[0] >> 5
    }
}

/// Type and offset of the payload of `frame`, behind at most two VLAN tags, and
/// the id of the outermost tag.
#[inline]
pub fn payload(frame: &[u8]) -> Option<(EtherType, usize, Option<u16>)> {
    let mut ether_type = EthernetHeader::at(frame, 0)?.ether_type;
    let mut offset = EthernetHeader::LEN;
    let mut vlan = None;
    for _ in 0..2 {
        if !ether_type.is_vlan() {
            break;
        }
        let tag = VlanTag::at(frame, offset)?;
        vlan = vlan.or(Some(tag.id()));
        ether_type = tag.ether_type;
        offset += VlanTag::LEN;
    }
    Some((ether_type, offset, vlan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_written() {
        let accepted = [
            ("02:00:00:00:00:01", "02:00:00:00:00:01"),
            ("2:0:0:0:0:1", "02:00:00:00:00:01"),
            ("AA-bb-CC-dd-EE-ff", "aa:bb:cc:dd:ee:ff"),
        ];
        for (text, written) in accepted {
            let address: MacAddr = text.parse().expect(text);
            assert_eq!(address.to_string(), written);
            let json = serde_json::to_string(&address).unwrap();
            assert_eq!(json, format!("\"{written}\""));
            assert_eq!(serde_json::from_str::<MacAddr>(&json).unwrap(), address);
        }
        let refused = [
            ("", "has 1 bytes"),
            ("02:00:00:00:00", "has 5 bytes"),
            ("02:00:00:00:00:01:02", "has 7 bytes"),
            ("02:00:00:00:00:0g", "\"0g\""),
            ("02:00:00:00:00:+1", "\"+1\""),
            ("02::00:00:00:01", "\"\""),
            ("002:00:00:00:00:01", "\"002\""),
        ];
        for (text, complaint) in refused {
            let error = text.parse::<MacAddr>().expect_err(text).to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn kinds_of_address() {
        // address, broadcast, multicast, unicast, local
        let table = [
            ([0xff; 6], true, true, false, true),
            ([0; 6], false, false, false, false),
            ([0x01, 0, 0x5e, 0, 0, 1], false, true, false, false),
            ([0x02, 0, 0, 0, 0, 1], false, false, true, true),
        ];
        for (bytes, broadcast, multicast, unicast, local) in table {
            let address = MacAddr(bytes);
            assert_eq!(
                (address.is_broadcast(), address.is_multicast()),
                (broadcast, multicast),
                "{address}"
            );
            assert_eq!((address.is_unicast(), address.is_local()), (unicast, local), "{address}");
        }
    }

    #[test]
    fn payload_behind_tags() {
        let mut frame = vec![0; 12];
        frame.extend([0x88, 0xa8, 0x20, 0x07, 0x81, 0x00, 0x00, 0x08, 0x08, 0x00]);
        assert_eq!(payload(&frame), Some((EtherType::IPV4, 22, Some(7))));
        assert_eq!(VlanTag::at(&frame, 14).unwrap().priority(), 1);
        for length in 0..22 {
            assert_eq!(payload(&frame[..length]), None, "{length} bytes");
        }
    }
}
