//! The stored objects run again; usable objects of another node go on.

use std::collections::BTreeMap;
use std::sync::Arc;

use europa_api::{Documents, Kept};
use europa_control::{Accepted, Engine};

use super::Node;
use crate::NodeError;
use crate::store::{NumberedRules, Snapshot, Store, StoreError, Stored};

/// The contents of a store.
pub(super) struct Found {
    snapshot: Snapshot,
    filters: BTreeMap<String, NumberedRules>,
}

impl Found {
    /// Reads all of it.
    pub(super) fn load(store: &dyn Store) -> Result<Self, NodeError> {
        Ok(Self { snapshot: store.load()?, filters: store.filters()? })
    }
}

impl Node {
    /// Starts the stored objects; of another node's objects, the usable ones go on.
    pub(super) fn restore(&mut self, found: Found, left: bool) -> Result<(), NodeError> {
        let Snapshot { revision, documents } = found.snapshot;
        let kept: Vec<Kept> = documents.iter().map(Stored::kept).collect();
        let mut checked = Documents::default();
        if !kept.is_empty() {
            checked = europa_api::Bundle::default().merge(&kept).map_err(|problems| {
                let error = problems.render(false);
                StoreError::Damaged { what: "the node's desired state".into(), error }
            })?;
            checked.complete();
            let count = documents.len();
            self.events.note("node", "", "Restoring", format!("{count} documents of the last run"));
        }
        self.documents = Arc::new(checked);
        let (stored, documents) = (Arc::new(documents), self.documents.clone());
        self.engine = Engine::new(Accepted { revision, stored, documents });
        if !kept.is_empty() {
            self.restore_filters(found.filters, left)?;
        }
        if left {
            self.adopt()?;
        }
        if !kept.is_empty() {
            self.reconcile();
        }
        Ok(())
    }

    /// The desired state, to check another one against.
    pub(crate) fn accepted(&self) -> (u64, Arc<Vec<Stored>>) {
        let accepted = self.engine.accepted();
        (accepted.revision, accepted.stored.clone())
    }
}
