//! The rules of all slices, and look-ups among them.

use std::collections::HashMap;

use crate::merge::{Choice, choose};
use crate::rule::{Change, Key, Rule, Slice};
use crate::tuple::{Link, Tuple};

/// A rule's name within its slice.
pub type Number = u32;

pub(crate) const NONE: u32 = u32::MAX;

/// The reason why a batch of changes is refused; no change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A rule with this number exists already.
    #[error("there is a filter {number} already")]
    Taken {
        /// The number.
        number: Number,
    },
    /// No rule has this number.
    #[error("there is no filter {number}")]
    Missing {
        /// The number.
        number: Number,
    },
    /// All room is in use.
    #[error("no room: all {capacity} filters are in use")]
    Full {
        /// Most rules of the table.
        capacity: u32,
    },
    /// The slice has reached its limit of rules.
    #[error("no room: the slice has {limit} filters, as many as it may")]
    SliceFull {
        /// The limit.
        limit: u32,
    },
}

/// A rule's place: one cache line for keys of 128 bits and results of up to 24 bytes.
#[repr(align(64))]
pub(crate) struct Slot<T, const N: usize>(pub(crate) Rule<T, N>);

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// The rule's result.
    pub result: T,
    /// The rule's place, which is also the place of its counters.
    pub place: u32,
}

/// One slice's rules.
struct SliceTable<const N: usize> {
    /// By rank, the highest first.
    tuples: Vec<Tuple<N>>,
    places: HashMap<Number, u32>,
    limit: u32,
}

impl<const N: usize> Default for SliceTable<N> {
    fn default() -> Self {
        Self { tuples: Vec::new(), places: HashMap::new(), limit: u32::MAX }
    }
}

/// Rules of any number of slices, for one thread; see [`crate::shared`] for more. `T` is the result
/// of a look-up, which should be small.
pub struct Table<T, const N: usize> {
    slices: Vec<SliceTable<N>>,
    slots: Vec<Slot<T, N>>,
    /// The links of each rule in its chain.
    links: Vec<Link>,
    /// The mask of each rule's tuple; no rule changes its tuple.
    masks: Vec<Key<N>>,
    free: Vec<u32>,
    /// Places of rules that this batch removes. They become free only after it, so that no reader
    /// counts for a new rule there.
    freed: Vec<u32>,
    capacity: u32,
    epoch: u32,
}

impl<T: Copy, const N: usize> Table<T, N> {
    const WORDS: () = assert!(N >= 1 && N <= 5, "a key has 64 to 320 bits");

    /// An empty table with room for this many rules.
    pub fn new(capacity: u32) -> Self {
        let () = Self::WORDS;
        let slots = Vec::with_capacity(capacity as usize);
        europa_pool::huge_pages(&slots);
        Self {
            slices: Vec::new(),
            slots,
            links: Vec::new(),
            masks: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            capacity,
            epoch: 1,
        }
    }

    /// The rule that applies to a key of a slice.
    #[inline]
    pub fn lookup(&self, slice: Slice, key: &Key<N>) -> Option<Found<T>> {
        let slice = self.slices.get(usize::from(slice.0))?;
        let (mut best, mut rank) = (NONE, 0);
        for tuple in &slice.tuples {
            // All following tuples have lower ranks. Rank 0 is valid, so without a result the
            // search continues.
            if best != NONE && tuple.rank <= rank {
                break;
            }
            let found = tuple.find(key, &self.links, |at| self.slots[at as usize].0.matches(key));
            if let Some(at) = found {
                let here = self.slots[at as usize].0.rank();
                if best == NONE || here > rank {
                    (best, rank) = (at, here);
                }
            }
        }
        let slot = self.slots.get(best as usize)?;
        Some(Found { result: slot.0.result, place: best })
    }

    /// Changes a slice's rules: makes all these changes in this order.
    ///
    /// # Errors
    /// The mistake in the first invalid change; then no change is made.
    pub fn apply(&mut self, slice: Slice, changes: &[Change<T, N>]) -> Result<(), Error> {
        self.check(slice, changes)?;
        let index = usize::from(slice.0);
        if self.slices.len() <= index {
            self.slices.resize_with(index + 1, SliceTable::default);
        }
        for change in changes {
            match change {
                Change::Add(rule) => self.add(index, *rule),
                Change::Remove(number) => self.remove(index, *number),
            }
        }
        self.free.append(&mut self.freed);
        // 0 means never.
        self.epoch = self.epoch.wrapping_add(1).max(1);
        Ok(())
    }

