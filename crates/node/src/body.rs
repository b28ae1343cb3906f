//! The place of a router's fast path: in a separate process, or inside the switch.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use europa_sandbox::{Child, Identity};
use europa_switch::orders::Order;
use nix::sys::signal::Signal;

use crate::NodeError;
use crate::switch::Switch;

/// How records of routers inside the switch are called, before the number of their pool.
const INLINE: &str = "router.inline-";

pub(crate) enum Body {
    /// A process.
    Process(Child),
    /// Inside the switch, which drops it when its pool is removed.
    Switch {
        /// Number of its pool.
        pool: u32,
        /// The descriptors for it, once the switch has the router.
        equipment: Option<(OwnedFd, File)>,
        /// Why it has ended.
        ended: Option<String>,
    },
}

impl Body {
    /// A new one, not yet in the switch, with its end of a channel and its log.
    pub(crate) fn inside(theirs: OwnedFd, log: File) -> Self {
        Self::Switch { pool: 0, equipment: Some((theirs, log)), ended: None }
    }

    /// Lets the switch take over a router that runs there, on a pool that it serves.
    pub(crate) fn enter(
        &mut self,
        switch: &mut Switch,
        on: u32,
        listener: BorrowedFd<'_>,
    ) -> Result<(), NodeError> {
        let Self::Switch { equipment, .. } = self else { return Ok(()) };
        let Some((theirs, log)) = equipment.take() else { return Ok(()) };
        let descriptors = [theirs.as_fd(), listener, log.as_fd()];
        switch.order(&Order::AddInline { pool: on }, &descriptors).map(drop)
    }

    /// Notes the pool of one inside the switch.
    pub(crate) fn is_on(&mut self, on: u32) {
        if let Self::Switch { pool, .. } = self {
            *pool = on;
        }
    }

    pub(crate) fn is_inside(&self) -> bool {
        matches!(self, Self::Switch { .. })
    }

    /// The name of its record.
    pub(crate) fn record(&self) -> String {
        match self {
            Self::Process(child) => format!("router.{}", child.pid()),
            Self::Switch { pool, .. } => format!("{INLINE}{pool}"),
        }
    }

    /// Whether a record is of a router inside a switch.
    pub(crate) fn is_record_of_one_inside(name: &str) -> bool {
        name.starts_with(INLINE)
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Self::Process(child) => Some(child.pid()),
            Self::Switch { .. } => None,
        }
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.pid().and_then(Identity::of)
    }

    /// Writes its record: from now on it outlives the node.
    pub(crate) fn commit(&mut self) {
        if let Self::Process(child) = self {
            child.commit();
        }
    }

    /// Readable when its process ends.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Process(child) => Some(child.as_fd()),
            Self::Switch { .. } => None,
        }
    }

    /// Ends it, if it is a process: a router inside the switch ends with its pool.
    pub(crate) fn kill(&self) -> Result<(), NodeError> {
        match self {
            Self::Process(child) => Ok(child.kill(Signal::SIGKILL)?),
            Self::Switch { .. } => Ok(()),
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Result<(), NodeError> {
        match self {
            Self::Process(child) => Ok(child.wait().map(drop)?),
            Self::Switch { .. } => Ok(()),
        }
    }

    /// Handles the switch's report that it has ended, with the reason if known.
    pub(crate) fn has_ended(&mut self, why: Option<String>) {
        if let Self::Switch { ended, .. } = self {
            let silent = "the switch has ended, and all routers inside it".to_owned();
            *ended = Some(why.or(ended.take()).unwrap_or(silent));
        }
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        match self {
            Self::Process(child) => Some(child.try_wait().ok()??.to_string()),
            Self::Switch { ended, .. } => ended.clone(),
        }
    }

    /// Its process, if it has one.
    pub(crate) fn into_child(self) -> Option<Child> {
        match self {
            Self::Process(child) => Some(child),
            Self::Switch { .. } => None,
        }
    }
}
