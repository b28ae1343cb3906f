//! The node: owns the desired state of one host, and supervises the switch, the routers and all other
//! processes.
//!
//! | file       | concern                                                          |
//! |------------|------------------------------------------------------------------|
//! | `instance` | names and paths: run directory, socket, pins, logs               |
//! | `node`     | the process: one loop over children, requests and timers         |
//! | `hosts`    | end systems: made, attached, removed                             |
//! | `ports`    | opening, preparing and attaching devices                         |
//! | `switch`   | the switch: started, configured, restarted                       |
//! | `link_tunnels` | links to other machines: their sockets                       |
//! | `relays`   | pools for packets that hosts send over lines                     |
//! | `routers`  | the routers: pools, processes, back-off                          |
//! | `pools`    | packet pools, made ahead of need                                 |
//! | `kernel`   | eBPF maps and programs: opened, loaded                           |
//! | `objects`  | ports, routers and relays, and the switch's orders about them    |
//! | `change`   | the change under way: engine, plans, trials, store               |
//! | `context`  | what all parts use and none changes                              |
//! | `beside`   | long work, in threads of its own                                 |
//! | `program`  | where programs are; checks of users' own data planes             |
//! | `queues`   | queues of ports, and their counters                              |
//! | `grants`   | files and sockets that routers may use                           |
//! | `capture`  | captures: permitted interfaces, duration                         |
//! | `bell`     | pipes by which processes wake each other                         |
//! | `cores`    | the CPUs of Europa                                               |
//! | `backoff`  | delays before a process that keeps failing is restarted          |
//! | `front`, `requests` | what the interface to users has of the node: its questions |
//! | `doors`    | sockets in slow paths, which the front serves                    |
//! | `control`  | passes closures of other threads into the loop                   |
//! | `store`    | keeps desired state on disk                                      |
//! | `events`   | the list of events                                               |
//! | `logs`     | the processes' logs: bounded, shown from their end               |
//! | `meters`   | the highest received rate of each slice and port                 |
//! | `announce` | where the addresses of a router are that has come to a port      |
//! | `ssh`      | logins of users to routers by SSH                                |
//! | `stats`    | counters for the REST interface                                  |
//! | `signallers` | a process for each slice that signals flows                    |
//! | `slices`   | what slices reserve of CPU and memory                            |
//! | `slow_path`| routers' own Linux: made, followed, and its programs kept running |
//! | `uplinks`  | devices and rules by which slow paths reach the outside          |
//! | `wires`    | links of kernel routers: devices made and taken away             |
//! | `kept`     | what is written down for the next node, which adopts what runs   |
//! | `leftovers`| what a killed node left behind, and taking it away               |
//! | `doctor`   | what this machine can and cannot do, and what follows            |

mod announce;
mod backoff;
mod bell;
mod beside;
mod body;
mod cages;
mod capture;
mod change;
mod context;
mod control;
mod cores;
pub mod doctor;
mod doors;
mod events;
mod filters;
mod front;
mod grants;
mod hosts;
mod images;
mod instance;
mod kept;
mod kernel;
mod leftovers;
mod link_tunnels;
pub mod logs;
mod meters;
mod node;
mod objects;
mod pools;
mod ports;
mod program;
mod queues;
mod relays;
mod requests;
mod routers;
mod signallers;
mod slices;
mod slow_path;
pub mod ssh;
mod stats;
pub mod store;
mod switch;
mod uplinks;
mod wires;
mod witness;

pub use cages::try_in_kernel;
pub use context::Settings;
pub use doors::OpenedDoor;
pub use europa_substrate::boot_ns;
pub use events::{By, Events, now};
pub use filters::OwnChanges;
pub use front::Behind;
pub use hosts::{
    group as host_group, inside_of as host_inside, namespace_of as host_namespace,
    note_code as note_host_code,
};
pub use instance::{Instance, Lifetime};
pub use node::run;
pub use requests::Requests;

use europa_api::{Fault, Problem, Router};
use europa_sandbox::descriptors_hint;

/// Removes the objects of a killed node. Returns those that could not be removed.
///
/// # Errors
/// The errors that prevented a removal.
pub fn clean_up(instance: &Instance) -> Result<Vec<String>, NodeError> {
    leftovers::remove(instance)
}

/// Reports the parts of a router that this machine lacks: programs, users, folders, CPUs.
pub fn check_machine(router: &Router, problems: &mut Vec<Problem>) {
    slow_path::check(router, problems);
    program::check(router, problems);
    cores::check(router, &cores::cores(), problems);
}

/// The reason why the node failed to do something.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A file or directory.
    #[error("{what}: {error}{}", descriptors_hint(error.raw_os_error().unwrap_or(0)))]
    Io {
        /// The attempted operation.
        what: String,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The substrate.
    #[error(transparent)]
    Substrate(#[from] europa_substrate::Error),
    /// A device.
    #[error(transparent)]
    Port(#[from] europa_port::PortError),
    /// Starting a process.
    #[error(transparent)]
    Sandbox(#[from] europa_sandbox::SandboxError),
    /// Talking to a process.
    #[error("{who}: {error}{}", match error {
        europa_channel::ChannelError::Socket(errno) => descriptors_hint(*errno as i32),
        _ => "",
    })]
    Channel {
        /// The receiver.
        who: String,
        /// The error.
        error: europa_channel::ChannelError,
    },
    /// Desired state.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// A field of an object that this machine refuses.
    #[error("{0}")]
    Fault(Box<Fault>),
    /// Another node runs, or none does, or a document is impossible.
    #[error("{0}")]
    Refused(String),
}

impl From<Box<Fault>> for NodeError {
    fn from(fault: Box<Fault>) -> NodeError {
        NodeError::Fault(fault)
    }
}

impl From<Fault> for NodeError {
    fn from(fault: Fault) -> NodeError {
        NodeError::Fault(Box::new(fault))
    }
}

/// Names the attempted operation.
pub trait Doing<T> {
    /// Adds the attempted operation `what` to the kernel's error.
    ///
    /// # Errors
    /// The error, as one of a node.
    fn doing(self, what: impl Into<String>) -> Result<T, NodeError>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, NodeError> {
        self.map_err(|error| NodeError::Io { what: what.into(), error: error.into() })
    }
}
