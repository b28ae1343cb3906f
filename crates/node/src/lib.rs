//! Supervises the switch and the routers of one host; owns desired state.
//!
//! | file       | concern                                                          |
//! |------------|------------------------------------------------------------------|
//! | `instance` | names and places: run directory, socket, pins, logs              |
//! | `plan`     | from documents to what the substrate is told; pure               |
//! | `node`     | the process: one loop over children, requests and timers         |
//! | `hosts`    | end systems: made, attached, taken away                          |
//! | `links`    | what links do to packets                                         |
//! | `ports`    | opening, preparing and attaching devices                         |
//! | `switch`   | the switch: started, told everything, started again              |
//! | `relays`   | what hosts send over links that do something to packets          |
//! | `router`   | one router: pool, process, back-off                              |
//! | `capture`  | captures: who may look at which interface, and for how long      |
//! | `cores`    | which CPUs are Europa's                                          |
//! | `backoff`  | when to start something again that keeps failing                 |
//! | `request`  | what the command line asks, and the answers                      |
//! | `stats`    | what is told about everything                                    |
//! | `leftovers`| what a killed node left behind, and taking it away               |
//! | `doctor`   | what this machine can and cannot do, and what follows            |

mod backoff;
mod bell;
mod builtin;
mod capture;
mod cores;
pub mod doctor;
mod hosts;
mod instance;
mod leftovers;
mod links;
mod node;
mod plan;
mod ports;
mod relays;
mod request;
mod router;
mod stats;
mod switch;

pub use hosts::namespace_of as host_namespace;
pub use instance::Instance;
pub use node::run;
pub use request::{Request, Response, ask};
pub use stats::{
    HostInterfaceStats, HostStats, InterfaceStats, LinkStats, NodeStats, PortStats, RouterStats,
};

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
    #[error("{what}: {error}")]
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
    #[error("{who}: {error}")]
    Channel {
        /// To whom.
        who: String,
        /// What went wrong.
        error: europa_channel::ChannelError,
    },
    /// Another node runs, or none does, or a document cannot be carried out.
    #[error("{0}")]
    Refused(String),
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
