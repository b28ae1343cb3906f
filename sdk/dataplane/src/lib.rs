//! A router's data plane as a program in Rust.
//!
//! The node starts the program that a router's document names (`fast_path: {program: [...]}`). The
//! program runs in the router's sandbox and inherits the descriptors of its packet pool; their
//! numbers are in its environment. It takes packets from receive rings, changes them in place, and
//! puts them into transmit rings.
//!
//! ```no_run
//! use europa_dataplane::{Batch, Pool};
//!
//! let mut pool = Pool::open()?;
//! let mut batch = Batch::new();
//! loop {
//!     for from in 0..2 {
//!         pool.receive(from, &mut batch);
//!         pool.send(1 - from, &mut batch);
//!     }
//!     pool.wait()?;
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), europa_dataplane::Error>(())
//! ```
//!
//! A turn of an interface has at most [`TURN`] packets, so a flooded interface does not delay the
//! others. Dropping a packet (by `drop`, or [`Batch::clear`]) frees its slot.
//!
//! [`headers`] gives access to a frame's headers and addresses, [`checksum`] to the Internet
//! checksum.

// The environment contains the numbers of the descriptors; see `start`.
#![allow(unsafe_code)]

pub mod headers;
mod pool;
mod start;

pub use europa_packet::{
    ArpPacket, EtherType, EthernetHeader, Header, Icmp6Header, IcmpHeader, IpProtocol, Ipv4Header,
    Ipv6Header, MacAddr, TcpHeader, UdpHeader, VlanTag, checksum,
};
pub use europa_pool::{Batch, Packet};
pub use pool::{Interface, Pool, TURN};
pub use start::Error;
