//! IEEE single precision in network form.

use std::fmt;

/// A number of a flowspec or TSpec. It keeps its bits, so that a NaN equals itself and is forwarded
/// unchanged. [`Float::get`] may return any value, including infinity and NaN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Float(u32);

impl Float {
    /// From the received bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits on the wire.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The number, unchecked.
    pub const fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for Float {
    fn from(value: f32) -> Self {
        Self(value.to_bits())
    }
}

impl fmt::Debug for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
