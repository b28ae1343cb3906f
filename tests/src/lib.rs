//! The laboratory for end-to-end tests with real namespaces and traffic.
//!
//! A [`Lab`] makes network namespaces, devices and bridges and removes all of them, also those of a
//! killed test. In a [`Namespace`] commands run with a time limit; a [`Stream`] gives the exact
//! result for every packet; [`Leftovers`] finds the remains of Europa. `make test` runs the tests
//! one after the other.

mod capture;
mod command;
mod hijack;
mod iperf;
mod lab;
mod leftovers;
mod namespace;
mod node;
pub mod page;
mod ping;
mod scapy;
mod skip;
mod stream;

pub use capture::{Capture, Captured, tshark};
pub use command::{Error, Output, Process, run, stop};
pub use hijack::{ATTACKS, Hijacked, Neighbours, Report, can_hijack};
pub use iperf::{Iperf, IperfServer};
pub use lab::Lab;
pub use leftovers::Leftovers;
pub use namespace::Namespace;
pub use node::{Counters, Node};
pub use ping::Ping;
pub use skip::{europa, kernel_lacks, missing, patience, skipped};
pub use stream::{Received, Sink, Stream};
