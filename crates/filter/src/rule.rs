//! A filter.

use crate::table::Number;

/// A key: 64 to 320 bits. Their meaning is the caller's business; bytes at the left of a 32-bit
/// group should be those by which keys differ in the large, as in an address.
pub type Key<const N: usize> = [u64; N];

/// A slice's number, which stands in front of every key: rules and packets of one slice never
/// meet those of another. Small numbers: there is one table for each up to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(pub u16);

/// A rule. Of several that match, the one with the highest `priority` counts, and among equals
/// the one with the lowest `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<T, const N: usize> {
    /// Its name within the slice.
    pub number: Number,
    /// Higher goes first.
    pub priority: u32,
    /// The values of the bits that are set in `mask`; others do not matter.
    pub value: Key<N>,
    /// Which bits matter.
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

    /// The rank of a rule, as one number: never the same for two rules of a slice.
    #[inline]
    pub(crate) fn rank(&self) -> u64 {
        u64::from(self.priority) << 32 | u64::from(!self.number)
    }
}

/// A change of a slice's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<T, const N: usize> {
    /// Adds a rule under a number that is free.
    Add(Rule<T, N>),
    /// Removes the rule with this number.
    Remove(Number),
}
