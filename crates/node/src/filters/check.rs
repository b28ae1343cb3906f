//! Whether rules fit: names that exist, entries that are left.

use std::collections::HashMap;

use europa_api::filters::Rule;
use europa_api::{Documents, Fault, Key, MOST_FILTERS, Slice};

use super::entries::count;
use super::{FilterError, Filters, Index};
use crate::NodeError;

/// The entries of the switch that the rules of documents need.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Entries {
    /// In the documents' order.
    slices: Vec<EntriesOfSlice>,
    /// Whether there are documents with rules.
    has_rules: bool,
}

/// The same of a slice.
#[derive(Debug, Default, PartialEq)]
struct EntriesOfSlice {
    name: String,
    reserved: Option<usize>,
    /// The names of its documents, and their entries.
    documents: Vec<(String, usize)>,
}

impl Entries {
    /// Those of documents. Counts all rules.
    pub(crate) fn of(documents: &Documents) -> Self {
        let mut counts: HashMap<&str, Vec<(String, usize)>> = HashMap::new();
        for filters in &documents.filters {
            let count = filters.rules.0.iter().map(|rule| count(rule)).sum();
            counts.entry(&**filters.slice).or_default().push((filters.name.to_string(), count));
        }
        let of = |slice: &Slice| EntriesOfSlice {
            name: slice.name.to_string(),
            reserved: reserved_by(slice),
            documents: counts.remove(&**slice.name).unwrap_or_default(),
        };
        Self {
            has_rules: !documents.filters.is_empty(),
            slices: documents.slices.iter().map(of).collect(),
        }
    }
}

impl Index {
    /// Whether the rules of documents fit.
    ///
    /// # Errors
    /// The excess, and its document.
    pub(crate) fn check(&self, entries: &Entries) -> Result<(), NodeError> {
        if !entries.has_rules && !self.knows_slices() {
            return Ok(());
        }
        let mut left = MOST_FILTERS as usize;
        left = left.saturating_sub(entries.slices.iter().filter_map(|slice| slice.reserved).sum());
        for slice in &entries.slices {
            let reserved = slice.reserved;
            let (limit, mut used) = (reserved.unwrap_or(left), self.own_entries(&slice.name));
            let refused = |key, path: &[&str], used, wanted| {
                let slice = slice.name.clone();
                Fault::new(key, path, FilterError::Limit { slice, limit, used, wanted })
                    .label("too many")
                    .help("write fewer rules, or reserve more: `reservation: {filters: N}`")
            };
            if used > limit {
                let key = Key::new("slice", slice.name.clone());
                return Err(refused(key, &["reservation", "filters"], 0, used).into());
            }
            for (name, wanted) in &slice.documents {
                if used + wanted > limit {
                    let key = Key::new("filters", name.clone());
                    return Err(refused(key, &["rules"], used, *wanted).into());
                }
                used += wanted;
            }
            left -= if reserved.is_none() { used } else { 0 };
        }
        Ok(())
    }
}

impl Filters {
    /// Most entries of a slice.
    pub(crate) fn limit(&self, slice: &str, documents: &Documents) -> usize {
        if let Some(reserved) = reserved(documents, slice) {
            return reserved;
        }
        let all = documents.slices.iter();
        let reserved: usize = all.filter_map(|other| reserved(documents, &other.name)).sum();
        let others = self.slices.iter().filter(|(name, _)| **name != slice);
        let others = others.filter(|(name, _)| self::reserved(documents, name).is_none());
        let used: usize = others.map(|(_, filters)| filters.used).sum();
        (MOST_FILTERS as usize).saturating_sub(reserved + used)
    }

    /// Whether rules fit that replace rules with `gone` entries.
    ///
    /// # Errors
    /// The excess.
    pub(crate) fn fit<'r>(
        &self,
        slice: &str,
        documents: &Documents,
        gone: usize,
        rules: impl Iterator<Item = &'r Rule>,
    ) -> Result<(), FilterError> {
        let used = self.slices.get(slice).map_or(0, |filters| filters.used).saturating_sub(gone);
        let (limit, wanted) = (self.limit(slice, documents), rules.map(count).sum());
        let slice = slice.to_owned();
        if used + wanted > limit {
            return Err(FilterError::Limit { slice, limit, used, wanted });
        }
        Ok(())
    }
}

/// Number of entries that the slice of this name reserves.
pub(super) fn reserved(documents: &Documents, slice: &str) -> Option<usize> {
    reserved_by(documents.slices.iter().find(|other| **other.name == *slice)?)
}

/// Number of entries that a slice reserves.
fn reserved_by(slice: &Slice) -> Option<usize> {
    Some(slice.reservation.as_ref()?.filters.as_ref()?.value as usize)
}
