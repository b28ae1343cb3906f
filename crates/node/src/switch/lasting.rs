//! Memory and descriptors that outlive a switch process.

use std::cell::OnceCell;
use std::os::fd::OwnedFd;

use europa_substrate::Substrate;
use europa_substrate::tap::MEMORY_BYTES;
use europa_switch::{HELD_BYTES, STATUS_BYTES};

use crate::NodeError;
use crate::bell::Bell;
use crate::kept::Kept;

/// See the file.
pub(crate) struct Lasting {
    /// Sleep flags, written by the switch.
    pub(super) status: OwnedFd,
    /// The same memory, opened for reading only: for routers.
    pub(crate) status_for_routers: OwnedFd,
    pub(super) held: OwnedFd,
    /// The private part of each of its workers. The number of workers never changes: routers know
    /// which worker they wake.
    pub(super) workers: Vec<WorkerParts>,
    /// Records for captures, written by the switch.
    pub(crate) taps: OwnedFd,
}

pub(super) struct WorkerParts {
    /// Rung by routers and other workers.
    pub(super) doorbell: Bell,
    /// The transmit program, once a switch has been started: one that is adopted has it, and the
    /// verifier takes its time.
    program: OnceCell<OwnedFd>,
}

impl WorkerParts {
    pub(super) fn program(
        &self,
        substrate: &Substrate,
        worker: u32,
    ) -> Result<&OwnedFd, NodeError> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let loaded = substrate.transmit_program(worker)?;
        Ok(self.program.get_or_init(|| loaded))
    }
}

impl Lasting {
    /// Finds the switch's lasting objects again, or makes them, for `workers` workers.
    pub(crate) fn open(kept: &Kept, workers: u32) -> Result<Self, NodeError> {
        let there = (0..).take_while(|worker| kept.has(&doorbell(*worker))).count() as u32;
        let workers = if there > 0 { there } else { workers };
        let parts = |worker| {
            let doorbell = kept.bell(&doorbell(worker))?;
            Ok(WorkerParts { doorbell, program: OnceCell::new() })
        };
        Ok(Self {
            status: kept.memory("status", STATUS_BYTES)?,
            status_for_routers: kept.memory_read_only("status")?,
            held: kept.memory("held", HELD_BYTES)?,
            workers: (0..workers).map(parts).collect::<Result<_, NodeError>>()?,
            taps: kept.memory("taps", MEMORY_BYTES)?,
        })
    }

    /// How many workers a switch has.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// The worker that takes the packets of the router with this number.
    pub(crate) fn worker_of(&self, router: u32) -> u32 {
        worker_of(router, self.workers())
    }

    /// For a router, to wake its worker by.
    pub(crate) fn rope(&self, worker: u32) -> Result<OwnedFd, NodeError> {
        let none = || NodeError::Refused(format!("there is no worker {worker}"));
        self.workers.get(worker as usize).ok_or_else(none)?.doorbell.rope()
    }
}

/// Numbers of routers are given from the lowest on: neighbours share no worker.
pub(super) fn worker_of(router: u32, workers: u32) -> u32 {
    router % workers.max(1)
}

/// The name of a worker's bell.
fn doorbell(worker: u32) -> String {
    format!("doorbell.{worker}")
}
