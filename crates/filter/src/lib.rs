//! Ternary filters in software, like those of a TCAM: keys of 64 to 320 bits, and rules with a
//! value, a mask and a priority each. The slice's number stands in front of every key.
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
//! in one hash table, a *tuple*. It hashes the bits that all masks of its rules contain. A look-up
//! probes one tuple after the other, in the order of their highest ranks, until its result outranks
//! all further tuples. A rule joins a tuple with a less specific mask while few rules share its
//! place there (`merge`, after TupleMerge 2019). So 100,000 rules make some tens of tuples rather
//! than hundreds. Each slice has its own tuples: its rules can neither match nor slow packets of
//! another slice.
//!
//! An exact-match cache ([`Cache`]) precedes the table. Any batch of changes empties it, because it
//! increments the table's epoch.
//!
//! This is a separate crate, not a module of `lookup`. It shares nothing with routing tables, whose
//! keys are addresses and whose longest match wins. So it builds without their dependencies.
//!
//! # Changes
//!
//! [`Table::apply`] makes a whole batch of changes, or none of them if one is impossible. A
//! [`Writer`] does so while [`Reader`]s on other threads look up; each of them sees the whole batch
//! or nothing of it. Adding a rule costs one probe of each tuple that the rule could join; removing
//! a rule costs a search in one chain.
//!
//! # Bounds
//!
//! A look-up costs one probe for each tuple (mostly one byte from the second-level cache) until the
//! best rule is found, and the chain of its hash value. A slice with many masks that have nothing
//! in common makes its own look-ups slow: in the worst case there is a tuple for each mask.
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
