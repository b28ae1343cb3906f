//! Chooses the tuple of a rule, with the aim of few tuples with short chains.
//!
//! After TupleMerge (Daly, Bruschi, Linguaglossa, Pontarelli, Rossi, Tollet, Torng and Yourtchenko,
//! 2019), but independent of the meaning of bits. A rule may be in any tuple whose mask is
//! contained in its own. It joins the most specific tuple in which fewer than `alike` rules share
//! all its bits under that tuple's mask. If there is none, it gets a new tuple with a reduced mask:
//! the first 4 of its full bytes, or the first 8, or all of them, or the mask itself.

use crate::rule::Key;
use crate::tuple::{Link, Tuple};

/// How many rules may share all bits in a tuple before another tuple is made for the next rule.
fn alike(tuples: usize) -> usize {
    // Another tuple costs every look-up a probe. A longer chain costs only look-ups that hit it.
    4 + tuples / 16
}

/// The first `most` full bytes, from the left of all 32-bit groups.
fn cut<const N: usize>(mask: &Key<N>, most: usize) -> Key<N> {
    let (mut cut, mut bytes) = ([0; N], 0);
    for byte in 0..4 {
        for group in 0..2 * N {
            let shift = 32 * (1 - group % 2) + 8 * (3 - byte);
            let wanted = 0xff << shift;
            if bytes < most && mask[group / 2] & wanted == wanted {
                cut[group / 2] |= wanted;
                bytes += 1;
            }
        }
    }
    cut
}

/// The tuple for a rule.
pub(crate) enum Choice<const N: usize> {
    /// Into this tuple.
    Join(usize),
    /// A new tuple.
    Make(Key<N>),
}

pub(crate) fn choose<const N: usize>(
    tuples: &[Tuple<N>],
    links: &[Link],
    value: &Key<N>,
    mask: &Key<N>,
) -> Choice<N> {
    let most = alike(tuples.len());
    let mut best: Option<(u32, usize)> = None;
    for (at, tuple) in tuples.iter().enumerate().filter(|(_, tuple)| tuple.takes(mask)) {
        let bits = tuple.bits();
        if best.is_none_or(|(most_bits, _)| bits > most_bits)
            && tuple.alike(value, links, most) < most
        {
            best = Some((bits, at));
        }
    }
    if let Some((_, at)) = best {
        return Choice::Join(at);
    }
    for wanted in [cut(mask, 4), cut(mask, 8), cut(mask, 8 * N), *mask] {
        if tuples.iter().all(|tuple| tuple.mask != wanted) {
            return Choice::Make(wanted);
        }
    }
    // If as many rules differ only by their priorities, a merge would not help.
    let own = tuples.iter().position(|tuple| tuple.mask == *mask);
    own.map_or(Choice::Make(*mask), Choice::Join)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_cut_to_whole_bytes_from_the_left() {
        let mask = [0xffff_ff80_ffff_0000, 0xffff_0000_ff00_0000];
        let table = [
            (2, [0xff00_0000_ff00_0000, 0]),
            (4, [0xff00_0000_ff00_0000, 0xff00_0000_ff00_0000]),
            (6, [0xffff_0000_ffff_0000, 0xff00_0000_ff00_0000]),
            (16, [0xffff_ff00_ffff_0000, 0xffff_0000_ff00_0000]),
        ];
        for (bytes, wanted) in table {
            assert_eq!(cut(&mask, bytes), wanted, "{bytes}");
        }
    }
}
