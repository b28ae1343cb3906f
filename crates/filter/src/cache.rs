//! The last result for each recent key.

use crate::hash::hash;
use crate::rule::{Key, Slice};
use crate::table::{Found, NONE, Table};

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line<T, const N: usize> {
    key: Key<N>,
    /// The table's epoch when this result was found; 0 if the entry is empty.
    epoch: u32,
    slice: u16,
    /// The rule's place, or [`NONE`] if no rule matches.
    place: u32,
    result: Option<T>,
}

/// An exact-match cache in front of a table. It is direct-mapped, with one cache line for each
/// entry (for keys of 320 bits and results of up to 8 bytes, or shorter keys and 16 bytes). Any
/// change of the table empties it.
pub struct Cache<T, const N: usize> {
    lines: Box<[Line<T, N>]>,
}

impl<T: Copy, const N: usize> Cache<T, N> {
    /// Room for this many keys, rounded up to a power of two.
    pub fn new(keys: usize) -> Self {
        let line = Line { key: [0; N], epoch: 0, slice: 0, place: NONE, result: None };
        Self { lines: vec![line; keys.max(1).next_power_of_two()].into() }
    }

    /// The same as [`Table::lookup`].
    #[inline]
    pub fn lookup(&mut self, table: &Table<T, N>, slice: Slice, key: &Key<N>) -> Option<Found<T>> {
        let at = hash(key, slice.0.into()) as usize & (self.lines.len() - 1);
        let line = &mut self.lines[at];
        if line.epoch != table.epoch() || line.slice != slice.0 || line.key != *key {
            let found = table.lookup(slice, key);
            *line = Line {
                key: *key,
                epoch: table.epoch(),
                slice: slice.0,
                place: found.map_or(NONE, |found| found.place),
                result: found.map(|found| found.result),
            };
        }
        line.result.map(|result| Found { result, place: line.place })
    }
}
