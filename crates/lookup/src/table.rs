//! Recorded routes, and the arrays for look-ups.

use std::sync::Arc;

use prefix_trie::Prefix;

use crate::default_route::DefaultRoute;
use crate::few::{self, Few};
use crate::grace::Readers;
use crate::routes::{Address, Routes};
use crate::shared::{Reader, Shared};
use crate::{NextHop, RouteTable, TableFull};

/// The data that look-ups use in a table of many routes.
pub trait Entries: Send + Sync + 'static {
    /// Of the packets.
    type Address: Address;

    /// The entry for an address, 0 if the default route answers.
    fn found(&self, address: Self::Address) -> u16;

    /// The answers for many addresses, 0 for none.
    fn entries(&self, addresses: &[Self::Address], answers: &mut [u16]);

    /// The answer for entries of 0.
    fn default(&self) -> &DefaultRoute;
}

/// The storage of a table with many routes: entries, and their administration.
pub trait Arrays: Sized {
    /// Of the packets.
    type Address: Address;
    /// The data that look-ups read.
    type Entries: Entries<Address = Self::Address>;

    /// For no routes yet.
    fn new() -> Self;

    /// The data that look-ups read.
    fn entries(&self) -> &Arc<Self::Entries>;

    /// Makes sure that the prefix consists of whole entries.
    fn make_way(
        &mut self,
        routes: &Routes<Self::Address>,
        prefix: (Self::Address, u8),
        readers: &mut Readers,
    ) -> Result<(), TableFull>
    where
        (Self::Address, u8): Prefix<R = Self::Address>;

    /// Sets the answer of all addresses of a prefix that no longer route covers.
    fn paint(&mut self, routes: &Routes<Self::Address>, prefix: (Self::Address, u8), answer: u16)
    where
        (Self::Address, u8): Prefix<R = Self::Address>;

    /// Frees memory that only this removed prefix needed.
    fn clear_way(
        &mut self,
        routes: &Routes<Self::Address>,
        prefix: (Self::Address, u8),
        readers: &mut Readers,
    ) where
        (Self::Address, u8): Prefix<R = Self::Address>;

    /// Number of bytes that occupy memory.
    fn memory_bytes(&self) -> usize;
}

/// Longest prefix match: see [`crate::Dir24`] and [`crate::Multibit6`].
pub struct Table<T: Arrays>
where
    (T::Address, u8): Prefix<R = T::Address>,
{
    routes: Routes<T::Address>,
    few: Few<T::Address>,
    pub(crate) many: Option<Box<T>>,
    /// The entries of `many`, reached with one indirection less.
    pub(crate) entries: Option<Arc<T::Entries>>,
    readers: Readers,
    /// The readers' part, once there was a reader.
    shared: Option<Arc<Shared<T>>>,
}

impl<T: Arrays> Table<T>
where
    (T::Address, u8): Prefix<R = T::Address>,
{
    /// An empty table.
    pub fn new() -> Self {
        Self::with(None)
    }

    pub(crate) fn with(many: Option<T>) -> Self {
        let (routes, few, readers) = (Routes::new(), Few::new(), Readers::new());
        let entries = many.as_ref().map(|many| many.entries().clone());
        Self { routes, few, many: many.map(Box::new), entries, readers, shared: None }
    }

    /// Whether it has arrays for many routes; once it has had more than 127 routes, it always has.
    pub fn is_large(&self) -> bool {
        self.many.is_some()
    }

    /// Changes to arrays.
    fn grow(&mut self) -> Result<(), TableFull> {
        let mut many = T::new();
        for (prefix, next_hop) in self.routes.iter() {
            many.make_way(&self.routes, prefix, &mut self.readers)?;
            many.paint(&self.routes, prefix, next_hop.get());
        }
        if let Some(shared) = &self.shared {
            shared.grow(many.entries());
        }
        self.entries = Some(many.entries().clone());
        self.many = Some(Box::new(many));
        Ok(())
    }

    /// After a change of few routes.
    fn renew(&mut self) -> Result<(), TableFull> {
        self.few.renew(&self.routes);
        match &self.shared {
            Some(shared) if !shared.replace(&self.few) => self.grow(),
            _ => Ok(()),
        }
    }
}

impl<T: Arrays> Default for Table<T>
where
    (T::Address, u8): Prefix<R = T::Address>,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Arrays> RouteTable for Table<T>
where
    (T::Address, u8): Prefix<R = T::Address>,
{
    type Address = T::Address;
    type Prefix = <T::Address as Address>::Prefix;
    type Arrays = T;

    fn insert(
        &mut self,
        prefix: Self::Prefix,
        next_hop: NextHop,
    ) -> Result<Option<NextHop>, TableFull> {
        let prefix = Address::pair(prefix);
        if let Some(many) = &mut self.many {
            many.make_way(&self.routes, prefix, &mut self.readers)?;
        }
        let old = self.routes.insert(prefix, next_hop);
        if old == Some(next_hop) {
            return Ok(old);
        }
        match &mut self.many {
            Some(many) => many.paint(&self.routes, prefix, next_hop.get()),
            None if self.routes.len() <= few::MOST => self.renew()?,
            None => self.grow().inspect_err(|_| {
                self.routes.remove(prefix);
            })?,
        }
        Ok(old)
    }

    fn remove(&mut self, prefix: Self::Prefix) -> Option<NextHop> {
        let prefix = Address::pair(prefix);
        let old = self.routes.remove(prefix)?;
        match &mut self.many {
            Some(many) => {
                many.paint(&self.routes, prefix, self.routes.covering_entry(prefix));
                many.clear_way(&self.routes, prefix, &mut self.readers);
            }
            // Arrays always have room for this few routes.
            None => drop(self.renew()),
        }
        Some(old)
    }

    fn get(&self, prefix: Self::Prefix) -> Option<NextHop> {
        self.routes.get(Address::pair(prefix))
    }

    #[inline]
    fn lookup(&self, address: T::Address) -> Option<NextHop> {
        let Some(entries) = &self.entries else {
            return NextHop::from_entry(self.few.entry(address));
        };
        // One call for both would need three more instructions in the surrounding loop.
        let (entry, default) = (entries.found(address), entries.default().hop());
        NextHop::from_entry(if entry == 0 { default } else { entry })
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[T::Address], next_hops: &mut [u16]) {
        match &self.entries {
            Some(entries) => entries.entries(addresses, next_hops),
            None => self.few.entries(addresses, next_hops),
        }
    }

    fn reader(&mut self) -> Reader<T> {
        let shared =
            self.shared.get_or_insert_with(|| Shared::new(&self.few, self.entries.as_ref()));
        Reader::new(self.readers.add(), shared.clone())
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn iter(&self) -> impl Iterator<Item = (Self::Prefix, NextHop)> {
        let routes = self.routes.iter();
        routes.filter_map(|(pair, next_hop)| Some((T::Address::prefix(pair)?, next_hop)))
    }

    fn memory_bytes(&self) -> usize {
        let many = self.many.as_ref().map_or(0, |many| many.memory_bytes());
        let shared = self.shared.as_ref().map_or(0, |_| Shared::<T>::memory_bytes());
        many + shared + Few::<T::Address>::memory_bytes() + self.routes.memory_bytes()
    }
}
