//! Runs many histories on all cores, and reduces the first that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::faults::Coverage;
use crate::history::{Operation, operations, run};
use crate::plant::Plant;

/// A history that fails.
#[derive(Clone, Debug)]
pub struct Failing {
    /// Its seed.
    pub seed: u64,
    /// Number of histories before it.
    pub after: u64,
    /// The violated property.
    pub why: String,
    /// The smallest list of its operations that still fails.
    pub operations: Vec<Operation>,
}

/// Runs `count` histories, with seeds from `seed` on. Returns the failing history with the smallest
/// seed, and the faults that effects have met.
pub fn search(count: u64, seed: u64, plant: Option<Plant>) -> (Option<Failing>, Coverage) {
    let next = AtomicU64::new(0);
    let found = Mutex::new((None::<u64>, Coverage::default()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut coverage = Coverage::default();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let failed = found.lock().map_or(None, |found| found.0);
                    if at >= count || failed.is_some_and(|failed| failed < at) {
                        break;
                    }
                    let (why, met) = attempt(&operations(seed.wrapping_add(at)), plant);
                    coverage.add(&met);
                    if why.is_some()
                        && let Ok(mut found) = found.lock()
                    {
                        found.0 = Some(found.0.map_or(at, |other| other.min(at)));
                    }
                }
                if let Ok(mut found) = found.lock() {
                    found.1.add(&coverage);
                }
            });
        }
    });
    let (failed, coverage) = found.into_inner().unwrap_or_default();
    let failing = failed.map(|after| {
        let seed = seed.wrapping_add(after);
        let (why, operations) = minimise(operations(seed), plant);
        Failing { seed, after, why, operations }
    });
    (failing, coverage)
}

/// Runs a history. Returns the violated property; a panic counts as a violation.
fn attempt(operations: &[Operation], plant: Option<Plant>) -> (Option<String>, Coverage) {
    match catch_unwind(AssertUnwindSafe(|| run(operations, plant))) {
        Ok(report) => (report.broken.map(|(_, why)| why), report.coverage),
        Err(_) => (Some("control panicked".into()), Coverage::default()),
    }
}

/// Removes operations as long as the history still fails.
fn minimise(mut all: Vec<Operation>, plant: Option<Plant>) -> (String, Vec<Operation>) {
    let mut why = attempt(&all, plant).0.unwrap_or_default();
    let mut size = all.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < all.len() {
            let mut fewer = all.clone();
            fewer.drain(at..all.len().min(at + size));
            match attempt(&fewer, plant).0 {
                Some(other) => (why, all) = (other, fewer),
                None => at += size,
            }
        }
        if size == 1 {
            return (why, all);
        }
        size = size.div_ceil(2);
    }
}
