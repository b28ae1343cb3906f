//! A table that other threads read while its owner changes it.
//!
//! Readers share the arrays of many routes directly: one store changes an address's answer, and
//! freed memory waits for its grace period (`grace.rs`). Few routes are replaced as a whole. The
//! owner fills a copy that no reader uses and makes it the current one, so a batch sees one state
//! of the table. If readers use all copies, or a copy becomes too small, the table gets arrays.
//! Readers get these once they are filled.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use crate::NextHop;
use crate::few::Few;
use crate::grace::Pass;
use crate::table::{Arrays, Entries};

/// Copies of few routes: with up to six readers, at least one is free.
const COPIES: usize = 8;

/// The shared state of owner and readers.
pub(crate) struct Shared<T: Arrays> {
    copies: [RwLock<Few<T::Address>>; COPIES],
    current: AtomicUsize,
    many: OnceLock<Arc<T::Entries>>,
}

impl<T: Arrays> Shared<T> {
    pub(crate) fn new(few: &Few<T::Address>, many: Option<&Arc<T::Entries>>) -> Arc<Self> {
        let copies = std::array::from_fn(|_| RwLock::new(few.clone()));
        let many = many.cloned().map_or_else(OnceLock::new, OnceLock::from);
        Arc::new(Self { copies, current: AtomicUsize::new(0), many })
    }

    /// Replaces few routes. Returns whether that succeeded: it fails if readers use all other
    /// copies.
    pub(crate) fn replace(&self, few: &Few<T::Address>) -> bool {
        let current = self.current.load(Ordering::Relaxed);
        let others = (1..COPIES).map(|step| (current + step) % COPIES);
        for number in others {
            let mut copy = match self.copies[number].try_write() {
                Ok(copy) => copy,
                // A reader that panicked has changed nothing.
                Err(TryLockError::Poisoned(copy)) => copy.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            copy.copy_from(few);
            drop(copy);
            self.current.store(number, Ordering::Release);
            return true;
        }
        false
    }

    /// Publishes arrays.
    pub(crate) fn grow(&self, many: &Arc<T::Entries>) {
        // Once in a table's life.
        let _ = self.many.set(many.clone());
    }

    /// The copy that is current.
    fn few(&self) -> RwLockReadGuard<'_, Few<T::Address>> {
        loop {
            let current = self.current.load(Ordering::Acquire);
            let copy = self.copies[current].try_read();
            let copy = copy.or_else(|error| match error {
                TryLockError::Poisoned(copy) => Ok(PoisonError::into_inner(copy)),
                TryLockError::WouldBlock => Err(()),
            });
            // A copy that was replaced in the meantime may be locked for filling.
            match copy {
                Ok(copy) if self.current.load(Ordering::Acquire) == current => return copy,
                _ => std::hint::spin_loop(),
            }
        }
    }

    pub(crate) fn memory_bytes() -> usize {
        COPIES * Few::<T::Address>::memory_bytes()
    }
}

/// Access of another thread to a table, see [`crate::RouteTable::reader`].
///
/// If the table's owner frees memory, it is not used again before every reader has begun another
/// batch, or [rests](Self::rest). A reader that does neither delays the reuse of free room, but no
/// other thread.
pub struct Reader<T: Arrays> {
    pass: Pass,
    shared: Arc<Shared<T>>,
}

impl<T: Arrays> Reader<T> {
    pub(crate) fn new(pass: Pass, shared: Arc<Shared<T>>) -> Self {
        Self { pass, shared }
    }

    /// The table for a batch of 32 to 256 look-ups. It contains all earlier changes; later ones
    /// appear at once or in the next batch.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_, T> {
        self.pass.pass();
        Batch(match self.shared.many.get() {
            Some(many) => View::Many(&**many),
            None => View::Few(self.shared.few()),
        })
    }

    /// Announces that there will be no look-up for some time: call it before sleeping. The next
    /// batch costs an additional fence.
    pub fn rest(&mut self) {
        self.pass.rest();
    }
}

/// The table for a batch, see [`Reader::batch`]. Drop it soon: freed memory waits for it.
pub struct Batch<'a, T: Arrays>(View<'a, T>);

enum View<'a, T: Arrays> {
    Few(RwLockReadGuard<'a, Few<T::Address>>),
    Many(&'a T::Entries),
}

impl<T: Arrays> Batch<'_, T> {
    /// Like [`crate::RouteTable::lookup`].
    #[inline]
    pub fn lookup(&self, address: T::Address) -> Option<NextHop> {
        match &self.0 {
            View::Few(few) => NextHop::from_entry(few.entry(address)),
            View::Many(many) => {
                let (mut answer, default) = (0, many.default());
                while !default.stayed(|| {
                    let entry = many.found(address);
                    answer = if entry == 0 { default.hop() } else { entry };
                }) {}
                NextHop::from_entry(answer)
            }
        }
    }

    /// Like [`crate::RouteTable::lookup_batch`].
    #[inline]
    pub fn lookup_batch(&self, addresses: &[T::Address], next_hops: &mut [u16]) {
        match &self.0 {
            View::Few(few) => few.entries(addresses, next_hops),
            View::Many(many) => {
                if many.default().stayed(|| many.entries(addresses, next_hops)) {
                    return;
                }
                // The default route changes too rarely to disturb each of these look-ups.
                for (next_hop, &address) in next_hops.iter_mut().zip(addresses) {
                    *next_hop = self.lookup(address).map_or(0, NextHop::get);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dir24, RouteTable};

    fn hop(number: u16) -> NextHop {
        NextHop::new(number).unwrap()
    }

    #[test]
    fn each_batch_sees_the_table_as_it_was_when_it_began() {
        let mut table = Dir24::new();
        let prefix = "10.0.0.0/8".parse().unwrap();
        let mut readers: Vec<_> = (0..COPIES as u16).map(|_| table.reader()).collect();
        let mut batches = Vec::new();
        for (number, reader) in (1..).zip(&mut readers) {
            table.insert(prefix, hop(number)).unwrap();
            batches.push(reader.batch());
            let found: Vec<_> = batches.iter().map(|batch| batch.lookup(0x0a00_0001)).collect();
            let wanted: Vec<_> = (1..=number).map(|number| Some(hop(number))).collect();
            assert_eq!(found, wanted);
            assert!(!table.is_large());
        }
        table.insert(prefix, hop(99)).unwrap();
        assert!(table.is_large(), "each copy was being read");
        drop(batches);
        assert_eq!(readers[0].batch().lookup(0x0a00_0001), Some(hop(99)));
    }

    #[test]
    fn a_reader_that_stays_keeps_a_freed_group_and_nothing_else() {
        let mut table = Dir24::for_many();
        let mut reader = table.reader();
        let host = |number: u32| europa_packet::Ipv4Prefix::new((number << 8).into(), 32).unwrap();
        for stays in [true, false] {
            drop(reader.batch());
            let mut last = Ok(None);
            // Twice as many routes as groups, one at a time.
            for number in 0..1 << 16 {
                if !stays && number % 1024 == 0 {
                    drop(reader.batch());
                }
                last = table.insert(host(number), hop(1));
                if last.is_err() {
                    break;
                }
                table.remove(host(number)).unwrap();
            }
            assert_eq!(last.is_err(), stays);
            reader.rest();
            table.insert(host(1), hop(1)).unwrap();
            table.remove(host(1)).unwrap();
        }
        drop(table);
        assert_eq!(reader.batch().lookup(0x100), None);
    }
}
