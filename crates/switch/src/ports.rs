//! Ports by their numbers.

use std::ops::{Deref, DerefMut};

use crate::tables::Port;

/// Every port that this worker serves. A router's packet finds its port by number, as there may be
/// hundreds.
#[derive(Default)]
pub(crate) struct Ports {
    all: Vec<Port>,
    /// Places, by number.
    places: Vec<Option<usize>>,
}

impl Ports {
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        self.places.get(id as usize).copied().flatten()
    }

    /// The port of a number, if this worker serves it.
    #[inline]
    pub(crate) fn of(&self, id: u32) -> Option<&Port> {
        self.all.get(self.place(id)?)
    }

    /// See [`Self::of`].
    #[inline]
    pub(crate) fn of_mut(&mut self, id: u32) -> Option<&mut Port> {
        let place = self.place(id)?;
        self.all.get_mut(place)
    }

    /// Adds one; numbers are those of the substrate's table, and small.
    pub(crate) fn add(&mut self, port: Port) {
        self.all.push(port);
        self.arrange();
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Port> {
        let removed = self.all.remove(self.place(id)?);
        self.arrange();
        Some(removed)
    }

    fn arrange(&mut self) {
        self.places.clear();
        for (place, port) in self.all.iter().enumerate() {
            let number = port.id as usize;
            if self.places.len() <= number {
                self.places.resize(number + 1, None);
            }
            self.places[number] = Some(place);
        }
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.all
    }
}

impl DerefMut for Ports {
    fn deref_mut(&mut self) -> &mut [Port] {
        &mut self.all
    }
}
