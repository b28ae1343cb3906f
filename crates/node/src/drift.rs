//! Changes by other programs: a thread looks for them at intervals.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use europa_api::Host;
use europa_port::Namespace;

use crate::control::Control;
use crate::uplinks::Uplinks;
use crate::{Doing, Instance, NodeError, hosts};

/// Interval of the checks.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The object that was made.
pub(crate) struct Made {
    pub(crate) hosts: Arc<Vec<Host>>,
    /// Routers with a slow path: name, network namespace, and its inode.
    pub(crate) slow_paths: Vec<(String, String, u64)>,
    pub(crate) uplinks: Uplinks,
}

/// Compares the records with the actual objects, and informs the node.
pub(crate) struct DriftThread {
    orders: SyncSender<Made>,
    looked: Instant,
}

impl DriftThread {
    /// Starts it.
    pub(crate) fn start(instance: Instance, control: Control) -> Result<Self, NodeError> {
        let (orders, heard) = sync_channel::<Made>(1);
        let work = move || {
            for Made { hosts, slow_paths, uplinks } in heard {
                let found = hosts::look(&instance, &hosts);
                if !found.is_empty() {
                    control.tell(move |node| node.mend_drift(&hosts, found));
                }
                let is_there = |name: &str, inode| {
                    Namespace::named(name).is_ok_and(|found| found.inode == inode)
                };
                let lost =
                    slow_paths.into_iter().filter(|(_, name, inode)| !is_there(name, *inode));
                let lost: Vec<String> = lost.map(|(router, ..)| router).collect();
                if !lost.is_empty() {
                    control.tell(move |node| node.mend_slow_paths(lost));
                }
                if let Some(lost) = uplinks.lost(&instance) {
                    control.tell(move |node| node.mend_uplinks(&lost));
                }
            }
        };
        let thread = std::thread::Builder::new().name("drift".into());
        thread.spawn(work).doing("starting a thread that looks for changes by other hands")?;
        Ok(Self { orders, looked: Instant::now() })
    }

    /// Starts a check if it is due. A check that still runs is not waited for.
    pub(crate) fn look(&mut self, made: impl FnOnce() -> Made) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let _ = self.orders.try_send(made());
        }
    }
}
