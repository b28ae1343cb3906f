//! Pseudo-random numbers: quick, and the same on every run, as simulations want.

/// A sequence of numbers that look random (xorshift64*; Marsaglia 2003, Vigna 2016).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }
}

impl Random {
    /// 32 random bits.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // The product's upper half: no division, and no more bias than 2^-32 × bound.
        ((u64::from(self.next()) * u64::from(bound)) >> 32) as u32
    }
}
