//! The accepted desired state, and its next revision.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use europa_api::{Documents, Kept, Key};

use crate::store::Stored;

/// Desired state in the form that was stored last.
#[derive(Clone, Default)]
pub struct Accepted {
    /// One more with each change.
    pub revision: u64,
    /// Documents in their stored form and order.
    pub stored: Arc<Vec<Stored>>,
    /// The same documents, checked and completed.
    pub documents: Arc<Documents>,
}

/// A change of desired state that takes effect as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Commit {
    /// The revision on which the change is based.
    pub base: u64,
    /// The new revision.
    pub revision: u64,
    /// Documents that are new or changed.
    pub put: Vec<Stored>,
    /// Removed documents.
    pub remove: Vec<Key>,
}

impl Accepted {
    /// The successor of this desired state, with `documents`, stored as `kept`, and the change
    /// between them. `now` is the time of day in the form of RFC 3339.
    pub fn next(&self, documents: Arc<Documents>, kept: &[Kept], now: &str) -> (Self, Commit) {
        let before: HashMap<&Key, &Stored> =
            self.stored.iter().map(|stored| (&stored.key, stored)).collect();
        let mut order = self.stored.iter().map(|stored| stored.order).max().unwrap_or(0);
        let (mut put, mut all) = (Vec::new(), Vec::with_capacity(kept.len()));
        for kept in kept {
            let before = before.get(&kept.key).copied();
            if let Some(before) = before.filter(|before| before.kept() == *kept) {
                all.push(before.clone());
                continue;
            }
            order += u64::from(before.is_none());
            let stored = Stored {
                key: kept.key.clone(),
                order: before.map_or(order, |before| before.order),
                generation: before.map_or(1, |before| before.generation + 1),
                changed: now.to_owned(),
                document: kept.document.clone(),
                configuration: kept.configuration.as_ref().map(Into::into),
            };
            put.push(stored.clone());
            all.push(stored);
        }
        all.sort_by_key(|stored| stored.order);
        let stays: HashSet<&Key> = kept.iter().map(|kept| &kept.key).collect();
        let gone = self.stored.iter().map(|stored| &stored.key);
        let remove = gone.filter(|key| !stays.contains(key)).cloned().collect();
        let (base, revision) = (self.revision, self.revision + 1);
        (
            Self { revision, stored: Arc::new(all), documents },
            Commit { base, revision, put, remove },
        )
    }
}
