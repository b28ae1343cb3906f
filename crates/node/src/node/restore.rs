//! Starts the stored objects; usable objects of another node continue.

use std::collections::BTreeMap;
use std::sync::Arc;

use europa_api::rest::ProblemDetails;
use europa_api::{Documents, Kept, User};
use europa_control::{Accepted, Engine};

use super::Node;
use crate::control::Reply;
use crate::store::{NumberedRules, Snapshot, Store, StoreError, Stored, StoredToken};
use crate::{NodeError, witness};

/// The contents of a store.
pub(super) struct Found {
    snapshot: Snapshot,
    filters: BTreeMap<String, NumberedRules>,
}

impl Found {
    /// Reads the whole store.
    pub(super) fn load(store: &dyn Store) -> Result<Self, NodeError> {
        Ok(Self { snapshot: store.load()?, filters: store.filters()? })
    }
}

impl Node {
    /// Starts the stored objects; of another node's objects, the usable ones continue.
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
            self.context.events.note(
                "node",
                "",
                "Restoring",
                format!("{count} documents of the last run"),
            );
        }
        let (stored, documents) = (Arc::new(documents), Arc::new(checked));
        let accepted = Accepted { revision, stored, documents: documents.clone() };
        self.change.restore(Engine::new(accepted).watched(witness::from_environment()));
        if !kept.is_empty() {
            self.filters.restore(&documents, found.filters, left)?;
        }
        if left {
            self.adopt()?;
        }
        if !kept.is_empty() {
            self.reconcile();
        }
        Ok(())
    }

    /// A user, with the generation of its document.
    pub(crate) fn user(&self, name: &str) -> Option<(User, u64)> {
        let accepted = self.change.accepted();
        let user = accepted.documents.users.iter().find(|user| &**user.name == name)?;
        let is = |stored: &&Stored| stored.key.kind == "user" && stored.key.name == name;
        let stored = accepted.stored.iter().find(is)?;
        Some((user.clone(), stored.generation))
    }

    /// Writes tokens to the store; `reply` gets the result.
    pub(crate) fn write_tokens(
        &self,
        put: Vec<StoredToken>,
        remove: Vec<String>,
        reply: Reply<Result<(), ProblemDetails>>,
    ) {
        let write = move |store: &mut dyn Store| store.change_tokens(&put, &remove);
        self.change.write(write, move |_, written| {
            // The caller may have ended.
            let _ = reply.send(written.map_err(|error| ProblemDetails::failed(error.to_string())));
        });
    }
}
