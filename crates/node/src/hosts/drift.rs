//! Changes by other programs: a thread looks for them at intervals.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use europa_api::{Host, InterfaceName, Name};
use europa_port::Namespace;

use super::Hosts;
use super::survey::{HostDrift, look};
use crate::control::Control;
use crate::events::Events;
use crate::uplinks::Uplinks;
use crate::{Doing, Instance, NodeError};

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
pub(super) struct DriftThread {
    orders: SyncSender<Made>,
    looked: Instant,
}

impl DriftThread {
    /// Starts it.
    pub(super) fn start(instance: Instance, control: Control) -> Result<Self, NodeError> {
        let (orders, heard) = sync_channel::<Made>(1);
        let work = move || {
            for Made { hosts, slow_paths, uplinks } in heard {
                let found = look(&instance, &hosts);
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

    /// Has all looked at, if it is time. A look that is still under way is not waited for.
    pub(super) fn look(&mut self, made: impl FnOnce() -> Made) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let _ = self.orders.try_send(made());
        }
    }
}

impl Hosts {
    /// Hosts that are not as they were made are known as they are: the next change, or the next
    /// look, mends them. `of`: those that were looked at. Returns ports whose devices are gone.
    pub(crate) fn note_drift(
        &mut self,
        events: &Events,
        of: &Arc<Vec<Host>>,
        found: Vec<HostDrift>,
    ) -> Vec<Name> {
        let mut lost = Vec::new();
        // Those that are being changed are looked at later.
        let is_old = self.is_under_way() || !Arc::ptr_eq(of, &self.made);
        if found.is_empty() || is_old {
            return lost;
        }
        let made = Arc::make_mut(&mut self.made);
        for HostDrift { host, really, differs } in found {
            let Some(place) = made.iter().position(|one| *one.name.value == *host) else {
                continue;
            };
            let Some(old) = made.get(place) else { continue };
            let stays = |name: &InterfaceName| {
                let mut all = really.iter().flat_map(|host| &host.interfaces.0);
                all.any(|(other, _)| other.value == *name)
            };
            let gone = old.interfaces.0.iter().filter(|(name, _)| !stays(&name.value));
            lost.extend(gone.filter_map(|(name, interface)| old.port(name, interface)));
            match really {
                Some(really) => made[place] = really,
                None => drop(made.remove(place)),
            }
            events.warn("host", &host, "Drifted", differs.join("; "));
        }
        lost
    }
}
