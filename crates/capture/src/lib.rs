//! Captures of interfaces: requests, records and files of `europa capture`.
//!
//! | file      | concern                                                          |
//! |-----------|------------------------------------------------------------------|
//! | `scene`   | the objects of a node: ports, routers, interfaces                |
//! | `target`  | which interfaces a name on the command line means                |
//! | `ask`     | the conversation with the node                                   |
//! | `session` | a running capture: rings, put in order                           |
//! | `compile` | pcap filters, compiled by libpcap                                |
//! | `change`  | an element's changes of a packet                                 |
//! | `line`    | one packet as a line of text                                     |
//! | `pcapng`  | packets as a file for Wireshark                                  |
//! | `wire`    | packets as lines of JSON, for readers on other machines          |
//!
//! The node passes the descriptors of a capture's rings to the peer of its socket, which only root
//! can open. When the peer closes the socket, the node stops the capture.

pub mod ask;
pub mod change;
pub mod compile;
pub mod line;
pub mod pcapng;
pub mod scene;
mod session;
mod target;
pub mod wire;

pub use session::{CaptureError, Packet, Session, describe};
pub use target::{Named, find};
