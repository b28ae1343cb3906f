//! Small numbers for what rules name, as long as one does.

use serde::{Deserialize, Serialize};

/// Numbers from `first` to `last`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Numbers<K> {
    first: u16,
    last: u16,
    named: Vec<Option<Named<K>>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Named<K> {
    key: K,
    #[serde(skip)]
    uses: u32,
}

impl<K: PartialEq + Clone> Numbers<K> {
    pub(super) fn new(first: u16, last: u16) -> Self {
        Self { first, last, named: Vec::new() }
    }

    /// The number of a name, which is used once more; none if all are in use. Notes in `is_new`
    /// if it is a new one.
    pub(super) fn take(&mut self, key: &K, is_new: &mut bool) -> Option<u16> {
        if let Some(index) = self.index(key) {
            self.named.get_mut(index)?.as_mut()?.uses += 1;
            return self.number(index);
        }
        let free = self.named.iter().position(Option::is_none);
        let index = free.unwrap_or(self.named.len());
        let number = self.number(index)?;
        if index == self.named.len() {
            self.named.push(None);
        }
        self.named[index] = Some(Named { key: key.clone(), uses: 1 });
        *is_new = true;
        Some(number)
    }

    /// A use has ended.
    pub(super) fn give(&mut self, number: u16) {
        let slot = self.named.get_mut(usize::from(number - self.first));
        if let Some(named) = slot.and_then(Option::as_mut) {
            named.uses = named.uses.saturating_sub(1);
        }
    }

    /// Forgets names that nobody uses.
    pub(super) fn tidy(&mut self) {
        for slot in &mut self.named {
            slot.take_if(|named| named.uses == 0);
        }
        while self.named.last().is_some_and(Option::is_none) {
            self.named.pop();
        }
    }

    /// All names with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &K)> {
        let all = self.named.iter().enumerate();
        all.filter_map(|(index, named)| Some((self.number(index)?, &named.as_ref()?.key)))
    }

    fn index(&self, key: &K) -> Option<usize> {
        self.named.iter().position(|named| named.as_ref().is_some_and(|named| named.key == *key))
    }

    fn number(&self, index: usize) -> Option<u16> {
        let number = u16::try_from(index).ok()?.checked_add(self.first)?;
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
    }
}
