//! Removes stages without effect after ten minutes, and objects that no head names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use etcd_client::{Compare, TxnOp};

use super::{State, begin_of};
use crate::error::Result;
use crate::etcd::{Etcd, MOST_OPERATIONS};

/// Time in which a stage must take effect.
const PATIENCE: Duration = Duration::from_secs(600);

/// Removes unnecessary keys. It measures the age of a stage by its own clock, since it first saw
/// the stage.
#[derive(Debug, Default)]
pub struct Cleaner {
    seen: BTreeMap<String, Instant>,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Number of stages that it closed because they had no effect.
    pub stages: usize,
    /// Keys removed.
    pub keys: usize,
}

impl Cleaner {
    /// Checks all stages at the revision of `state`. Every live node must have passed that state.
    /// `leads` holds as long as the caller is the leader, and is compared in each transaction.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn turn(
        &mut self,
        etcd: &Etcd,
        state: &State,
        leads: &[Compare],
        now: Instant,
    ) -> Result<Cleaned> {
        let (keys, _) = etcd.list("stages/", Some(state.revision), true).await?;
        let mut needed = BTreeSet::new();
        for (at, bucket) in state.buckets.values() {
            needed.extend(at.pieces());
            needed.extend(bucket.values().flat_map(|entry| entry.at.pieces()));
        }
        let stage_of = |key: &str| key.split('/').nth(1).unwrap_or_default().to_owned();
        let open: BTreeSet<String> = keys
            .iter()
            .filter(|(key, _)| key.ends_with("/begin"))
            .map(|(k, _)| stage_of(k))
            .collect();
        self.seen.retain(|stage, _| open.contains(stage));
        let mut cleaned = Cleaned::default();
        let mut old = BTreeSet::new();
        for stage in &open {
            let since = *self.seen.entry(stage.clone()).or_insert(now);
            if now.duration_since(since) >= PATIENCE {
                let close = vec![TxnOp::delete(etcd.key(&begin_of(stage)), None)];
                let closed =
                    etcd.transact("closing an old stage", leads, close, Vec::new()).await?;
                if !closed.succeeded() {
                    return Ok(cleaned);
                }
                old.insert(stage.clone());
                cleaned.stages += 1;
            }
        }
        let is_waste = |key: &str| {
            let stage = stage_of(key);
            !needed.contains(key) && (!open.contains(&stage) || old.contains(&stage))
        };
        let waste: Vec<&String> =
            keys.iter().map(|(key, _)| key).filter(|key| is_waste(key)).collect();
        for some in waste.chunks(MOST_OPERATIONS) {
            let gone = some.iter().map(|key| TxnOp::delete(etcd.key(key), None)).collect();
            let answer = etcd.transact("removing old documents", leads, gone, Vec::new()).await?;
            if !answer.succeeded() {
                return Ok(cleaned);
            }
            cleaned.keys += some.len();
        }
        Ok(cleaned)
    }
}
