//! The role of a connection.

use crate::receive::Receiver;
use crate::transmit::Transmitter;

/// The rings of an established connection. Each can be used by a separate thread.
pub struct Link {
    /// To receive from, in the order of their numbers; one at least.
    pub receivers: Vec<Receiver>,
    /// To transmit into, in the order of their numbers; one at least.
    pub transmitters: Vec<Transmitter>,
    /// Name of the peer's program, e.g. `DPDK 22.11.11`.
    pub application: String,
    /// Name of the peer's interface.
    pub interface: String,
}
