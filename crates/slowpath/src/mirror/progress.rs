//! The counters of a mirror, and its packets for Linux.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::decide;

/// The progress of a mirror.
#[derive(Debug, Default)]
pub struct Progress {
    /// Changes that the fast path has carried out.
    pub told: AtomicU64,
    /// Prefixes with routes.
    pub routes: AtomicU64,
    /// Number of complete readings.
    pub resyncs: AtomicU64,
    /// Changes that the fast path refused.
    pub refused: AtomicU64,
    /// The packets that go to Linux at present, with reasons.
    pub(super) by_linux: Mutex<BTreeSet<String>>,
    /// Packets that went to Linux so far, by handler and reason.
    pub(super) counts: Mutex<BTreeMap<String, Vec<(u64, String)>>>,
}

impl Progress {
    /// The packets that go to Linux at present in addition to those without a table entry, with
    /// reasons.
    pub fn by_linux(&self) -> Vec<String> {
        let all = self.by_linux.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.iter().cloned().collect()
    }

    /// Packets that went to Linux so far by reason, at the last count.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let all = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut sums = BTreeMap::new();
        let of_policies = all.iter().filter(|(path, _)| path.ends_with(".reasons"));
        for (count, reason) in of_policies.flat_map(|(_, counts)| counts) {
            *sums.entry(reason.clone()).or_default() += count;
        }
        sums
    }

    /// Packets that were too many for Linux, by class.
    pub fn policed(&self) -> BTreeMap<String, u64> {
        let all = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = all.get(decide::POLICED).into_iter().flatten();
        found.map(|(count, class)| (class.clone(), *count)).collect()
    }
}
