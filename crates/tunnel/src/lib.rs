//! Links between machines: Ethernet frames in Geneve packets (RFC 8926). The code here does no I/O,
//! reads no clock, and allocates no memory for a packet.
//!
//! | file         | concern                                                        |
//! |--------------|----------------------------------------------------------------|
//! | `header`     | the header of a packet: Geneve and its two options             |
//! | `split`      | frames that are longer than the underlay carries               |
//! | `sequence`   | numbers of packets: lost, late, twice                          |
//! | `reassembly` | frames from their parts, bounded in number and time            |
//! | `sender`     | the sending end of a link                                      |
//! | `receiver`   | the receiving end of a link                                    |

mod header;
mod reassembly;
mod receiver;
mod sender;
mod sequence;
mod split;

pub use header::{HEADER_BYTES, Header, Key, MOST_HEADER_BYTES, Malformed, PART_BYTES, Part};
pub use reassembly::{PATIENCE_NS, Reassembly, WAITING_FRAMES};
pub use receiver::{Cause, Received, Receiver, Reception};
pub use sender::{Sender, Sent};
pub use sequence::{Numbers, Order, WINDOW};
pub use split::{MOST_PARTS, Split};
