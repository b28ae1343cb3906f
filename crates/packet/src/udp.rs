//! UDP (RFC 768).

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Offset of the checksum in the header, in bytes.
pub const CHECKSUM_OFFSET: usize = 6;

/// A UDP header.
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
pub struct UdpHeader {
    /// Port of the sender.
    pub source: U16,
    /// Port of the receiver.
    pub destination: U16,
    /// Length of header and payload in bytes.
    pub len: U16,
    /// Checksum over pseudo-header, header and payload; 0 for no checksum over IPv4.
    pub checksum: U16,
}

impl Header for UdpHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_they_belong() {
        let bytes = [0x04, 0xd2, 0x00, 0x35, 0x00, 0x09, 0xab, 0xcd, 0xff];
        let (header, payload) = UdpHeader::parse(&bytes).unwrap();
        assert_eq!((header.source.get(), header.destination.get()), (1234, 53));
        assert_eq!((header.len.get(), header.checksum.get()), (9, 0xabcd));
        assert_eq!(payload, [0xff]);
        assert_eq!(std::mem::offset_of!(UdpHeader, checksum), CHECKSUM_OFFSET);
        assert!(UdpHeader::parse(&bytes[..7]).is_none());
    }
}
