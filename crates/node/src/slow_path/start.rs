//! Starts the programs of slow paths.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use europa_port::Namespace;
use europa_sandbox::cgroup::Cgroups;
use europa_slowpath::environment::folder;
use europa_slowpath::users::Ids;
use europa_slowpath::{carrier, namespace};

use super::reload::Reloads;
use super::{Base, SlowPath, SlowPaths};
use crate::doors::Doors;
use crate::events::Events;
use crate::kept::Kept;
use crate::{Doing, Instance, NodeError};

impl SlowPaths {
    /// Starts the missing programs, changes the others, and follows the link states of all. Returns
    /// the programs that must reload their files.
    pub(crate) fn start(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        cgroups: &Cgroups,
        events: &Events,
    ) -> Result<Vec<Reloads>, NodeError> {
        if let Some((stop, thread)) = self.carrier.take() {
            stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
        if let Ok(outside) = Namespace::named(&namespace::outside_name(instance.name())) {
            let watches: Vec<_> =
                self.all.values().flat_map(|one| one.watches.iter().cloned()).collect();
            let stop: Arc<AtomicBool> = Arc::default();
            let stopped = Arc::clone(&stop);
            let run = move || {
                if let Err(error) = carrier::follow(&watches, &outside, &stopped) {
                    tracing::error!("link states are not followed any more: {error}");
                }
            };
            let thread = std::thread::Builder::new().name("carrier".into());
            self.carrier = Some((stop, thread.spawn(run).doing("following link states")?));
        }
        let mut all = Vec::new();
        for (name, one) in &mut self.all {
            let reloads = match &one.base {
                Some(_) if !one.is_unfinished() => None,
                Some(base) => {
                    let base = Arc::clone(base);
                    one.finish_change(instance)?;
                    let reloads = one.act(&base)?;
                    one.note(kept)?;
                    reloads
                }
                None => {
                    let folder = folder(&instance.directory(), name);
                    let ids = Ids::of(&folder).doing(format!("the users of {name}"))?;
                    let before = (one.after.take(), one.first.take());
                    let whole = (cgroups, events);
                    let base = Base::new(instance, kept, whole, (name, ids), &one.stop, before);
                    start_one(one, &Arc::new(base), &self.doors)?;
                    None
                }
            };
            all.extend(reloads);
        }
        Ok(all)
    }
}

/// Starts the programs of a slow path for the first time.
fn start_one(one: &mut SlowPath, base: &Arc<Base>, doors: &Doors) -> Result<(), NodeError> {
    one.base = Some(Arc::clone(base));
    one.pending.clear();
    match doors.open(&one.spec.namespace, &one.router.slice) {
        Ok(door) => one.door = door,
        // Programs of another node's time can take its name; they lose its purpose.
        Err(error) => tracing::warn!("router {}: rules from inside: {error}", one.spec.router),
    }
    for daemon in one.daemons.clone() {
        one.keep(base, &daemon, false)?;
    }
    if one.daemons.is_empty() {
        // Programs of `europa exec` have limits too.
        let base = Arc::clone(base);
        let limit = move || {
            if let Err(error) = base.group() {
                tracing::warn!("router {}: {error}", base.router);
            }
        };
        let thread = std::thread::Builder::new().name("limits".into());
        thread.spawn(limit).doing("limiting a slow path")?;
    }
    Ok(())
}
