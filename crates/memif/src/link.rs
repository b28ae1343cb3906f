//! The role of a connection.

use crate::receive::Receiver;
use crate::transmit::Transmitter;

/// The rings of an established connection. Each can be used by a separate thread.
pub struct Link {
    /// The rings to receive from, at least one, in the order of their numbers.
    pub receivers: Vec<Receiver>,
    /// The rings to transmit into, at least one, in the order of their numbers.
    pub transmitters: Vec<Transmitter>,
    /// Name of the peer's program, e.g. `DPDK 22.11.11`.
    pub application: String,
    /// Name of the peer's interface.
    pub interface: String,
}
