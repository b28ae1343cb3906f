//! The element library: one element, one file.
//!
//! The comment at the top of each file is the element's manual page, with the same sections in the
//! same order. Folders are categories: the first line of `mod.rs` is the heading. To add an
//! element, add its file and a line in `mod.rs`. `build.rs` then adds its class to the
//! [`registry`], and `make docs` adds its page. `shared` has the code that several folders use.

mod aggregate;
mod aqm;
mod basic;
mod bridge;
pub mod builtin;
mod check;
mod control;
mod device;
mod diagnose;
mod dump;
mod edit;
mod encap;
#[cfg(test)]
mod every_class;
mod filter;
mod forward;
mod generator;
mod icmp;
mod ip64;
mod ipsec;
mod lookup;
mod mpls;
mod neighbours;
mod passes;
mod prelude;
mod queues;
mod registry;
mod rewriter;
mod scheduling;
mod shaping;
mod shared;
mod sockets;
mod summary;
mod switching;
mod tcp;
#[cfg(test)]
mod testing;
mod threads;
mod times;
mod tunnel;
mod wifi;

pub use registry::registry;
