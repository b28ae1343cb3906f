//! Random numbers: cheap, and the same for the same seed on every machine.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one addition and two multiplications a number.
/// No secret depends on it.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        // 53 bits: as many as a double has.
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `share`. Draws no number if it is zero.
    pub fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    /// The next number below `end`, which is not zero.
    pub fn below(&mut self, end: u32) -> u32 {
        // The bias is below end / 2^32, which is negligible.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        // Published first output for seed 0; a change would change the results of every user.
        assert_eq!(Random::new(0).bits(), 0xe220_a839_7b1d_cdaf);
        let [mut a, mut b] = [Random::new(7), Random::new(7)];
        assert!((0..100).all(|_| a.bits() == b.bits()));
    }

    #[test]
    fn shares_come_out() {
        let mut random = Random::new(1);
        for share in [0.0, 0.01, 0.5, 1.0] {
            let count = (0..100_000).filter(|_| random.happens(share)).count() as f64;
            // Five standard deviations.
            let bound = 5.0 * (100_000.0 * share * (1.0 - share)).sqrt();
            assert!((count - 100_000.0 * share).abs() <= bound, "{share}: {count}");
        }
        assert!((0..10_000).all(|_| random.below(7) < 7));
        assert!((0..7).all(|wanted| (0..1000).any(|_| random.below(7) == wanted)));
    }
}
