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
//! | `relays`   | pools for packets that hosts send over lines                     |
//! | `router`   | one router: pool, process, back-off                              |
//! | `program`  | checks of users' own data planes before their start              |
//! | `queues`   | queues of ports, and their counters                              |
//! | `grants`   | files and sockets that routers may use                           |
//! | `capture`  | captures: permitted interfaces, duration                         |
//! | `bell`     | pipes by which processes wake each other                         |
//! | `cores`    | the CPUs of Europa                                               |
//! | `placement` | keeps routers off CPUs that receive much                        |
//! | `backoff`  | delays before a process that keeps failing is restarted          |
//! | `rest`     | the REST interface, on a thread of its own                       |
//! | `checker`  | tries configurations in a sandbox first                          |
//! | `control`  | passes closures from that thread into the loop                   |
//! | `store`    | keeps desired state on disk                                      |
//! | `drift`    | finds changes that other programs have made                      |
//! | `events`   | the list of events                                               |
//! | `logs`     | the processes' logs: bounded, shown from their end               |
//! | `meters`   | the highest received rate of each slice and port                 |
//! | `stats`    | counters for the REST interface                                  |
//! | `metrics`  | the same for Prometheus                                          |
//! | `slices`   | CPU and memory that slices reserve                               |
//! | `slow_path`| routers' own Linux: made, followed, its programs kept running    |
//! | `kept`     | records for the next node, which adopts running processes        |
//! | `leftovers`| removes the objects of a killed node                             |
//! | `doctor`   | checks the machine, and explains each finding                    |
//!
//! # The loop and its threads
//!
//! One loop (`node`) owns all state that changes. REST handlers send it closures (`control`). These have
//! threads of their own: the store, the search for changes by other programs (`drift`), spare pools
//! (`node/pools`), link states, routes, and programs of slow paths. A step that takes the kernel milliseconds
//! (eBPF programs, pools, devices, hosts, slow paths) starts a thread (`node/beside`); the loop repeats the
//! step when the result is there. Answers of routers come at any time (`node/answers`). Orders to the switch have
//! deadlines. The node counts turns of the loop over 5 ms of CPU time.
//!
//! # Adoption
//!
//! A killed node leaves all processes running. With its first order each process gets a listening socket
//! in `kept/`, a file system in memory that only root can enter, and waits there for the next node. `kept/`
//! also has a record with the facts that neither the pins nor the kernel have, and the memory and pipes that
//! outlive a switch. A record counts once the router is complete in the tables, and not during its restart.
//! The next node adopts each object that equals the plan of the stored documents, corrects the switch,
//! removes all other entries from the tables, and starts the rest by an ordinary change (`node/adopt`).
//!
//! # Changes
//!
//! A change affects only the objects that differ. Another link, line or port device of an interface is a change
//! of the tables and the switch; the router keeps running. A restarted router has a *successor* process, which takes over
//! when it is ready (`node/restart`). A process is killed and reaped on drop until a record exists for it.
//! If the machine refuses a step, the error is a `Fault` with object, field and message, which
//! `rest/apply` shows at its place in the document.
//!
//! # Reservations
//!
//! `api` refuses documents that contradict each other. The node refuses reservations beyond the machine
//! (`slices`, `filters`), before it applies anything. Once a round the loop compares queues, meters and
//! control groups with the documents, and corrects them.

mod backoff;
mod bell;
mod body;
mod cages;
mod capture;
mod checker;
mod control;
mod cores;
pub mod doctor;
mod drift;
mod events;
mod filters;
mod grants;
mod hosts;
mod instance;
mod kept;
mod leftovers;
mod logs;
mod meters;
mod metrics;
mod node;
mod placement;
mod ports;
mod program;
mod queues;
mod relays;
mod rest;
mod router;
mod slices;
mod slow_path;
mod stats;
pub mod store;
mod switch;

pub use cages::try_in_kernel;
pub use hosts::{
    group as host_group, inside_of as host_inside, namespace_of as host_namespace,
    note_code as note_host_code,
};
pub use instance::{Instance, Lifetime};
pub use node::{Settings, run};
pub use rest::openapi;

use europa_api::Fault;
use europa_sandbox::descriptors_hint;

/// Removes the objects of a killed node; returns those that could not be removed.
///
/// # Errors
/// The errors that prevented a removal.
pub fn clean_up(instance: &Instance) -> Result<Vec<String>, NodeError> {
    leftovers::remove(instance)
}

/// Why the node could not do something.
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
    /// Another node runs, or none does, or a document cannot be carried out.
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
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, NodeError>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, NodeError> {
        self.map_err(|error| NodeError::Io { what: what.into(), error: error.into() })
    }
}
