//! Runs a Click configuration in this process, as the `click` program does, with its options,
//! messages and exit codes. It provides no isolation; only routers of a node have that.
//!
//! | file             | concern                                                          |
//! |------------------|------------------------------------------------------------------|
//! | `options`        | the command line                                                 |
//! | `load`           | from a text to a router, and the mistakes in it                  |
//! | `program`        | a program with elements of its own                               |
//! | `run`            | the whole of a run: load, loop, handlers at the end              |
//! | `rounds`         | the loop: rounds of the engine, sleep, signals, hot swap         |
//! | `clock`          | real, faster, slower and simulated time                          |
//! | `devices`        | Linux interfaces by packet sockets                               |
//! | `globals`        | handlers of the router itself                                    |
//! | `control_socket` | handlers over TCP and Unix sockets                               |
//! | `chatter_socket` | messages over the same                                           |
//! | `kernel_tun`     | tun and tap devices as elements, `FromHost` and `ToHost` among them |
//!
//! # Order
//! If the order of packets can be observed, each packet passes alone, as in Click
//! ([`load::shows_order`]). Other graphs run in batches.

mod chatter_socket;
mod clock;
mod control_socket;
mod devices;
mod globals;
mod kernel_tun;
pub mod load;
mod options;
mod program;
mod rounds;
mod run;

pub use options::{Options, Parsed, Source, parse};
pub use program::main;
pub use run::{Cost, registry, run, run_with};
