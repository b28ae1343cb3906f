//! The role of a connection.

use crate::receive::Receiver;
use crate::transmit::Transmitter;

/// The rings of a connection that has been made. Each can go to a thread of its own.
pub struct Link {
    /// To receive from, in the order of their numbers; one at least.
    pub receivers: Vec<Receiver>,
    /// To transmit into, in the order of their numbers; one at least.
    pub transmitters: Vec<Transmitter>,
    /// How the peer's program calls itself, e.g. `DPDK 22.11.11`.
    pub application: String,
    /// How the peer calls its interface.
    pub interface: String,
}
