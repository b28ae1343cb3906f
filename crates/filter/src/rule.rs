//! A filter.

use crate::table::Number;

/// A key: 64 to 320 bits. The caller defines their meaning. In each 32-bit group, the left bytes
/// should be the most distinctive ones, as in an address.
pub type Key<const N: usize> = [u64; N];

/// A slice's number, which precedes every key, so that packets never match rules of another slice.
/// Use small numbers: there is one table for each number up to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(pub u16);

/// A rule. If several rules match, the one with the highest `priority` applies; among equal ones
/// the one with the lowest `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<T, const N: usize> {
    /// Its name within the slice.
    pub number: Number,
    /// A higher one precedes.
    pub priority: u32,
    /// The values of the bits that are set in `mask`; other bits are ignored.
    pub value: Key<N>,
    /// Mask of the compared bits.
    pub mask: Key<N>,
    /// The result of a look-up.
    pub result: T,
}

impl<T, const N: usize> Rule<T, N> {
    /// Whether a key fits.
    #[inline]
    pub fn matches(&self, key: &Key<N>) -> bool {
        let wrong = |word: usize| (key[word] ^ self.value[word]) & self.mask[word];
        (0..N).fold(0, |all, word| all | wrong(word)) == 0
    }

    /// The rank of a rule as one number, unique within its slice.
    #[inline]
    pub(crate) fn rank(&self) -> u64 {
        u64::from(self.priority) << 32 | u64::from(!self.number)
    }
}

/// A change of a slice's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<T, const N: usize> {
    /// Adds a rule under a free number.
    Add(Rule<T, N>),
    /// Removes the rule with this number.
    Remove(Number),
}
