//! The Internet Indirection Infrastructure (Stoica et al., SIGCOMM 2002).
//!
//! Packets are sent to ids instead of hosts. A receiver inserts a trigger (id, address) at the
//! server that is responsible for the id. The server forwards packets for the id to the address, or
//! to further ids. No code here reads a clock or opens a socket, except in `udp`.
//!
//! | file | concern |
//! |---|---|
//! | `id` | ids, keys, positions on the ring |
//! | `wire` | the packets of the public code |
//! | `constraint`, `nonce` | which triggers are accepted |
//! | `table`, `trie` | the triggers of a server |
//! | `message` | messages between servers |
//! | `ring` | Chord |
//! | `server` | a server |
//! | `client`, `name` | a client; ids from names |
//! | `udp` | sockets and the clock |

pub mod client;
pub mod constraint;
mod id;
mod message;
mod name;
pub mod nonce;
pub mod ring;
pub mod server;
pub mod table;
mod trie;
pub mod udp;
pub mod wire;

pub use id::{ID_BITS, Id, Key, LEAST_PREFIX_BITS, Prefix};
pub use message::{Codec, Member, Message, MessageError, Neighbours, Replica, Routed, SUCCESSORS};
pub use name::Named;
