//! IPv4: DIR-24-8 (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory
//! Access Speeds, INFOCOM 1998).

use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use zerocopy::FromZeros;

use crate::TableFull;
use crate::default_route::DefaultRoute;
use crate::grace::{Free, Readers};
use crate::pages::Pages;
use crate::routes::{Address, Routes};
use crate::table::{Arrays, Entries, Table};

/// Entries of the first table: one for each /24.
const FIRST: usize = 1 << 24;
/// Groups of the second table, each for one /24 with longer routes in it.
const GROUPS: usize = 1 << 15;
const GROUP_LEN: usize = 1 << 8;
const SECOND: usize = GROUPS * GROUP_LEN;

/// Flag: the other 15 bits of an entry are a group's number.
const GROUP: u16 = 0x8000;

/// Longest prefix match for IPv4 in one or two loads; with up to 127 routes, by a short search.
///
/// The first 24 bits of an address index a table of 2^24 entries of two bytes. An entry is a next
/// hop, 0 for none, or the number of a group of 256 entries for the last byte. The default route is
/// stored separately and replaces 0, so it needs no entry, and its change touches none.
///
/// This takes 48 MiB of address space. At most 32 MiB are resident, plus 512 bytes for each /24
/// with longer routes, up to 32768 of them. With few routes only the pages under them are resident
/// (a /16 covers 512 bytes), and look-ups to few destinations stay in the first-level cache. A
/// table that has never had more than 127 routes has none of this, and takes two kilobytes.
///
/// A change costs time in proportion to the /24s that its prefix covers and the routes inside it; a
/// change of the default route costs nothing.
pub type Dir24 = Table<Many>;

/// The storage for many routes.
pub struct Many {
    tables: Arc<Tables>,
    groups: Groups,
    /// Pages of both tables, the second after the first.
    pages: Pages,
}

/// The data that look-ups read.
pub struct Tables {
    first: Box<[AtomicU16; FIRST]>,
    second: Box<[AtomicU16; SECOND]>,
    default: DefaultRoute,
}

/// Which groups are in use.
struct Groups {
    free: Free<u16>,
    /// Groups with this number or a higher one were never used.
    fresh: u16,
}

impl Groups {
    fn take(&mut self, readers: &mut Readers) -> Option<u16> {
        self.free.take(readers).or_else(|| {
            let group = self.fresh;
            (usize::from(group) < GROUPS).then(|| {
                self.fresh += 1;
                group
            })
        })
    }
}

impl Tables {
    #[inline(always)]
    fn first(&self, address: u32) -> &AtomicU16 {
        &self.first[(address >> 8) as usize]
    }

    /// The entry for `address` in a group; bits above a group's number are ignored.
    #[inline]
    fn second(&self, group: u16, address: u32) -> &AtomicU16 {
        let group = usize::from(group & !GROUP);
        &self.second[group * GROUP_LEN + (address & 0xff) as usize]
    }

    /// Sets the entry of all addresses from `first` to `last`. They must be whole /24s unless there
    /// is a group.
    fn paint(&self, first: u32, last: u32, entry: u16) {
        for block in first >> 8..=last >> 8 {
            let start = block << 8;
            let here = self.first(start);
            let old = here.load(Ordering::Relaxed);
            if old & GROUP == 0 {
                here.store(entry, Ordering::Relaxed);
                continue;
            }
            for address in first.max(start)..=last.min(start | 0xff) {
                self.second(old, address).store(entry, Ordering::Relaxed);
            }
        }
    }
}

fn zeroed<T: FromZeros>() -> Box<T> {
    T::new_box_zeroed().unwrap_or_else(|_| handle_alloc_error(Layout::new::<T>()))
}

impl Entries for Tables {
    type Address = u32;

    #[inline]
    fn found(&self, address: u32) -> u16 {
        // Acquire pairs with the publication of a group; a plain load on x86.
        let entry = self.first(address).load(Ordering::Acquire);
        if entry & GROUP == 0 {
            return entry;
        }
        self.second(entry, address).load(Ordering::Relaxed)
    }

    #[inline]
    fn entries(&self, addresses: &[u32], next_hops: &mut [u16]) {
        let default = self.default.hop();
        // All loads of the first table come before any use of one. So their misses overlap even if
        // branches below are mispredicted.
        let mut all = 0;
        for (next_hop, &address) in next_hops.iter_mut().zip(addresses) {
            let entry = self.first(address).load(Ordering::Acquire);
            *next_hop = entry;
            all |= entry;
        }
        let pairs = next_hops.iter_mut().zip(addresses);
        if all & GROUP != 0 {
            for (next_hop, &address) in pairs {
                let mut entry = *next_hop;
                if entry & GROUP != 0 {
                    entry = self.second(entry, address).load(Ordering::Relaxed);
                }
                *next_hop = if entry == 0 { default } else { entry };
            }
        } else if default != 0 {
            for (next_hop, _) in pairs {
                *next_hop = if *next_hop == 0 { default } else { *next_hop };
            }
        }
    }

    fn default(&self) -> &DefaultRoute {
        &self.default
    }
}

