//! Route look-up: DIR-24-8 for IPv4, a multibit trie for IPv6.
//!
//! Both tables have the methods of [`RouteTable`] and are built alike: the routes
//! as they were given are on record in a [`prefix_trie::PrefixMap`]; beside it
//! lies what packets look at, arrays of small integers in which every answer is
//! already worked out. A change touches only the entries of its prefix that no
//! more specific route covers, and gives each of them its new answer in one store.
//!
//! The arrays are allocated once, zeroed, at their full size: pages that no route
//! touches cost address space only, and no entry ever moves. A table of up to 127 routes has
//! none of them, but stretches of addresses in two kilobytes (`few.rs`), which every change
//! works out anew; it stays large once it has been.
//!
//! # Reading while writing
//!
//! Entries of the arrays are atomics already (plain loads on x86), nodes are filled before
//! they are published, and an address's answer goes from the old to the new one
//! in one store. For readers on other threads two things are still missing: the
//! arrays behind an `Arc`, apart from the routes on record; and a grace period
//! before a freed group or node is used again, because a reader may hold its
//! number between two loads.

mod dir24;
mod few;
mod multibit6;
mod next_hop;
mod pages;
mod routes;

pub use dir24::Dir24;
pub use multibit6::Multibit6;
pub use next_hop::NextHop;

/// The table has no room for the nodes that a route needs; it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for {prefix_bits}-bit prefixes: all {capacity} {what} are in use")]
pub struct TableFull {
    /// Length of the prefix that was to be inserted.
    pub prefix_bits: u8,
    /// What there is none left of.
    pub what: &'static str,
    /// How many there are.
    pub capacity: usize,
}

/// Longest prefix match. Next hops are small numbers, see [`NextHop`].
pub trait RouteTable {
    /// An address as a number: `u32` or `u128`.
    type Address: Copy;
    /// A prefix.
    type Prefix: Copy;

    /// Adds a route, or changes its next hop. Returns the one it had.
    fn insert(
        &mut self,
        prefix: Self::Prefix,
        next_hop: NextHop,
    ) -> Result<Option<NextHop>, TableFull>;

    /// Removes a route; its addresses fall back to the route that covers it.
    /// Returns the next hop it had.
    fn remove(&mut self, prefix: Self::Prefix) -> Option<NextHop>;

    /// Next hop of exactly this route.
    fn get(&self, prefix: Self::Prefix) -> Option<NextHop>;

    /// Next hop of the longest prefix that holds `address`.
    fn lookup(&self, address: Self::Address) -> Option<NextHop>;

    /// Next hops of many addresses, 0 where there is no route: `next_hops[i]` is
    /// that of `addresses[i]`; of the longer slice, the rest is left alone. The
    /// loads of different addresses overlap, so that a batch costs a fraction of
    /// the single look-ups; 32 to 256 addresses are a good size.
    fn lookup_batch(&self, addresses: &[Self::Address], next_hops: &mut [u16]);

    /// Number of routes.
    fn len(&self) -> usize;

    /// Whether there is no route.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All routes, by address, shorter prefixes first.
    fn iter(&self) -> impl Iterator<Item = (Self::Prefix, NextHop)>;

    /// Upper bound of the memory in use, in bytes: what the routes on record take
    /// and what entries that were ever written can have made resident.
    fn memory_bytes(&self) -> usize;
}
