//! Values that many routes share, by number.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

/// Gives equal values the same number. Numbers are never released: a router has few different next
/// hops, after any changes of its routes.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    numbers: HashMap<Rc<T>, u32>,
    values: Vec<Rc<T>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Interner<T> {
        Interner { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The number of a value.
    pub(crate) fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = self.values.len() as u32;
        let value = Rc::new(value);
        self.values.push(Rc::clone(&value));
        self.numbers.insert(value, number);
        number
    }

    /// The number of a known value.
    pub(crate) fn find(&self, value: &T) -> Option<u32> {
        self.numbers.get(value).copied()
    }

    /// The value of a number.
    pub(crate) fn value(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize).map(Rc::as_ref)
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}
