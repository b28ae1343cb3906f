//! The slow path: a router's own Linux, and a mirror of its routes in the fast path.
//!
//! A router with a slow path has a network namespace `europa.INSTANCE.SLICE.ROUTER` with a veth for each
//! of its interfaces. Linux there owns addresses, neighbours, routes and errors. The fast path forwards the
//! packets that its tables cover, and passes all others to Linux unchanged. So only one of the two
//! decrements the TTL.
//!
//! | file         | concern                                                          |
//! |--------------|------------------------------------------------------------------|
//! | `namespace`  | a router's namespace and its settings                            |
//! | `carrier`    | the inner device has no carrier while the port or far end is down |
//! | `device`     | veth pairs, addresses, static routes and neighbours               |
//! | `message`    | netlink messages: bytes to values                                 |
//! | `links`      | devices: interfaces, and their states                             |
//! | `fib`        | routes of one family, and those sent to the fast path             |
//! | `neighbours` | neighbours, and those that the fast path uses                     |
//! | `mirror`     | follows all of these and updates the fast path                    |
//! | `users`      | the user namespace: its root has no rights on the host            |
//! | `environment`| the file system and the rights of its programs                    |
//! | `files`      | its files, and the paths of the machine that they hide            |
//! | `view`       | a root directory of its own: an overlay                           |
//! | `place`      | writes files there while programs run                             |
//! | `init`       | process 1 of the pid namespace; reaps processes                   |
//! | `uplink`     | the veth pair to the machine for packets that Linux starts        |
//! | `output`     | copies a program's output into its log                            |
//! | `policy`     | the settings of Linux that affect forwarding, for each interface  |
//! | `aliases`    | IPv4 addresses that stand for IPv6 next hops                      |
//! | `intern`     | values that many routes share                                     |
//!
//! # How the fast path follows Linux
//!
//! - One thread a router reads netlink messages and writes lines to the elements' `load` handlers, over a
//!   socket of its own: 512 changes an order, one order between two rounds of the engine.
//! - The thread reads all tables again after a lost message, and after changes that the kernel does not
//!   announce (IPv4 routes of a device that goes down). For an adopted router it first reads the elements'
//!   tables, and removes the entries that Linux does not have.
//! - Firewalls, rules, IPsec, qdiscs, masters and sysctls become a policy for each interface. `HostGate` and
//!   the forwarding elements send the packets that it may affect to Linux, counted by reason. Until all
//!   settings are read, and after lost messages, all packets go to Linux.
//! - `HostPolice` limits the packets to Linux by class and interface; routing protocols go first.
//! - Every 10 s the mirror has Linux probe the stale neighbours that the fast path uses.
//!
//! # Processes
//!
//! - The namespace belongs to a user namespace of the router's own. A short-lived process, `europa hold`,
//!   makes both, as a thread cannot. Each slow path has its own range of user ids, claimed in
//!   `/run/europa/.ids`.
//! - `europa init` is process 1 of the router's pid namespace. Commands of `europa exec`, and one
//!   `europa daemon` for each program, are in this namespace. `europa daemon` makes a further pid namespace
//!   for its program and copies at most 1 MB a second of its output.

mod aliases;
pub mod carrier;
mod device;
pub mod environment;
mod fib;
mod files;
pub mod init;
mod intern;
mod links;
mod message;
mod mirror;
pub mod namespace;
mod neighbours;
mod output;
mod place;
mod policy;
pub mod uplink;
pub mod users;
mod view;

pub use device::{
    Inner, StaticNeighbour, StaticRoute, add_static, create, remove_neighbour, remove_static,
};
pub use mirror::{MirrorError, Notice, Progress, Spec, resume, run as mirror};
pub use policy::OWN_SOURCE;
