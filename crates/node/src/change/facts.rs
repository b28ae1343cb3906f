//! Facts that follow from documents, and take long to compute: the thread of plans does.

use std::sync::Arc;

use europa_api::Documents;

use crate::filters::Entries;

/// The facts about some documents.
#[derive(Clone)]
pub(crate) struct Facts {
    documents: Arc<Documents>,
    entries: Arc<Entries>,
    warnings: Arc<Vec<String>>,
}

impl Facts {
    /// The facts about these documents.
    pub(super) fn of(documents: &Arc<Documents>) -> Self {
        Self {
            documents: documents.clone(),
            entries: Arc::new(Entries::of(documents)),
            warnings: Arc::new(documents.warnings()),
        }
    }

    /// Whether they are about these documents.
    pub(super) fn are_of(&self, documents: &Arc<Documents>) -> bool {
        Arc::ptr_eq(&self.documents, documents)
    }

    /// Entries of the switch that the rules of each slice need.
    pub(crate) fn entries(&self) -> &Arc<Entries> {
        &self.entries
    }

    /// Settings that may be mistakes.
    pub(crate) fn warnings(&self) -> &Arc<Vec<String>> {
        &self.warnings
    }
}
