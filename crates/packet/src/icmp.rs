//! ICMP (RFC 792).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Type of an ICMP message. Can be matched against the constants.
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
pub struct IcmpType(pub u8);

#[allow(missing_docs)]
impl IcmpType {
    pub const ECHO_REPLY: Self = Self(0);
    pub const UNREACHABLE: Self = Self(3);
    pub const SOURCE_QUENCH: Self = Self(4);
    pub const REDIRECT: Self = Self(5);
    pub const ECHO_REQUEST: Self = Self(8);
    pub const TIME_EXCEEDED: Self = Self(11);
    pub const PARAMETER_PROBLEM: Self = Self(12);
    pub const TIMESTAMP_REQUEST: Self = Self(13);
    pub const TIMESTAMP_REPLY: Self = Self(14);

    /// Whether a message of this type reports an error: no error may be sent
    /// about it (RFC 1122 section 3.2.2).
    #[inline]
    pub fn is_error(self) -> bool {
        matches!(
            self,
            Self::UNREACHABLE
                | Self::SOURCE_QUENCH
                | Self::REDIRECT
                | Self::TIME_EXCEEDED
                | Self::PARAMETER_PROBLEM
        )
    }
}

/// Codes of [`IcmpType::UNREACHABLE`].
#[allow(missing_docs)]
pub mod unreachable {
    pub const NET: u8 = 0;
    pub const HOST: u8 = 1;
    pub const PROTOCOL: u8 = 2;
    pub const PORT: u8 = 3;
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 13;
}

/// Codes of [`IcmpType::TIME_EXCEEDED`].
#[allow(missing_docs)]
pub mod time_exceeded {
    pub const TRANSIT: u8 = 0;
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`IcmpType::REDIRECT`].
#[allow(missing_docs)]
pub mod redirect {
    pub const NET: u8 = 0;
    pub const HOST: u8 = 1;
}

/// An ICMP header.
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
pub struct IcmpHeader {
    /// The kind of the message.
    pub kind: IcmpType,
    /// Its cause, by type.
    pub code: u8,
    /// Internet checksum of the message.
    pub checksum: U16,
    /// By type: identifier and sequence number, gateway, next-hop MTU, pointer.
    pub rest: U32,
}

impl Header for IcmpHeader {}

impl IcmpHeader {
    /// Identifier of an echo message.
    #[inline]
    pub fn identifier(&self) -> u16 {
        (self.rest.get() >> 16) as u16
    }

    /// Sequence number of an echo message.
    #[inline]
    pub fn sequence(&self) -> u16 {
        self.rest.get() as u16
    }

    /// MTU of the next hop, in [`unreachable::FRAGMENTATION_NEEDED`] (RFC 1191).
    #[inline]
    pub fn next_hop_mtu(&self) -> u16 {
        self.rest.get() as u16
    }

    /// The part after the checksum of an echo message.
    #[inline]
    pub fn echo(identifier: u16, sequence: u16) -> U32 {
        U32::new(u32::from(identifier) << 16 | u32::from(sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_they_belong() {
        let bytes = [8, 0, 0x12, 0x34, 0xab, 0xcd, 0x00, 0x07];
        let (header, rest) = IcmpHeader::parse(&bytes).unwrap();
        assert_eq!((header.kind, header.code), (IcmpType::ECHO_REQUEST, 0));
        assert_eq!(header.checksum.get(), 0x1234);
        assert_eq!((header.identifier(), header.sequence()), (0xabcd, 7));
        assert_eq!(IcmpHeader::echo(0xabcd, 7), header.rest);
        assert!(rest.is_empty());
    }

    #[test]
    fn only_errors_are_errors() {
        let errors: Vec<u8> = (0..=255).filter(|&kind| IcmpType(kind).is_error()).collect();
        assert_eq!(errors, [3, 4, 5, 11, 12]);
    }
}
