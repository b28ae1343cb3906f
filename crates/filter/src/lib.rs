//! Ternary filters, as a TCAM has them, in software: keys of 64 to 320 bits, of each rule a value
//! and a mask, and a priority. The slice's number stands in front of every key.
//!
//! | file         | concern                                                          |
//! |--------------|------------------------------------------------------------------|
//! | `rule`       | keys, rules, changes                                             |
//! | `table`      | the rules of all slices; a batch of changes; look-ups            |
//! | `tuple`      | rules with a common mask, hashed                                 |
//! | `merge`      | the tuple that a rule joins                                     |
//! | `cache`      | recent results by key                                           |
//! | `shared`     | many readers, one writer, counters                               |
//! | `five_tuple` | the usual key, and ClassBench's files                            |
//! | `pattern`    | what a rule wants of IPv4 and IPv6 packets, as values and masks  |
//!
//! # How a rule is found
//!
//! Tuple space search (Srinivasan, Suri and Varghese, SIGCOMM 1999): rules with similar masks are
//! in one hash table, a *tuple*, by the bits under a mask that all their masks contain. A look-up
//! probes one tuple after the other, in the order of their highest ranks, until its result outranks
//! all further tuples. Rules join a tuple with a less specific mask while few rules share their
//! place in it (`merge`, after TupleMerge 2019), so that 100,000 rules make some tens of tuples
//! rather than hundreds. Each slice has its own tuples: its rules can neither match nor slow
//! packets of another slice.
//!
//! An exact-match cache ([`Cache`]) precedes the table. Any batch of changes empties it by raising
//! the table's epoch.
//!
//! A crate of its own, not a module of `lookup`: it shares nothing with routing tables, whose keys
//! are addresses and whose longest match wins; and builds without what they depend on.
//!
//! # Changes
//!
//! [`Table::apply`] makes a batch of changes, or none of them if one cannot be made. A [`Writer`]
//! does so while [`Reader`]s on other threads look up, each seeing all of a batch or nothing.
//! Adding costs one probe of each tuple that the rule could join; removing, one chain.
//!
//! # Bounds
//!
//! A look-up costs one probe a tuple (mostly one byte from the second cache) until the best is
//! found, and the chain where its hash falls. A slice with many masks that have nothing in common
//! makes its own look-ups slow: at the worst a tuple for each of its masks.
//!
//! # Memory
//!
//! With a result of 8 bytes, a rule takes 88 bytes for keys of 128 bits and 176 for 320; and some
//! 20 in the map of numbers, and 26 to 104 in its tuple. A [`Writer`] has all of it twice, and each
//! [`Reader`] 16 bytes of counters for each place and 64 or 128 for each key of its cache.

mod cache;
mod five_tuple;
mod hash;
mod merge;
mod pattern;
mod rule;
pub mod shared;
mod table;
mod tuple;

pub use cache::Cache;
pub use five_tuple::{Filter, FilterError, FiveTuple, parse};
pub use pattern::{Fields, MOST_INTERFACES, Pattern, ipv4_key, ipv6_key};
pub use rule::{Change, Key, Rule, Slice};
pub use shared::{Batch, Counters, Hits, Reader, Writer};
pub use table::{Error, Found, Number, Table};
