//! The slow path: a router's own Linux, and its routes in the fast path.
//!
//! A router with a slow path has a network namespace with a veth for each of its interfaces.
//! Its Linux owns neighbours and routes: what the fast path has no answer for goes there as it
//! came, and what Linux knows is told to the fast path.
//!
//! | file         | concern                                                          |
//! |--------------|------------------------------------------------------------------|
//! | `namespace`  | a router's namespace, and how Linux behaves there                |
//! | `carrier`    | a port or far end that is down takes the carrier away            |
//! | `device`     | veth pairs, addresses, static routes and neighbours               |
//! | `message`    | what the kernel says: bytes to values                             |
//! | `links`      | devices: which are interfaces, which work                         |
//! | `fib`        | routes of one family, and what of them has been told              |
//! | `neighbours` | neighbours, and which of them the fast path uses                  |
//! | `mirror`     | follows all of them and tells the fast path                       |
//! | `users`      | its user namespace: root there is nobody on the host               |
//! | `environment`| what programs there see, and what they may                       |
//! | `place`      | files there, written from outside while programs run              |
//! | `init`       | the first process of process numbers, and who waits for it       |
//! | `output`     | what a program prints, on its way into its log                    |
//! | `policy`     | what of Linux's decisions the fast path may make                 |
//! | `aliases`    | IPv4 addresses that stand for IPv6 routers                        |
//! | `intern`     | values that many routes share                                     |

mod aliases;
pub mod carrier;
mod device;
pub mod environment;
mod fib;
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
pub mod users;

pub use device::{
    Inner, StaticNeighbour, StaticRoute, add_static, create, remove_neighbour, remove_static,
};
pub use mirror::{MirrorError, Notice, Progress, Spec, resume, run as mirror};
