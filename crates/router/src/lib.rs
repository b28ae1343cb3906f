//! The process of an isolated router: its pool, its engine, its sleep.
//!
//! | file      | concern                                              |
//! |-----------|------------------------------------------------------|
//! | `orders`  | what the node tells a router, and its answers        |
//! | `devices` | the router's interfaces: rings of its packet pool    |
//! | `graph`   | from a configuration's text to a running graph       |
//! | `process` | the process: orders, rounds of the engine, and sleep |
//!
//! A router process has no privilege, and no descriptors but its pool, its control
//! socket and three to sleep and wake: the waker, a pipe, and the switch's doorbell.

mod devices;
pub mod graph;
pub mod orders;
mod process;

pub use graph::check;
pub use process::{RouterError, run};
