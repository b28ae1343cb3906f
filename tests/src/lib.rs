//! End-to-end tests with real namespaces and traffic: the laboratory they work in.
//!
//! A [`Lab`] makes network namespaces, devices and bridges and takes all of them away again, also
//! those of a test that was killed. In a [`Namespace`] commands run with a time limit; [`Stream`]
//! gives the exact result for every packet; [`Leftovers`] finds the remains of Europa. Tests are
//! run by `make test`, one after the other.

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
pub use skip::{europa, missing, skipped};
pub use stream::{Received, Sink, Stream};
