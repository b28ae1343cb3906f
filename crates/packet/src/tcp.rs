//! TCP (RFC 9293).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Offset of the checksum in the header, in bytes.
pub const CHECKSUM_OFFSET: usize = 16;

/// Bits of [`TcpHeader::flags`].
#[allow(missing_docs)]
pub mod flag {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// A TCP header without its options.
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
pub struct TcpHeader {
    /// Port of the sender.
    pub source: U16,
    /// Port of the receiver.
    pub destination: U16,
    /// Sequence number.
    pub sequence: U32,
    /// Acknowledgement number.
    pub acknowledgement: U32,
    /// Header length in units of 4 bytes (4 bits), reserved (4 bits).
    pub data_offset: u8,
    /// See [`flag`].
    pub flags: u8,
    /// Receive window.
    pub window: U16,
    /// Checksum over pseudo-header, header and payload.
    pub checksum: U16,
    /// Urgent pointer.
    pub urgent: U16,
}

impl Header for TcpHeader {}

impl TcpHeader {
    /// Length of the header with its options in bytes, 0 to 60. Below 20 the
    /// segment is malformed.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.data_offset >> 4) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_they_belong() {
        let bytes: Vec<u8> = (0..21).collect();
        let (header, rest) = TcpHeader::parse(&bytes).unwrap();
        assert_eq!((header.source.get(), header.destination.get()), (0x0001, 0x0203));
        assert_eq!(
            (header.sequence.get(), header.acknowledgement.get()),
            (0x0405_0607, 0x0809_0a0b)
        );
        assert_eq!((header.data_offset, header.flags), (0x0c, 0x0d));
        assert_eq!((header.window.get(), header.checksum.get()), (0x0e0f, 0x1011));
        assert_eq!((header.urgent.get(), rest), (0x1213, &[0x14][..]));
        assert_eq!(std::mem::offset_of!(TcpHeader, checksum), CHECKSUM_OFFSET);
        assert_eq!(TcpHeader { data_offset: 0xf0, ..*header }.header_len(), 60);
        assert!(TcpHeader::parse(&bytes[..19]).is_none());
    }
}
