//! The table of neighbours and their headers.

use std::hash::{BuildHasher, RandomState};

use super::family::Family;

/// A neighbour and the header for it.
#[derive(Clone, Copy)]
pub(super) struct Slot<A> {
    pub(super) address: A,
    pub(super) header: [u8; 14],
    pub(super) taken: bool,
    pub(super) used: bool,
}

/// Headers by neighbour, in an open-addressing hash table that is at most half full. Linux limits
/// its neighbours, and so the entries here.
pub(super) struct Table<A> {
    pub(super) slots: Vec<Slot<A>>,
    pub(super) count: usize,
    pub(super) secret: u64,
}

impl<A: Family> Table<A> {
    pub(super) fn new() -> Table<A> {
        let empty = Slot { address: A::default(), header: [0; 14], taken: false, used: false };
        let secret = RandomState::new().hash_one(0u8) | 1;
        Table { slots: vec![empty; 64], count: 0, secret }
    }

    /// The slot that holds the address, or that would hold it.
    #[inline(always)]
    pub(super) fn place(&self, address: A) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = (address.mix(self.secret) >> 32) as usize & mask;
        while self.slots.get(index).is_some_and(|slot| slot.taken && slot.address != address) {
            index = (index + 1) & mask;
        }
        index
    }

    #[inline(always)]
    pub(super) fn get(&mut self, address: A) -> Option<[u8; 14]> {
        let index = self.place(address);
        let slot = self.slots.get_mut(index).filter(|slot| slot.taken)?;
        // The flag is written only once, so that the cache line stays clean for later packets.
        if !slot.used {
            slot.used = true;
        }
        Some(slot.header)
    }

    pub(super) fn set(&mut self, address: A, header: [u8; 14]) {
        if (self.count + 1) * 2 > self.slots.len() {
            let empty = Slot { address, header, taken: false, used: false };
            let larger = vec![empty; self.slots.len() * 2];
            for slot in std::mem::replace(&mut self.slots, larger).into_iter().filter(|s| s.taken) {
                let index = self.place(slot.address);
                if let Some(place) = self.slots.get_mut(index) {
                    *place = slot;
                }
            }
        }
        let index = self.place(address);
        if let Some(slot) = self.slots.get_mut(index) {
            self.count += usize::from(!slot.taken);
            *slot = Slot { address, header, taken: true, used: slot.taken && slot.used };
        }
    }

    pub(super) fn remove(&mut self, address: A) {
        let mut index = self.place(address);
        let mask = self.slots.len() - 1;
        match self.slots.get_mut(index) {
            Some(slot) if slot.taken => slot.taken = false,
            _ => return,
        }
        self.count -= 1;
        // Entries behind the removed one may have been displaced past its place.
        loop {
            index = (index + 1) & mask;
            let Some(slot) = self.slots.get(index).copied().filter(|slot| slot.taken) else {
                return;
            };
            if let Some(place) = self.slots.get_mut(index) {
                place.taken = false;
            }
            let better = self.place(slot.address);
            if let Some(place) = self.slots.get_mut(better) {
                *place = slot;
            }
        }
    }
}
