//! Route look-up: DIR-24-8 for IPv4, a multibit trie for IPv6.
//!
//! Both tables have the methods of [`RouteTable`] and the same structure: a
//! [`prefix_trie::PrefixMap`] holds the given routes, and look-ups use arrays of small integers, in
//! which every answer is precomputed. A change touches only the entries of its prefix that no more
//! specific route covers. Each of them gets its new answer in one store.
//!
//! The arrays are allocated once, zeroed, at their full size: pages that no route touches cost
//! address space only, and no entry ever moves. A table of up to 127 routes has no arrays. It has
//! ranges of addresses in two kilobytes (`few.rs`), which every change recomputes. A table that has
//! become large stays large.
//!
//! # Reading while writing
//!
//! A table has one owner, which changes it, and any number of [readers](Reader) on other threads
//! ([`RouteTable::reader`]). Entries of the arrays are atomics (plain loads on x86), nodes are
//! filled before they are published, and one store changes an address's answer. A reader repeats a
//! look-up if the default route answered it and has changed during it. A freed group or node waits
//! until no reader can hold its number (`grace.rs`, checked with loom). Few routes are published as
//! a whole (`shared.rs`). Owner and readers never wait for each other, and a table without readers
//! has no such cost.

// Under loom, only the grace period is compiled.
#[cfg_attr(loom, allow(dead_code, unreachable_pub))]
mod grace;

#[cfg(not(loom))]
mod default_route;
#[cfg(not(loom))]
mod dir24;
#[cfg(not(loom))]
mod few;
#[cfg(not(loom))]
mod multibit6;
#[cfg(not(loom))]
mod next_hop;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod routes;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod table;

#[cfg(not(loom))]
pub use dir24::Dir24;
#[cfg(not(loom))]
pub use multibit6::Multibit6;
#[cfg(not(loom))]
pub use next_hop::NextHop;
#[cfg(not(loom))]
pub use shared::{Batch, Reader};
#[cfg(not(loom))]
pub use table::Table;

/// The table has no room for the nodes that a route needs; it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for {prefix_bits}-bit prefixes: all {capacity} {what} are in use")]
pub struct TableFull {
    /// Length of the prefix to insert.
    pub prefix_bits: u8,
    /// The resource that is used up.
    pub what: &'static str,
    /// The capacity.
    pub capacity: usize,
}

/// Longest prefix match. Next hops are small numbers, see [`NextHop`].
#[cfg(not(loom))]
pub trait RouteTable {
    /// An address as a number: `u32` or `u128`.
    type Address: Copy;
    /// A prefix.
    type Prefix: Copy;
    /// The data that look-ups use in a table of many routes.
    type Arrays: table::Arrays<Address = Self::Address>;

    /// Adds a route, or changes its next hop. Returns the former one.
    fn insert(
        &mut self,
        prefix: Self::Prefix,
        next_hop: NextHop,
    ) -> Result<Option<NextHop>, TableFull>;

    /// Removes a route; its addresses fall back to the route that covers it. Returns its next hop.
    fn remove(&mut self, prefix: Self::Prefix) -> Option<NextHop>;

    /// Next hop of exactly this route.
    fn get(&self, prefix: Self::Prefix) -> Option<NextHop>;

    /// Next hop of the longest prefix that contains `address`.
    fn lookup(&self, address: Self::Address) -> Option<NextHop>;

    /// Next hops of many addresses, 0 without a route: `next_hops[i]` is that of `addresses[i]`.
    /// The rest of the longer slice is ignored. The loads of different addresses overlap, so a
    /// batch costs a fraction of single look-ups. Use 32 to 256 addresses.
    fn lookup_batch(&self, addresses: &[Self::Address], next_hops: &mut [u16]);

    /// Makes a reader, for any thread. When the table is dropped, the reader keeps the last routes.
    fn reader(&mut self) -> Reader<Self::Arrays>;

    /// Number of routes.
    fn len(&self) -> usize;

    /// Whether there are no routes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All routes, by address, shorter prefixes first.
    fn iter(&self) -> impl Iterator<Item = (Self::Prefix, NextHop)>;

    /// Upper bound of the memory in use, in bytes: the recorded routes, and the pages of all
    /// entries that were ever written.
    fn memory_bytes(&self) -> usize;
}
