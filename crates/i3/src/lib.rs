//! The Internet Indirection Infrastructure (Stoica et al., SIGCOMM 2002).
//!
//! Packets go to ids instead of hosts. A receiver inserts a trigger (id, address) at the server that
//! is responsible for the id; the server sends packets for the id on to the address, or to further
//! ids. Nothing here reads a clock or opens a socket.
//!
//! | file | concern |
//! |---|---|
//! | `id` | ids, keys, positions on the ring |
//! | `wire` | the packets of the public code |
//! | `constraint`, `nonce` | which triggers are let in |
//! | `table`, `trie` | the triggers of a server |
//! | `name` | ids from names |

pub mod constraint;
mod id;
mod name;
pub mod nonce;
pub mod table;
mod trie;
pub mod wire;

pub use id::{ID_BITS, Id, Key, LEAST_PREFIX_BITS, Prefix};
pub use name::Named;