impl Many {
    /// Makes sure that the /24 of `address` has a group.
    fn add_group(
        &mut self,
        (address, prefix_bits): (u32, u8),
        readers: &mut Readers,
    ) -> Result<(), TableFull> {
        let here = self.tables.first(address);
        let entry = here.load(Ordering::Relaxed);
        if entry & GROUP != 0 {
            return Ok(());
        }
        let what = "groups for prefixes longer than 24 bits";
        let full = TableFull { prefix_bits, what, capacity: GROUPS };
        let group = self.groups.take(readers).ok_or(full)?;
        for last_byte in 0..=0xff {
            self.tables.second(group, last_byte).store(entry, Ordering::Relaxed);
        }
        here.store(GROUP | group, Ordering::Release);
        let at = (FIRST + usize::from(group) * GROUP_LEN) * size_of::<AtomicU16>();
        self.pages.touch(at, at + GROUP_LEN * size_of::<AtomicU16>() - 1);
        self.touch_first(address, address);
        Ok(())
    }

    fn touch_first(&mut self, first: u32, last: u32) {
        let at = |address: u32| (address >> 8) as usize * size_of::<AtomicU16>();
        self.pages.touch(at(first), at(last));
    }
}

impl Arrays for Many {
    type Address = u32;
    type Entries = Tables;

    fn new() -> Self {
        let tables = Tables { first: zeroed(), second: zeroed(), default: DefaultRoute::none() };
        let pages = Pages::of((FIRST + SECOND) * size_of::<AtomicU16>());
        let groups = Groups { free: Free::new(), fresh: 0 };
        Self { tables: Arc::new(tables), groups, pages }
    }

    #[inline(always)]
    fn entries(&self) -> &Arc<Tables> {
        &self.tables
    }

    fn make_way(
        &mut self,
        _: &Routes<u32>,
        prefix: (u32, u8),
        readers: &mut Readers,
    ) -> Result<(), TableFull> {
        if prefix.1 > 24 { self.add_group(prefix, readers) } else { Ok(()) }
    }

    fn paint(&mut self, routes: &Routes<u32>, prefix: (u32, u8), entry: u16) {
        if prefix.1 == 0 {
            self.tables.default.set(entry);
            return;
        }
        routes.for_each_gap(prefix, |first, last| {
            self.tables.paint(first, last, entry);
            self.touch_first(first, last);
        });
    }

    /// Frees the group of this /24 if it contains no longer route.
    fn clear_way(&mut self, routes: &Routes<u32>, prefix: (u32, u8), readers: &mut Readers) {
        if prefix.1 <= 24 {
            return;
        }
        let block = (prefix.0.first(24), 24);
        let here = self.tables.first(prefix.0);
        let entry = here.load(Ordering::Relaxed);
        if entry & GROUP != 0 && !routes.has_longer(block) {
            here.store(routes.covering_entry(block), Ordering::Relaxed);
            self.groups.free.put(entry & !GROUP, readers);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.pages.bytes()
    }
}

impl Dir24 {
    /// An empty table with its arrays, for many routes.
    pub fn for_many() -> Self {
        Self::with(Some(Many::new()))
    }

    /// Prefetches the first entry for a look-up of `address`.
    #[inline(always)]
    pub fn prefetch(&self, address: u32) {
        // Few routes are in the cache.
        if let Some(tables) = &self.entries {
            europa_pool::prefetch(tables.first(address));
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::Ipv4Prefix;

    use super::*;
    use crate::{NextHop, RouteTable};

    fn hop(number: u16) -> NextHop {
        NextHop::new(number).unwrap()
    }

    fn prefix(text: &str) -> Ipv4Prefix {
        text.parse().unwrap()
    }

    fn groups(table: &Dir24) -> &Groups {
        &table.many.as_ref().unwrap().groups
    }

    #[test]
    fn groups_come_and_go() {
        let mut table = Dir24::for_many();
        table.insert(prefix("10.0.0.0/8"), hop(1)).unwrap();
        table.insert(prefix("10.0.0.5/32"), hop(2)).unwrap();
        table.insert(prefix("10.0.0.0/25"), hop(3)).unwrap();
        assert_eq!(groups(&table).fresh, 1);
        for (address, found) in [(0x0a00_0005, 2), (0x0a00_0006, 3), (0x0a00_0080, 1)] {
            assert_eq!(table.lookup(address), Some(hop(found)), "{address:x}");
        }
        table.remove(prefix("10.0.0.5/32"));
        assert_eq!(groups(&table).free.ready(), 0);
        table.remove(prefix("10.0.0.0/25"));
        assert_eq!(groups(&table).free.ready(), 1);
        assert_eq!(table.lookup(0x0a00_0005), Some(hop(1)));
        table.insert(prefix("11.0.0.0/32"), hop(4)).unwrap();
        assert_eq!((groups(&table).fresh, groups(&table).free.ready()), (1, 0));
    }

    #[test]
    fn a_full_table_says_so_and_keeps_its_answers() {
        let mut table = Dir24::for_many();
        for block in 0..GROUPS as u32 {
            let host = Ipv4Prefix::new((block << 8).into(), 32).unwrap();
            table.insert(host, hop(1)).unwrap();
        }
        let more = prefix("200.0.0.0/25");
        let error = table.insert(more, hop(2)).unwrap_err();
        assert_eq!((error.prefix_bits, error.capacity), (25, GROUPS));
        assert_eq!((table.len(), table.get(more)), (GROUPS, None));
        assert_eq!(table.lookup(0xc800_0000), None);
        assert_eq!(table.lookup(0x0000_0100), Some(hop(1)));
        table.insert(prefix("0.0.0.0/25"), hop(3)).unwrap();
        table.remove(prefix("0.0.1.0/32")).unwrap();
        table.insert(more, hop(2)).unwrap();
        assert_eq!(table.lookup(0xc800_0000), Some(hop(2)));
        assert_eq!(table.lookup(0x0000_0100), None);
    }
}
