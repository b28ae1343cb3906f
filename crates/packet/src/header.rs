//! The common part of every header.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A fixed-size header that is a view of a packet's bytes.
///
/// Costs one length comparison; no byte is copied.
pub trait Header: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Sized {
    /// Length in bytes of the fixed part.
    const LEN: usize = size_of::<Self>();

    /// The header at the front of `bytes`, and the bytes after it.
    #[inline]
    fn parse(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        Self::ref_from_prefix(bytes).ok()
    }

    /// Like [`Header::parse`], mutable.
    #[inline]
    fn parse_mut(bytes: &mut [u8]) -> Option<(&mut Self, &mut [u8])> {
        Self::mut_from_prefix(bytes).ok()
    }

    /// The header that starts `offset` bytes into `bytes`.
    #[inline]
    fn at(bytes: &[u8], offset: usize) -> Option<&Self> {
        Self::ref_from_prefix(bytes.get(offset..)?).ok().map(|(header, _)| header)
    }

    /// Like [`Header::at`], mutable.
    #[inline]
    fn at_mut(bytes: &mut [u8], offset: usize) -> Option<&mut Self> {
        Self::mut_from_prefix(bytes.get_mut(offset..)?).ok().map(|(header, _)| header)
    }
}

/// The reason why bytes are not the expected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes end inside the header, or before the length that it announces.
    #[error("{what}: {have} bytes, {need} needed")]
    Truncated {
        /// The header or part that is cut off.
        what: &'static str,
        /// Available bytes.
        have: usize,
        /// Bytes needed at least.
        need: usize,
    },
    /// The version field is not that of the protocol.
    #[error("{what}: version {found}, {want} wanted")]
    Version {
        /// The header concerned.
        what: &'static str,
        /// Version in the packet.
        found: u8,
        /// The protocol's version.
        want: u8,
    },
    /// A length field contradicts the protocol or another length.
    #[error("{what}: length {found}, at least {least} wanted")]
    Length {
        /// The length field.
        what: &'static str,
        /// Length in the packet, in bytes.
        found: usize,
        /// Smallest allowed, in bytes.
        least: usize,
    },
    /// There are more headers in a row than in any valid packet.
    #[error("{what}: more than {most} in a row")]
    TooMany {
        /// The items that are too many.
        what: &'static str,
        /// Bound of the walk.
        most: usize,
    },
}
