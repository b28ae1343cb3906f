//! Pools by their numbers.

use crate::queue::Queued;
use crate::tables::{Pool, Shared};

/// Every pool that this worker serves. Each round looks up the pools of all interfaces: a list by
/// number is faster than a hash table.
#[derive(Default)]
pub(crate) struct Pools(Vec<Option<Box<Pool>>>);

impl Pools {
    #[inline]
    pub(crate) fn get(&self, id: &u32) -> Option<&Pool> {
        self.0.get(*id as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Pool> {
        self.0.get_mut(id as usize)?.as_deref_mut()
    }

    /// Adds one; numbers are those of the substrate's table, and small.
    pub(crate) fn insert(&mut self, id: u32, pool: Pool) {
        let place = id as usize;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        if let Some(free) = self.0.get_mut(place) {
            *free = Some(Box::new(pool));
        }
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Box<Pool>> {
        self.0.get_mut(id as usize)?.take()
    }

    /// Returns the slot of a packet that is not sent, if the pool still exists.
    pub(crate) fn give_back(&self, shared: &Shared, packet: &Queued) {
        if let Some(pool) = self.get(&packet.pool) {
            shared.give_back(&pool.view, packet.pool, packet.word);
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Pool> {
        self.0.iter().flatten().map(|pool| &**pool)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Pool> {
        self.0.iter_mut().flatten().map(|pool| &mut **pool)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Pool)> {
        (0..).zip(&self.0).filter_map(|(id, pool)| Some((id, pool.as_deref()?)))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = u32> {
        self.iter().map(|(id, _)| id)
    }
}
