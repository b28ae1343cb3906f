//! Few routes: the address space is divided where answers change, in arrays of a kilobyte.

use prefix_trie::Prefix;

use crate::NextHop;
use crate::routes::{Address, Routes};

/// Most routes: each adds at most two boundaries.
pub(crate) const MOST: usize = 127;
const PLACES: usize = 256;

/// Ranges of addresses with one answer each, in ascending order.
///
/// In the large form, a table of a few routes would use pages throughout its arrays: the reserved
/// addresses of `builtin: ipv4` alone take half a megabyte there. Here a look-up is a binary search
/// without branches, in the first-level cache.
#[derive(Clone)]
pub(crate) struct Few<A> {
    /// Starts of ranges; the first is 0, and unused places have the last address.
    starts: Box<[A; PLACES]>,
    /// Answers: next hops, 0 for none.
    hops: Box<[u16; PLACES]>,
    /// The first step of a search: half the number of searched places, a power of two.
    half: usize,
}

impl<A: Address> Few<A>
where
    (A, u8): Prefix<R = A>,
{
    pub(crate) fn new() -> Self {
        Self { starts: Box::new([A::LAST; PLACES]), hops: Box::new([0; PLACES]), half: 0 }
            .filled(&[(A::FIRST, 0)])
    }

    fn filled(mut self, stretches: &[(A, u16)]) -> Self {
        self.fill(stretches);
        self
    }

    fn fill(&mut self, stretches: &[(A, u16)]) {
        let last = stretches.last().map_or(0, |(_, hop)| *hop);
        // The last address belongs to the last range, whichever of these places the search finds.
        let rest = std::iter::repeat((A::LAST, last));
        let places = self.starts.iter_mut().zip(self.hops.iter_mut());
        for ((start, hop), stretch) in places.zip(stretches.iter().copied().chain(rest)) {
            (*start, *hop) = stretch;
        }
        self.half = stretches.len().next_power_of_two() / 2;
    }

    /// Computes the ranges of these routes, [`MOST`] at most.
    pub(crate) fn renew(&mut self, routes: &Routes<A>) {
        let mut stretches = Stretches(Vec::with_capacity(2 * routes.len() + 1));
        stretches.begin(A::FIRST, 0);
        // Routes that cover the current one, the longest last.
        let mut covering: Vec<(A, NextHop)> = Vec::new();
        for ((first, length), hop) in routes.iter() {
            while let Some((last, _)) = covering.last().copied().filter(|(last, _)| *last < first) {
                covering.pop();
                stretches.resume(last, &covering);
            }
            stretches.begin(first, hop.get());
            covering.push((first.last(length), hop));
        }
        while let Some((last, _)) = covering.pop() {
            stretches.resume(last, &covering);
        }
        self.fill(&stretches.0);
    }
}

impl<A: Address> Few<A> {
    /// Copies another table into its own memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        *self.starts = *other.starts;
        *self.hops = *other.hops;
        self.half = other.half;
    }

    /// The entry for an address.
    #[inline(always)]
    pub(crate) fn entry(&self, address: A) -> u16 {
        let mut at = 0;
        let mut step = self.half;
        while step > 0 {
            let next = (at + step) % PLACES;
            at = if self.starts[next] <= address { next } else { at };
            step /= 2;
        }
        self.hops[at % PLACES]
    }

    #[inline]
    pub(crate) fn entries(&self, addresses: &[A], entries: &mut [u16]) {
        for (entry, &address) in entries.iter_mut().zip(addresses) {
            *entry = self.entry(address);
        }
    }

    pub(crate) fn memory_bytes() -> usize {
        PLACES * (size_of::<A>() + size_of::<u16>())
    }
}

struct Stretches<A>(Vec<(A, u16)>);

impl<A: Address> Stretches<A> {
    fn begin(&mut self, start: A, hop: u16) {
        if self.0.last().is_some_and(|(other, _)| *other == start) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|(_, other)| *other != hop) {
            self.0.push((start, hop));
        }
    }

    /// After `last`, the covering route applies again.
    fn resume(&mut self, last: A, covering: &[(A, NextHop)]) {
        if let Some(next) = last.after() {
            self.begin(next, covering.last().map_or(0, |(_, hop)| hop.get()));
        }
    }
}
