//! Pseudo-random numbers: the same on every run, as simulations need, unless `RandomSeed` changes
//! the seed. All elements of a process share them. The generator is that of the C library's
//! `random()`, so a seed gives the same numbers as in Click.

use std::cell::RefCell;

/// Words of the generator's state (x^31 + x^3 + 1, additive feedback).
const WORDS: usize = 31;
const TAP: usize = 3;

struct Generator {
    words: [u32; WORDS],
    /// The word that is changed next.
    at: usize,
}

impl Generator {
    fn new(seed: u32) -> Generator {
        let mut words = [0; WORDS];
        // Park and Miller's generator fills the state.
        let mut word = i64::from(seed.max(1).cast_signed());
        for place in &mut words {
            *place = word as u32;
            word = (word * 16807) % 0x7fff_ffff;
            word += if word < 0 { 0x7fff_ffff } else { 0 };
        }
        let mut generator = Generator { words, at: TAP };
        // After this many steps the seed has reached all bits.
        for _ in 0..10 * WORDS {
            generator.next();
        }
        generator
    }

    fn next(&mut self) -> u32 {
        let earlier = (self.at + WORDS - TAP) % WORDS;
        let sum = self.words[self.at].wrapping_add(self.words[earlier]);
        self.words[self.at] = sum;
        self.at = (self.at + 1) % WORDS;
        sum
    }
}

thread_local! {
    static GENERATOR: RefCell<Generator> = RefCell::new(Generator::new(0x9e37_79b9));
}

/// Begins another sequence.
pub(crate) fn seed(seed: u32) {
    GENERATOR.with_borrow_mut(|generator| *generator = Generator::new(seed));
}

/// A sequence of pseudo-random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Random;

impl Random {
    /// 32 random bits.
    pub(crate) fn next(self) -> u32 {
        GENERATOR.with_borrow_mut(Generator::next)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(self, bound: u32) -> u32 {
        // The lowest bit is the least random one.
        let next = || self.next() >> 1;
        match bound {
            0 | 1 => 0,
            2 => next() >> 14 & 1,
            3..=0x8000_0000 => {
                let each = (1 << 31) / bound;
                // Numbers of the last, incomplete range are rejected, so that all results are
                // equally likely.
                std::iter::repeat_with(next).find_map(|n| Some(n / each).filter(|n| *n < bound))
            }
            .unwrap_or(0),
            _ => std::iter::repeat_with(|| self.next()).find(|n| *n < bound).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        // The results of srandom(1) and random() of the GNU C library.
        seed(1);
        let numbers: Vec<u32> = (0..4).map(|_| Random.next() >> 1).collect();
        assert_eq!(numbers, [1804289383, 846930886, 1681692777, 1714636915]);
        for bound in [1, 2, 3, 1000, 1 << 31, u32::MAX] {
            assert!((0..100).all(|_| Random.below(bound) < bound));
        }
    }
}
