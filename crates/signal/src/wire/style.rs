//! STYLE, class 8 (RFC 2205, appendix A.7), and TIME_VALUES, class 5 (appendix A.4).

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// How reservations of one session are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Style {
    /// Each LSP has separate bandwidth.
    FixedFilter,
    /// LSPs of a session share bandwidth.
    SharedExplicit,
    /// Any other option vector, wildcard filter (17) included; 24 bits.
    Other(u32),
}

impl Body for Style {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        Ok(Some(match from.u32()? & 0x00ff_ffff {
            0b01010 => Self::FixedFilter,
            0b10010 => Self::SharedExplicit,
            other => Self::Other(other),
        }))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u32(match self {
            Self::FixedFilter => 0b01010,
            Self::SharedExplicit => 0b10010,
            Self::Other(other) => *other & 0x00ff_ffff,
        });
    }
}

/// The refresh period of the message's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeValues {
    /// R, in milliseconds.
    pub refresh_ms: u32,
}

impl Body for TimeValues {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 { Ok(None) } else { Ok(Some(Self { refresh_ms: from.u32()? })) }
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u32(self.refresh_ms);
    }
}
