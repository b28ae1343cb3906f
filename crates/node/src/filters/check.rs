//! Checks whether rules fit: names must exist, and enough entries must be free.

use europa_api::filters::Rule;
use europa_api::{Documents, Fault, Key, MOST_FILTERS};

use super::entries::count;
use super::{FilterError, Filters, Index};
use crate::NodeError;

impl Index {
    /// Checks whether the rules of documents fit.
    ///
    /// # Errors
    /// The excess, and its document.
    pub(crate) fn check(&self, documents: &Documents) -> Result<(), NodeError> {
        if documents.filters.is_empty() && !self.knows_slices() {
            return Ok(());
        }
        let mut left = MOST_FILTERS as usize;
        let reserved_by = |slice: &europa_api::Slice| reserved(documents, &slice.name);
        left = left.saturating_sub(documents.slices.iter().filter_map(reserved_by).sum());
        for slice in &documents.slices {
            let reserved = reserved_by(slice);
            let (limit, mut used) = (reserved.unwrap_or(left), self.own_entries(&slice.name));
            let refused = |key, path: &[&str], used, wanted| {
                let slice = slice.name.to_string();
                Fault::new(key, path, FilterError::Limit { slice, limit, used, wanted })
                    .label("too many")
                    .help("write fewer rules, or reserve more: `reservation: {filters: N}`")
            };
            if used > limit {
                let key = Key::new("slice", slice.name.to_string());
                return Err(refused(key, &["reservation", "filters"], 0, used).into());
            }
            for filters in documents.filters.iter().filter(|one| **one.slice == **slice.name) {
                let wanted = filters.rules.0.iter().map(|rule| count(rule)).sum();
                if used + wanted > limit {
                    let key = Key::new("filters", filters.name.to_string());
                    return Err(refused(key, &["rules"], used, wanted).into());
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

    /// Checks whether rules fit that replace rules with `gone` entries.
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

/// Number of entries that a slice reserves.
pub(super) fn reserved(documents: &Documents, slice: &str) -> Option<usize> {
    let slice = documents.slices.iter().find(|other| **other.name == *slice)?;
    Some(slice.reservation.as_ref()?.filters.as_ref()?.value as usize)
}
