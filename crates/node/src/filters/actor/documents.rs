//! Rules of documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use europa_api::filters::Rule;
use europa_plan::SliceId;

use super::{Actor, recorded};
use crate::NodeError;
use crate::filters::{Filters, Fresh};
use crate::store::NumberedRules;

impl Actor {
    /// Reads stored rules, and puts those of the documents in force.
    pub(super) fn restore(
        &mut self,
        rules: BTreeMap<String, NumberedRules>,
        left: bool,
    ) -> Result<Fresh, NodeError> {
        if left {
            self.filters = Filters::with(recorded(&self.kept));
        }
        for (slice, rules) in rules {
            let mut all = Vec::with_capacity(rules.len());
            for (number, text) in rules {
                match serde_json::from_str::<Rule>(&text) {
                    Ok(rule) => all.push((number, rule)),
                    Err(error) => {
                        let message = format!("filter {number} is forgotten: {error}");
                        self.events.warn("slice", &slice, "Forgotten", message);
                    }
                }
            }
            let changed = self.filters.change_own(&slice, &[], all);
            changed.map_err(|error| NodeError::Refused(error.to_string()))?;
        }
        // No request to the loop is needed, which waits: there is no switch yet.
        let documents = self.documents();
        for slice in self.filters.names(&documents) {
            self.filters.set_documents(&slice, &documents)?;
        }
        self.filters.tidy();
        let in_force = Some(Arc::new(documents.filters.clone()));
        Ok(Fresh { in_force, ..Fresh::all(&self.filters) })
    }

    /// Puts the rules of the desired state in force.
    pub(super) fn set_documents(&mut self) -> Result<(), NodeError> {
        let documents = self.documents();
        for slice in self.filters.names(&documents) {
            if !documents.slices.iter().any(|other| **other.name == *slice) {
                self.park(&slice);
            }
            if let Some(told) = self.filters.set_documents(&slice, &documents)? {
                self.tell(&slice, &told)?;
            }
        }
        // A slice that returns because a change was undone gets its numbered rules again.
        let there = |slice: &String| documents.slices.iter().any(|other| **other.name == **slice);
        let back: Vec<_> = self.parked.keys().filter(|slice| there(slice)).cloned().collect();
        for slice in back {
            let rules = self.parked.remove(&slice).unwrap_or_default();
            let told = self.filters.change_own(&slice, &[], rules);
            let told = told.map_err(|error| NodeError::Refused(error.to_string()))?;
            self.tell(&slice, &told)?;
        }
        self.publish(Fresh {
            in_force: Some(Arc::new(documents.filters.clone())),
            parked: Some(self.parked.keys().map(SliceId::new).collect()),
            ..Fresh::default()
        });
        Ok(())
    }

    fn park(&mut self, slice: &str) {
        let rules: Vec<_> =
            self.filters.own(slice).map(|(number, one)| (number, one.rule.clone())).collect();
        if !rules.is_empty() {
            self.parked.insert(slice.to_owned(), rules);
        }
    }
}
