//! The facts and tools that all parts of a node use, and that no part changes.

use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;

use europa_plan::RouterId;
use europa_sandbox::LOG_BYTES;
use europa_sandbox::cgroup::{Cgroups, Group};

use crate::control::Control;
use crate::events::{Events, now};
use crate::kept::Kept;
use crate::{Doing, Instance, Lifetime, NodeError, cores, slices};

/// The settings of a node at its start, beside its documents.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many workers the switch has, each with a CPU of its own.
    pub workers: u32,
    /// Where users log in to routers by SSH.
    pub ssh_at: Option<SocketAddr>,
}

/// See the file. The node shares it, so no code can write its fields.
pub(crate) struct Context {
    pub(crate) instance: Instance,
    pub(crate) lifetime: Lifetime,
    pub(crate) settings: Settings,
    /// When the node was started.
    pub(crate) since: String,
    /// The CPUs of Europa.
    pub(crate) cores: Vec<usize>,
    pub(crate) cgroups: Cgroups,
    pub(crate) kept: Kept,
    pub(crate) events: Events,
    /// Into the loop.
    pub(crate) control: Control,
}

impl Context {
    /// The one of a node that starts.
    pub(crate) fn new(
        instance: Instance,
        lifetime: Lifetime,
        settings: Settings,
        control: Control,
    ) -> Result<Self, NodeError> {
        Ok(Self {
            kept: Kept::open(&instance)?,
            cgroups: Cgroups::detect()?,
            cores: cores::cores(),
            since: now(),
            events: Events::new(),
            instance,
            lifetime,
            settings,
            control,
        })
    }

    /// The control group of a router, below that of its slice.
    pub(crate) fn router_group(&self, name: &RouterId) -> Option<Group> {
        self.group(&slices::router_group(name))
    }

    /// The control group of a process; none where the machine has none that works.
    pub(crate) fn group(&self, name: &str) -> Option<Group> {
        match self.cgroups.group(self.instance.name(), name) {
            Ok(group) => Some(group),
            Err(error) => {
                tracing::warn!("no control group for {name}: {error}");
                None
            }
        }
    }

    /// The log of a process, for appending.
    pub(crate) fn log(&self, of: &str) -> Result<File, NodeError> {
        open_log(&self.instance, of)
    }
}

/// The log of a process, for appending.
pub(crate) fn open_log(instance: &Instance, of: &str) -> Result<File, NodeError> {
    let path = instance.log(of);
    // A process may not write more than this: the next one begins a new log in time.
    if fs::metadata(&path).is_ok_and(|log| log.len() > LOG_BYTES / 2) {
        fs::rename(&path, path.with_extension("log.old")).doing("putting a log aside")?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .doing(format!("opening {}", path.display()))
}
