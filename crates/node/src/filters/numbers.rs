//! Small numbers for the names of rules; a name keeps its number while it is used.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

/// Numbers from `first` to `last`, the lowest free one first. Each operation costs the same for any
/// number of used ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    from = "Written<K>",
    into = "Written<K>",
    bound(deserialize = "K: Name + Deserialize<'de>")
)]
#[serde(bound(serialize = "K: Name + Serialize"))]
pub(super) struct Numbers<K: Name> {
    first: u16,
    last: u16,
    named: Vec<Option<Named<K>>>,
    /// The index of each name.
    places: HashMap<K, usize>,
    /// Places below the end of `named` that are free.
    free: BTreeSet<usize>,
    /// Places whose uses have all ended.
    idle: BTreeSet<usize>,
}

/// Objects that can be numbered.
pub(super) trait Name: Eq + Hash + Clone {}

impl<K: Eq + Hash + Clone> Name for K {}

#[derive(Clone, Debug)]
struct Named<K> {
    key: K,
    uses: u32,
}

/// The stored form of numbers.
#[derive(Serialize, Deserialize)]
struct Written<K> {
    first: u16,
    last: u16,
    named: Vec<Option<WrittenName<K>>>,
}

#[derive(Serialize, Deserialize)]
struct WrittenName<K> {
    key: K,
}

impl<K: Name> From<Written<K>> for Numbers<K> {
    fn from(written: Written<K>) -> Self {
        let mut numbers = Numbers::new(written.first, written.last);
        for (place, name) in written.named.into_iter().enumerate() {
            match &name {
                // It is unused yet, and its users find it by its name.
                Some(WrittenName { key }) => {
                    numbers.places.insert(key.clone(), place);
                    numbers.idle.insert(place);
                }
                None => drop(numbers.free.insert(place)),
            }
            numbers.named.push(name.map(|WrittenName { key }| Named { key, uses: 0 }));
        }
        numbers
    }
}

impl<K: Name> From<Numbers<K>> for Written<K> {
    fn from(numbers: Numbers<K>) -> Self {
        let named = numbers.named.into_iter();
        let named = named.map(|slot| slot.map(|Named { key, .. }| WrittenName { key }));
        Written { first: numbers.first, last: numbers.last, named: named.collect() }
    }
}

impl<K: Name> Numbers<K> {
    pub(super) fn new(first: u16, last: u16) -> Self {
        let (named, places) = (Vec::new(), HashMap::new());
        Self { first, last, named, places, free: BTreeSet::new(), idle: BTreeSet::new() }
    }

    /// The number of a name, with one more use; `None` if all are in use. Adds new names to
    /// `is_new`.
    pub(super) fn take(&mut self, key: &K, is_new: &mut bool) -> Option<u16> {
        if let Some(place) = self.places.get(key).copied() {
            self.named.get_mut(place)?.as_mut()?.uses += 1;
            self.idle.remove(&place);
            return self.number(place);
        }
        let place = self.free.first().copied().unwrap_or(self.named.len());
        let number = self.number(place)?;
        if place == self.named.len() {
            self.named.push(None);
        }
        self.free.remove(&place);
        *self.named.get_mut(place)? = Some(Named { key: key.clone(), uses: 1 });
        self.places.insert(key.clone(), place);
        *is_new = true;
        Some(number)
    }

    /// A use has ended.
    pub(super) fn give(&mut self, number: u16) {
        let place = usize::from(number.saturating_sub(self.first));
        if let Some(named) = self.named.get_mut(place).and_then(Option::as_mut) {
            named.uses = named.uses.saturating_sub(1);
            if named.uses == 0 {
                self.idle.insert(place);
            }
        }
    }

    /// Removes unused names.
    pub(super) fn tidy(&mut self) {
        for place in std::mem::take(&mut self.idle) {
            if let Some(named) = self.named.get_mut(place).and_then(Option::take) {
                self.places.remove(&named.key);
                self.free.insert(place);
            }
        }
        while self.named.last().is_some_and(Option::is_none) {
            self.named.pop();
            self.free.remove(&self.named.len());
        }
    }

    /// The name that has a number.
    pub(super) fn name(&self, number: u16) -> Option<&K> {
        let place = usize::from(number.checked_sub(self.first)?);
        Some(&self.named.get(place)?.as_ref()?.key)
    }

    /// All names with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &K)> {
        let all = self.named.iter().enumerate();
        all.filter_map(|(place, named)| Some((self.number(place)?, &named.as_ref()?.key)))
    }

    fn number(&self, place: usize) -> Option<u16> {
        let number = u16::try_from(place).ok()?.checked_add(self.first)?;
        (number <= self.last).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let (mut numbers, mut new) = (Numbers::new(1, 3), false);
        let taken = ["a", "b", "a", "c"].map(|key| numbers.take(&key, &mut new));
        assert_eq!((taken, new), ([1, 2, 1, 3].map(Some), true));
        assert_eq!(numbers.take(&"d", &mut new), None);
        numbers.give(1);
        numbers.tidy();
        let names = |numbers: &Numbers<_>| numbers.iter().map(|(number, _)| number).collect();
        let all: Vec<u16> = names(&numbers);
        assert_eq!(all, [1, 2, 3], "the first is used once more");
        numbers.give(1);
        numbers.tidy();
        let all: Vec<u16> = names(&numbers);
        assert_eq!(all, [2, 3]);
        assert_eq!(numbers.take(&"d", &mut new), Some(1));
        let text = serde_json::to_string(&numbers).unwrap();
        let mut again: Numbers<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(again.take(&"b".to_owned(), &mut new), Some(2), "a number outlives the node");
        again.tidy();
        assert_eq!(again.iter().count(), 1);
        assert_eq!(again.take(&"x".to_owned(), &mut new), Some(1));
    }

    /// As many names as there are numbers: a linear search would take minutes.
    #[test]
    fn n07_many_names_cost_no_more_than_few() {
        let (mut numbers, mut new) = (Numbers::new(0, u16::MAX - 1), false);
        let begun = std::time::Instant::now();
        for round in 0..3_u32 {
            for name in 0..65_000_u32 {
                assert!(numbers.take(&(name + round), &mut new).is_some(), "{name}");
            }
            (0..65_000).for_each(|number| numbers.give(number));
            numbers.tidy();
        }
        let took = begun.elapsed();
        assert!(took < std::time::Duration::from_secs(5), "{took:?}");
    }
}
