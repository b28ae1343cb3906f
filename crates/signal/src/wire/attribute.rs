//! SESSION_ATTRIBUTE, class 207, both C-Types (RFC 3209, section 4.7).

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// Priorities and requested properties of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAttribute {
    /// Which links to use, by their colours; `None` is C-Type 7, `Some` is C-Type 1.
    pub affinity: Option<Affinity>,
    /// Setup priority against existing reservations: 0 (best) to 7.
    pub setup: u8,
    /// 0 (best) to 7 against new LSPs.
    pub hold: u8,
    /// Bits such as [`SessionAttribute::LABELS`].
    pub flags: u8,
    /// The tunnel's name, at most 255 bytes, without the padding.
    pub name: Vec<u8>,
}

/// Which links the LSP may use (RFC 3209, section 4.7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// Links with any of these colours are excluded.
    pub exclude_any: u32,
    /// If not 0, a link must have one of these colours.
    pub include_any: u32,
    /// Links have all of these.
    pub include_all: u32,
}

impl Affinity {
    /// RFC 3209, section 4.7.4: the three tests of a link's colours.
    pub fn admits(&self, colours: u32) -> bool {
        colours & self.exclude_any == 0
            && (self.include_any == 0 || colours & self.include_any != 0)
            && colours & self.include_all == self.include_all
    }
}

impl SessionAttribute {
    /// Local repair is desired.
    pub const LOCAL_PROTECTION: u8 = 0x01;
    /// Record labels.
    pub const LABELS: u8 = 0x02;
    /// The head may reroute without tearing down: shared explicit style.
    pub const SHARED_EXPLICIT: u8 = 0x04;
    /// Soft preemption is desired (RFC 5712, section 4).
    pub const SOFT_PREEMPTION: u8 = 0x40;
}

impl Body for SessionAttribute {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let affinity = match c_type {
            1 => Some(Affinity {
                exclude_any: from.u32()?,
                include_any: from.u32()?,
                include_all: from.u32()?,
            }),
            7 => None,
            _ => return Ok(None),
        };
        let (setup, hold, flags, length) = (from.u8()?, from.u8()?, from.u8()?, from.u8()?);
        let name = from.take(length.into())?.to_vec();
        // The padding of the name.
        from.rest();
        Ok(Some(Self { affinity, setup, hold, flags, name }))
    }

    fn c_type(&self) -> u8 {
        if self.affinity.is_some() { 1 } else { 7 }
    }

    fn write(&self, to: &mut Writer) {
        if let Some(affinity) = self.affinity {
            to.u32(affinity.exclude_any);
            to.u32(affinity.include_any);
            to.u32(affinity.include_all);
        }
        let name = &self.name[..self.name.len().min(255)];
        let from = to.len();
        to.u8(self.setup);
        to.u8(self.hold);
        to.u8(self.flags);
        to.u8(name.len() as u8);
        to.put(name);
        to.pad(from);
    }
}
