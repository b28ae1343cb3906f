//! The description of slow paths.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use europa_slowpath::namespace;
use serde_json::json;

use super::{SlowPath, SlowPaths};
use crate::Instance;

impl SlowPaths {
    /// Each router with the name of its namespace and the inode of its former one.
    pub(crate) fn namespaces(&self, instance: &Instance) -> Vec<(String, String, u64)> {
        let of = |(router, one): (&String, &SlowPath)| {
            let name = namespace::name(instance.name(), &one.router.slice, &one.router.name);
            (router.clone(), name, one.spec.namespace.inode)
        };
        self.all.iter().map(of).collect()
    }

    /// The names of a router's programs.
    pub(crate) fn programs(&self, router: &str) -> Vec<&str> {
        let daemons = self.all.get(router).map_or(&[][..], |one| &one.daemons);
        daemons.iter().map(|daemon| daemon.name.as_str()).collect()
    }

    /// Packets of a router that passed through its Linux because the fast path may not decide on
    /// them, by reason.
    pub(crate) fn by_linux(&self, router: &str) -> Vec<(String, u64)> {
        let counts = self.all.get(router).map(|one| one.progress.counts());
        counts.into_iter().flatten().collect()
    }

    /// The state of a router's slow path: how its routes are followed, and its programs.
    pub(crate) fn status(&self, router: &str) -> Option<serde_json::Value> {
        let one = self.all.get(router)?;
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let programs: serde_json::Map<String, serde_json::Value> = one
            .daemons
            .iter()
            .map(|daemon| (daemon.name.clone(), daemon.seen(|seen| json!(seen))))
            .collect();
        let mut status = json!({
            "changes_told": of(&one.progress.told),
            "changes_refused": of(&one.progress.refused),
            "by_linux": one.progress.by_linux(),
            "packets_by_linux": one.progress.counts(),
            "packets_too_many": one.progress.policed(),
            "programs": programs,
        });
        if let (Some(uplink), Some(all)) = (self.uplinks.status(router), status.as_object_mut()) {
            all.insert("uplink".to_owned(), uplink);
        }
        Some(status)
    }

    /// The faults of a router's programs as text; `None` if all work.
    pub(crate) fn trouble(&self, router: &str) -> Option<String> {
        let now = Instant::now();
        let daemons = &self.all.get(router)?.daemons;
        let all: Vec<String> = daemons
            .iter()
            .filter_map(|daemon| daemon.seen(|seen| seen.trouble(&daemon.name, now)))
            .collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
