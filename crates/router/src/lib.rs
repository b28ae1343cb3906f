//! A router on its packet pool: a process, or a guest of the switch.
//!
//! | file      | concern                                              |
//! |-----------|------------------------------------------------------|
//! | `orders`  | the node's orders to a router, and its answers       |
//! | `devices` | the router's interfaces: rings of its packet pool    |
//! | `grants`  | files and sockets that were opened for it            |
//! | `graph`   | from a configuration's text to a running graph       |
//! | `running` | a graph on a pool: rounds, orders                   |
//! | `ledger`  | where its packets are                                |
//! | `process` | the process: orders, rounds of the engine, and sleep |
//! | `guest`   | the same inside the switch, within bounds            |
//! | `program` | the same for a data plane of the owner's own         |
//! | `extended`| the same with elements of the owner's own            |
//!
//! A router process has no privilege. It has only these descriptors: its pool, its control socket,
//! three to sleep and wake (the waker, a pipe, and the switch's doorbell), and its document's
//! grants.

mod devices;
pub mod extended;
mod grants;
pub mod graph;
mod guest;
mod ledger;
pub mod orders;
mod process;
mod program;
mod running;

pub use europa_engine::Stock;
pub use graph::{More, check, none};
pub use guest::{Guest, GuestStats};
pub use ledger::Ledger;
pub use process::{RouterError, run};
pub use program::become_program;
