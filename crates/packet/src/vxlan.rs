//! VXLAN (RFC 7348).

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// UDP port assigned to VXLAN.
pub const PORT: u16 = 4789;
/// Largest VXLAN network identifier.
pub const VNI_MAX: u32 = 0xff_ffff;

/// The bit of [`VxlanHeader::flags`] that marks the VNI as valid.
const VNI_VALID: u32 = 0x0800_0000;

/// A VXLAN header; an Ethernet frame follows.
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
pub struct VxlanHeader {
    /// Flags (8 bits), reserved (24 bits).
    pub flags: U32,
    /// VXLAN network identifier (24 bits), reserved (8 bits).
    pub vni_reserved: U32,
}

impl Header for VxlanHeader {}

impl VxlanHeader {
    /// A header for network `vni`; bits above 24 are dropped.
    #[inline]
    pub fn new(vni: u32) -> Self {
        Self { flags: U32::new(VNI_VALID), vni_reserved: U32::new(vni << 8) }
    }

    /// The network identifier; `None` if the header has none.
    #[inline]
    pub fn vni(&self) -> Option<u32> {
        (self.flags.get() & VNI_VALID != 0).then_some(self.vni_reserved.get() >> 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_bytes() {
        let bytes = [8, 0, 0, 0, 0x12, 0x34, 0x56, 0];
        assert_eq!(VxlanHeader::new(0x12_3456).as_bytes(), bytes);
        assert_eq!(VxlanHeader::parse(&bytes).unwrap().0.vni(), Some(0x12_3456));
        assert_eq!(VxlanHeader::parse(&[0; 8]).unwrap().0.vni(), None);
    }
}