    fn check(&self, slice: Slice, changes: &[Change<T, N>]) -> Result<(), Error> {
        let slice = self.slices.get(usize::from(slice.0));
        let mut changed: HashMap<Number, bool> = HashMap::with_capacity(changes.len());
        let mut there = slice.map_or(0, |slice| slice.places.len());
        let limit = slice.map_or(u32::MAX, |slice| slice.limit);
        let mut all = self.len();
        for change in changes {
            let (number, add) = match change {
                Change::Add(rule) => (rule.number, true),
                Change::Remove(number) => (*number, false),
            };
            let is_there = changed.get(&number).copied();
            let is_there = is_there
                .unwrap_or_else(|| slice.is_some_and(|slice| slice.places.contains_key(&number)));
            match (is_there, add) {
                (true, true) => return Err(Error::Taken { number }),
                (false, false) => return Err(Error::Missing { number }),
                (false, true) if all >= self.capacity as usize => {
                    return Err(Error::Full { capacity: self.capacity });
                }
                (false, true) if there >= limit as usize => return Err(Error::SliceFull { limit }),
                (false, true) => (all, there) = (all + 1, there + 1),
                (true, false) => (all, there) = (all - 1, there - 1),
            }
            changed.insert(number, add);
        }
        Ok(())
    }

    fn add(&mut self, slice: usize, mut rule: Rule<T, N>) {
        rule.value = crate::hash::masked(&rule.value, &rule.mask);
        let SliceTable { tuples, places, .. } = &mut self.slices[slice];
        let at = match choose(tuples, &self.links, &rule.value, &rule.mask) {
            Choice::Join(at) => at,
            Choice::Make(mask) => {
                tuples.push(Tuple::new(mask));
                tuples.len() - 1
            }
        };
        let (new, mask) = (Slot(rule), tuples[at].mask);
        let is_full = self.slots.len() >= self.capacity as usize;
        let free = self.free.pop().or_else(|| if is_full { self.freed.pop() } else { None });
        let place = if let Some(place) = free {
            self.slots[place as usize] = new;
            self.masks[place as usize] = mask;
            place
        } else {
            self.slots.push(new);
            self.links.push(Link::NONE);
            self.masks.push(mask);
            self.slots.len() as u32 - 1
        };
        places.insert(rule.number, place);
        tuples[at].insert(place, &self.slots, &mut self.links);
        // Moves the tuple to its place: its rank may have risen, or fallen after a recount.
        let rank = tuples[at].rank;
        let is_higher = |tuple: &Tuple<N>| tuple.rank > rank;
        let to = tuples[..at].partition_point(is_higher);
        tuples[to..=at].rotate_right(1);
        let lower = to + 1 + tuples[to + 1..].partition_point(is_higher);
        tuples[to..lower].rotate_left(1);
    }

    fn remove(&mut self, slice: usize, number: Number) {
        let SliceTable { tuples, places, .. } = &mut self.slices[slice];
        let Some(place) = places.remove(&number) else { return };
        let mask = self.masks[place as usize];
        if let Some(at) = tuples.iter().position(|tuple| tuple.mask == mask) {
            tuples[at].remove(place, &self.slots, &mut self.links);
            if tuples[at].rules == 0 {
                tuples.remove(at);
            }
        }
        self.freed.push(place);
    }

    /// Sets how many rules a slice may have. Existing ones stay.
    pub fn set_limit(&mut self, slice: Slice, limit: u32) {
        let index = usize::from(slice.0);
        if self.slices.len() <= index {
            self.slices.resize_with(index + 1, SliceTable::default);
        }
        self.slices[index].limit = limit;
    }

    /// The place of a rule.
    pub fn place(&self, slice: Slice, number: Number) -> Option<u32> {
        self.slices.get(usize::from(slice.0))?.places.get(&number).copied()
    }

    /// A slice's rules, in no order.
    pub fn rules(&self, slice: Slice) -> impl Iterator<Item = &Rule<T, N>> {
        let slice = self.slices.get(usize::from(slice.0));
        let places = slice.into_iter().flat_map(|slice| slice.places.values());
        places.map(|place| &self.slots[*place as usize].0)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of tuples that a slice's look-up may have to probe.
    pub fn tuples(&self, slice: Slice) -> usize {
        self.slices.get(usize::from(slice.0)).map_or(0, |slice| slice.tuples.len())
    }

    /// A number that changes after each batch of changes.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Memory for the present rules.
    pub fn memory_bytes(&self) -> usize {
        let tuples = self.slices.iter().flat_map(|slice| &slice.tuples);
        tuples.map(Tuple::memory_bytes).sum::<usize>()
            + self.slots.len()
                * (size_of::<(Slot<T, N>, Key<N>, Link)>() + 2 * size_of::<(Number, u32)>())
    }
}
