//! LABEL, class 16, and LABEL_REQUEST, class 19 (RFC 3209, sections 4.1 and 4.2); RECOVERY_LABEL,
//! class 34 (RFC 3473, section 9.5.2).

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// Labels that a node assigns for upstream, the top label last. MPLS labels have 20 bits; this is
/// the received value, unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelObject(
    /// One or more 32-bit words.
    pub Vec<u32>,
);

impl Body for LabelObject {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        let mut labels = vec![from.u32()?];
        while !from.is_empty() {
            labels.push(from.u32()?);
        }
        Ok(Some(Self(labels)))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        self.0.iter().for_each(|label| to.u32(*label));
    }
}

/// The label that a node had assigned before its neighbour restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryLabel(
    /// The label.
    pub u32,
);

impl Body for RecoveryLabel {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        // C-Type 1 is an MPLS label. C-Type 2, a generalised label, has the same word for packets.
        if c_type != 1 { Ok(None) } else { Ok(Some(Self(from.u32()?))) }
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u32(self.0);
    }
}

/// Asks for a label without range (C-Type 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelRequest {
    /// EtherType of the LSP's payload.
    pub protocol: u16,
}

impl LabelRequest {
    /// The payload is IPv4.
    pub const IPV4: u16 = 0x0800;
    /// The payload is IPv6.
    pub const IPV6: u16 = 0x86dd;
}

impl Body for LabelRequest {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        from.u16()?;
        Ok(Some(Self { protocol: from.u16()? }))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u16(0);
        to.u16(self.protocol);
    }
}
