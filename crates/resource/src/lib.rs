//! Files and sockets that elements use: their names, and functions that open them.
//!
//! Elements request files and sockets, and a router's document grants them. Both use the same text
//! for a resource, so a grant matches exactly one name:
//!
//! ```text
//! read: /var/traces/in.pcap          connect: tcp 192.0.2.1:80
//! write: /var/traces/out.pcap        connect: udp 192.0.2.1:53 from 0.0.0.0:1053
//! listen: tcp 0.0.0.0:80             listen: unix /run/service.sock
//! listen: memif /run/a.sock          connect: memif /run/b.sock
//! ```
//!
//! | file      | concern                                        |
//! |-----------|------------------------------------------------|
//! | `name`    | names: reading and writing them                |
//! | `open`    | opening: by the user, and by a node for others |
//! | `connector` | connections for processes that may not make any |

mod connector;
mod name;
mod open;

pub use connector::{Connector, Missed};
pub use name::{Access, Kind, Place, Resource, Socket};
pub use open::accept;
