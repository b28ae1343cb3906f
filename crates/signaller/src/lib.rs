//! The process that signals a slice's label switched paths: one for all routers of a slice.
//!
//! It has no network of its own. What a router's fast path takes in of IP protocol 46 comes by a
//! socket that the node has made, and what is to be sent goes back by it, with the entries of the
//! router's label table. The state machine of each router is in `europa-signal`.
//!
//! | file      | concern                                                              |
//! |-----------|----------------------------------------------------------------------|
//! | `orders`  | what the node tells it, and what it tells the node                   |
//! | `process` | the loop: orders, routers' sockets, timers                           |
//! | `router`  | one router: its state machine, its label table                       |
//! | `heads`   | flows that begin at a router: made before broken                     |
//! | `world`   | what a router's state machine asks: routes, neighbours, admission    |
//! | `convert` | values of one crate in the words of another                          |
//! | `show`    | what is told of flows and their paths                                |
//! | `cause`   | errors of the RFCs in words                                          |

mod cause;
mod convert;
mod heads;
pub mod orders;
mod process;
mod router;
mod show;
mod world;

pub use process::{SignallerError, run};
