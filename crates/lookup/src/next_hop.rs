//! The result of a look-up.

use std::num::NonZeroU16;

/// Number of a next hop, 1 to 32767: an index into the owner's own list, in which 0 stands for "no
/// route". `Option<NextHop>` has the two bytes of a table's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop(NonZeroU16);

impl NextHop {
    /// Largest number.
    pub const MAX: u16 = 0x7fff;

    /// The next hop with this number; `None` unless it is from 1 to [`Self::MAX`].
    #[inline]
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) if number.get() <= Self::MAX => Some(Self(number)),
            _ => None,
        }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0.get()
    }

    /// The next hop in a table's entry; `None` for 0. Entries contain only valid numbers and 0.
    #[inline]
    pub(crate) fn from_entry(entry: u16) -> Option<Self> {
        NonZeroU16::new(entry).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_bounds() {
        let table = [(0, false), (1, true), (0x7fff, true), (0x8000, false), (0xffff, false)];
        for (number, valid) in table {
            assert_eq!(NextHop::new(number).map(NextHop::get), valid.then_some(number));
        }
        assert_eq!(size_of::<Option<NextHop>>(), 2);
    }
}
