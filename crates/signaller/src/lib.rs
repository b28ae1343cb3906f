//! The process that signals a slice's label switched paths (LSPs): one process serves all routers
//! of a slice.
//!
//! It has no network access. It receives datagrams of IP protocol 46 from a router's fast path over
//! a socket that the node makes. It returns datagrams to send, and the entries of the router's
//! label table, over the same socket. The state machine of each router is in `europa-signal`.
//!
//! | file      | concern                                                              |
//! |-----------|----------------------------------------------------------------------|
//! | `orders`  | messages from the node to it, and back                               |
//! | `process` | the loop: orders, routers' sockets, timers                           |
//! | `router`  | one router: its state machine, its label table                       |
//! | `heads`   | flows that begin at a router: made before broken                     |
//! | `search`  | paths with room for flows that name none                             |
//! | `trail`   | the path of an LSP that label tables have kept                       |
//! | `world`   | a state machine's surroundings: routes, neighbours, admission        |
//! | `convert` | values of one crate in the words of another                          |
//! | `show`    | reports of flows and their paths                                     |
//! | `cause`   | errors of the RFCs in words                                          |

mod cause;
mod convert;
mod heads;
pub mod orders;
mod process;
mod router;
mod search;
mod show;
mod trail;
mod world;

pub use process::{SignallerError, run};
