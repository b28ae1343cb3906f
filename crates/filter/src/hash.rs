//! Mixing of keys.

use crate::rule::Key;

/// Odd factors with as many ones as zeros; a different one for each word, so that equal words do
/// not cancel out.
const FACTORS: [u64; 5] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xc2b2_ae3d_27d4_eb4f,
];

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A hash that depends on every bit of a key: one multiplication for two words (Wang Yi's mum). A
/// slice that chooses its keys can cause many collisions. But a bucket's rules belong to one slice,
/// so it slows only itself.
#[inline]
pub(crate) fn hash<const N: usize>(key: &Key<N>, seed: u64) -> u64 {
    let mut all = seed;
    for (pair, factors) in key.chunks(2).zip(FACTORS.chunks(2)) {
        let second = pair.get(1).copied().unwrap_or(0);
        let factor = factors.get(1).copied().unwrap_or(FACTORS[1]);
        all = fold(pair[0] ^ all ^ factors[0], second ^ factor);
    }
    all
}

/// The bits of a key under a mask.
#[inline]
pub(crate) fn masked<const N: usize>(key: &Key<N>, mask: &Key<N>) -> Key<N> {
    std::array::from_fn(|word| key[word] & mask[word])
}
