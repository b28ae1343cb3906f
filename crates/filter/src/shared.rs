//! A table that workers read while another thread changes it.
//!
//! There are two copies. Workers read the *active* one. A batch of changes is made in the other
//! copy, which then becomes active. When the last reader has left the first copy, the batch is
//! repeated there (left-right: Ramalhete and Correia 2015). So a reader never waits, and sees a
//! whole batch or nothing of it. A batch takes twice the time of its changes, plus the readers'
//! batches.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::cache::Cache;
use crate::rule::{Change, Key, Slice};
use crate::table::{Error, Number, Table};

struct Copies<T, const N: usize> {
    tables: [RwLock<Table<T, N>>; 2],
    active: AtomicUsize,
    capacity: u32,
}

impl<T: Copy, const N: usize> Copies<T, N> {
    /// The active copy.
    fn read(&self) -> RwLockReadGuard<'_, Table<T, N>> {
        loop {
            // This fails only if the copies have changed roles since the load.
            let table = &self.tables[self.active.load(Ordering::Acquire)];
            if let Ok(guard) = table.try_read() {
                return guard;
            }
            std::hint::spin_loop();
        }
    }
}

/// The writer of the rules.
pub struct Writer<T, const N: usize> {
    copies: Arc<Copies<T, N>>,
    readers: Vec<Counters>,
    /// The value of each place's counters when its last rule was removed.
    begins: Vec<Hits>,
}

/// Words for a reader's counters: packets and bytes for each place.
pub type Counters = Arc<[AtomicU64]>;

/// The counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl<T: Copy, const N: usize> Writer<T, N> {
    /// An empty table with room for this many rules.
    pub fn new(capacity: u32) -> Self {
        let tables = [RwLock::new(Table::new(capacity)), RwLock::new(Table::new(capacity))];
        let copies = Arc::new(Copies { tables, active: AtomicUsize::new(0), capacity });
        Self { copies, readers: Vec::new(), begins: vec![Hits::default(); capacity as usize] }
    }

    /// Adds a reader for another worker, with a cache for this many keys.
    pub fn reader(&mut self, keys: usize) -> Reader<T, N> {
        let words = self.copies.capacity as usize * 2;
        let counters: Counters = (0..words).map(|_| AtomicU64::new(0)).collect();
        self.readers.push(counters.clone());
        Reader { copies: self.copies.clone(), cache: Cache::new(keys), counters }
    }

    /// Changes a slice's rules: readers see all changes or none. Waits until all earlier batches of
    /// readers have ended.
    ///
    /// # Errors
    /// The mistake in the first invalid change; then no change is made.
    pub fn apply(&mut self, slice: Slice, changes: &[Change<T, N>]) -> Result<(), Error> {
        let mut removed = Vec::new();
        for change in changes {
            if let Change::Remove(number) = change {
                removed.extend(self.table().place(slice, *number));
            }
        }
        let mut result = Ok(());
        self.both(|table| result = table.apply(slice, changes));
        result?;
        // No reader counts for the removed rules any more, and no other rule has their places yet.
        for place in removed {
            self.begins[place as usize] = self.sum(place);
        }
        Ok(())
    }

    /// Sets how many rules a slice may have. Existing ones stay.
    pub fn set_limit(&mut self, slice: Slice, limit: u32) {
        self.both(|table| table.set_limit(slice, limit));
    }

    /// Makes the same change in both copies, which are equal before and after.
    fn both(&mut self, mut change: impl FnMut(&mut Table<T, N>)) {
        for _ in 0..2 {
            let other = 1 - self.copies.active.load(Ordering::Relaxed);
            let table = &self.copies.tables[other];
            // A reader that panicked has changed nothing.
            change(&mut table.write().unwrap_or_else(PoisonError::into_inner));
            self.copies.active.store(other, Ordering::Release);
        }
    }

    /// The present rules.
    pub fn table(&self) -> impl std::ops::Deref<Target = Table<T, N>> {
        self.copies.read()
    }

    /// The counters of a rule, summed over all readers.
    pub fn hits(&self, slice: Slice, number: Number) -> Option<Hits> {
        let place = self.table().place(slice, number)?;
        let (now, begin) = (self.sum(place), self.begins[place as usize]);
        let packets = now.packets.wrapping_sub(begin.packets);
        Some(Hits { packets, bytes: now.bytes.wrapping_sub(begin.bytes) })
    }

    /// Continues a rule's counters from `hits`, those of the rule that it replaces.
    pub fn continue_from(&mut self, slice: Slice, number: Number, hits: Hits) {
        let Some(place) = self.table().place(slice, number) else { return };
        let now = self.sum(place);
        let begin = Hits {
            packets: now.packets.wrapping_sub(hits.packets),
            bytes: now.bytes.wrapping_sub(hits.bytes),
        };
        self.begins[place as usize] = begin;
    }

    fn sum(&self, place: u32) -> Hits {
        let mut hits = Hits::default();
        for words in &self.readers {
            let at = place as usize * 2;
            hits.packets += words[at].load(Ordering::Relaxed);
            hits.bytes += words[at + 1].load(Ordering::Relaxed);
        }
        hits
    }
}

/// A worker's access to the rules.
pub struct Reader<T, const N: usize> {
    copies: Arc<Copies<T, N>>,
    cache: Cache<T, N>,
    counters: Counters,
}

impl<T: Copy, const N: usize> Reader<T, N> {
    /// The rules for a batch of packets, during which they do not change. Drop it soon: changes
    /// wait for it. Costs two atomic operations.
    pub fn batch(&mut self) -> Batch<'_, T, N> {
        let Self { copies, cache, counters } = self;
        Batch { table: copies.read(), cache, counters }
    }
}

/// See [`Reader::batch`].
pub struct Batch<'a, T, const N: usize> {
    table: RwLockReadGuard<'a, Table<T, N>>,
    cache: &'a mut Cache<T, N>,
    counters: &'a [AtomicU64],
}

impl<T: Copy, const N: usize> Batch<'_, T, N> {
    /// The result of the rule that applies to a packet of `length` bytes with this key.
    #[inline]
    pub fn lookup(&mut self, slice: Slice, key: &Key<N>, length: u32) -> Option<T> {
        let found = self.cache.lookup(&self.table, slice, key)?;
        let words = &self.counters[found.place as usize * 2..][..2];
        // Only one thread writes, so loads and stores are enough.
        for (word, more) in words.iter().zip([1, length.into()]) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
        Some(found.result)
    }

    /// The rules.
    pub fn table(&self) -> &Table<T, N> {
        &self.table
    }
}
