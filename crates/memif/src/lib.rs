//! memif 2.0: frames between two processes by shared memory, compatible with VPP and DPDK.
//!
//! One side is the [server](Role::Server), which listens on a socket. The other is the
//! [client](Role::Client), which connects and provides memory, rings and eventfds. A process that
//! may open a socket's path uses [`socket`]. All other modules need only descriptors, have no
//! threads and never block:
//!
//! - [`Greetings`] reads which interface a client wants, and a [`Port`] of that number accepts the
//!   client.
//! - A [`Port`] makes connections, one after another, and returns a [`Link`] of rings for each.
//! - A [`Receiver`] and a [`Transmitter`] move batches of frames. They allocate nothing, and make a
//!   system call only to wake a peer that requests it.
//!
//! A peer may be hostile. It can break its own connection and put invalid data into its own frames.
//! Every message, index and descriptor is checked where it is read, memory is used only if it
//! cannot shrink, and no call waits for the peer. A peer's mistakes end in a [`MemifError`], a
//! [`Fault`] or a [counter](Counters).
//!
//! Not supported: IP mode, private headers, regions in huge pages (DPDK's `zero-copy=yes`).

mod client;
mod config;
mod control;
mod error;
mod greeting;
mod layout;
mod link;
mod port;
mod receive;
mod ring;
mod server;
pub mod socket;
mod sys;
#[cfg(test)]
mod tests;
mod transmit;
mod wire;

pub use config::{Config, Role, secret};
pub use error::{ConfigError, Fault, MemifError, Violation};
pub use greeting::{Greeting, Greetings, MOST_SILENT};
pub use link::Link;
pub use port::{Event, Port};
pub use receive::{Buffer, Frame, Receiver};
pub use ring::{Counters, MOST_FRAME_BYTES};
pub use sys::{Chunk, Signal};
pub use transmit::{MappedPacket, Packet, Transmitter};
pub use wire::SECRET_BYTES;

/// Name of this program that the peer sees.
const APPLICATION: &str = concat!("Europa ", env!("CARGO_PKG_VERSION"));
