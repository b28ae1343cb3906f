//! Supervises the switch and the routers of one host; owns desired state.
//!
//! | file       | concern                                                          |
//! |------------|------------------------------------------------------------------|
//! | `instance` | names and places: run directory, socket, pins, logs              |
//! | `node`     | the process: one loop over children, requests and timers         |
//! | `hosts`    | end systems: made, attached, taken away                          |
//! | `ports`    | opening, preparing and attaching devices                         |
//! | `switch`   | the switch: started, told everything, started again              |
//! | `relays`   | what hosts send over links that do something to packets          |
//! | `router`   | one router: pool, process, back-off                              |
//! | `program`  | data planes of users' own, before they are started              |
//! | `queues`   | queues behind ports, and what became of packets in them          |
//! | `grants`   | files and sockets that routers may have                          |
//! | `capture`  | captures: who may look at which interface, and for how long      |
//! | `bell`     | how processes wake each other                                    |
//! | `cores`    | which CPUs are Europa's                                          |
//! | `placement` | where routers run while much is received                       |
//! | `backoff`  | when to start something again that keeps failing                 |
//! | `rest`     | the REST interface, on a thread of its own                       |
//! | `checker`  | configurations are tried in a sandbox first                      |
//! | `control`  | the way from that thread into the loop                           |
//! | `store`    | where desired state is kept                                      |
//! | `drift`    | what other hands have changed                                    |
//! | `events`   | what happened                                                    |
//! | `logs`     | the processes' logs: bounded, shown from their end               |
//! | `meters`   | what slices are given of what comes in by ports                  |
//! | `stats`    | counters, as they are told                                       |
//! | `metrics`  | the same for Prometheus                                          |
//! | `slices`   | what slices reserve of CPU and memory                            |
//! | `slow_path`| routers' own Linux: made, followed, and its programs kept running |
//! | `kept`     | what is written down for the next node, which adopts what runs   |
//! | `leftovers`| what a killed node left behind, and taking it away               |
//! | `doctor`   | what this machine can and cannot do, and what follows            |

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
pub use node::{Listening, Settings, run};
pub use rest::openapi;

use europa_api::Fault;
use europa_sandbox::descriptors_hint;

/// Takes away what a node that was killed left behind; says what could not be.
///
/// # Errors
/// What kept things from being removed.
pub fn clean_up(instance: &Instance) -> Result<Vec<String>, NodeError> {
    leftovers::remove(instance)
}

/// Why the node could not do something.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A file or directory.
    #[error("{what}: {error}{}", descriptors_hint(error.raw_os_error().unwrap_or(0)))]
    Io {
        /// What was tried.
        what: String,
        /// What the kernel said.
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
        /// To whom.
        who: String,
        /// What went wrong.
        error: europa_channel::ChannelError,
    },
    /// Desired state.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// What an object says cannot be on this machine.
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

/// Names what was tried.
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, NodeError>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, NodeError> {
        self.map_err(|error| NodeError::Io { what: what.into(), error: error.into() })
    }
}
