//! MPLS label stack entries (RFC 3032).

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Largest label.
pub const LABEL_MAX: u32 = 0xf_ffff;

/// Reserved labels (RFC 3032 section 2.1).
#[allow(missing_docs)]
pub mod label {
    pub const IPV4_EXPLICIT_NULL: u32 = 0;
    pub const ROUTER_ALERT: u32 = 1;
    pub const IPV6_EXPLICIT_NULL: u32 = 2;
    pub const IMPLICIT_NULL: u32 = 3;
    /// The first that is not reserved.
    pub const FIRST: u32 = 16;
}

/// One entry of a label stack: label (20 bits), traffic class (3), bottom of
/// stack (1), time to live (8).
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
#[repr(transparent)]
pub struct LabelEntry(pub U32);

impl Header for LabelEntry {}

impl LabelEntry {
    /// An entry; bits of `label` above 20 and of `traffic_class` above 3 are dropped.
    #[inline]
    pub fn new(label: u32, traffic_class: u8, bottom: bool, ttl: u8) -> Self {
        let class = u32::from(traffic_class & 7);
        Self(U32::new(
            (label & LABEL_MAX) << 12 | class << 9 | u32::from(bottom) << 8 | u32::from(ttl),
        ))
    }

    /// The label.
    #[inline]
    pub fn label(self) -> u32 {
        self.0.get() >> 12
    }

    /// Traffic class (RFC 5462), 0 to 7.
    #[inline]
    pub fn traffic_class(self) -> u8 {
        (self.0.get() >> 9 & 7) as u8
    }

    /// Whether this is the last entry of the stack.
    #[inline]
    pub fn is_bottom(self) -> bool {
        self.0.get() & 0x100 != 0
    }

    /// Time to live, in hops.
    #[inline]
    pub fn ttl(self) -> u8 {
        self.0.to_bytes()[3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bytes() {
        let table = [
            (LabelEntry::new(16, 0, true, 64), [0x00, 0x01, 0x01, 0x40], (16, 0, true, 64)),
            (
                LabelEntry::new(LABEL_MAX, 7, false, 0),
                [0xff, 0xff, 0xfe, 0],
                (LABEL_MAX, 7, false, 0),
            ),
            (
                LabelEntry::new(u32::MAX, 9, false, 1),
                [0xff, 0xff, 0xf2, 1],
                (LABEL_MAX, 1, false, 1),
            ),
        ];
        for (entry, bytes, fields) in table {
            assert_eq!(entry.as_bytes(), bytes);
            let (e, _) = LabelEntry::parse(&bytes).unwrap();
            assert_eq!((e.label(), e.traffic_class(), e.is_bottom(), e.ttl()), fields);
        }
    }
}
