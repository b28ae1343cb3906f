//! MPLS in a router's fast path: the label table, label stack entries, and the messages between a
//! router and its slice's signaller.
//!
//! | file      | concern                                                                |
//! |-----------|------------------------------------------------------------------------|
//! | `stack`   | a label stack entry, and what swap, push and pop do to TTL and TC      |
//! | `table`   | look-up by label in two loads                                          |
//! | `police`  | a token bucket                                                         |
//! | `message` | messages from a signaller to a router, and back                        |

mod message;
mod police;
mod stack;
mod table;

pub use message::{Datagram, Entry, FromRouter, Head, Hop, LspId, ToRouter, WhileDown};
pub use police::Bucket;
pub use stack::{Model, StackEntry};
pub use table::{BadLabel, Table};
