//! The rules of a slice, and how often each has counted.

use std::collections::HashMap;

use europa_api::rest::{FilterList, FilterStatus, ProblemDetails};

use super::Actor;
use super::own::known_slice;
use crate::NodeError;
use crate::filters::{Origin, count};

impl Actor {
    /// A slice's rules, and how often each has counted.
    pub(super) fn list(&mut self, slice: &str) -> Result<FilterList, ProblemDetails> {
        let documents = self.documents();
        known_slice(&documents, slice)?;
        let limit = self.filters.limit(slice, &documents) as u64;
        let hits = self.hits(slice).map_err(|error| ProblemDetails::failed(error.to_string()))?;
        let Some(filters) = self.filters.slice(slice) else {
            return Ok(FilterList { limit, ..FilterList::default() });
        };
        let list = filters.iter().map(|installed| {
            let (document, number) = match &installed.origin {
                Origin::Document(name) => (Some(name.clone()), None),
                Origin::Own(number) => (None, Some(*number)),
            };
            let all = installed.entries.iter().filter_map(|entry| hits.get(entry));
            let (packets, bytes) = all.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
            let entries = count(&installed.rule) as u64;
            FilterStatus { document, number, rule: installed.rule.clone(), entries, packets, bytes }
        });
        Ok(FilterList { filters: list.collect(), entries: filters.used() as u64, limit })
    }

    /// Packets and bytes by entry.
    fn hits(&mut self, slice: &str) -> Result<HashMap<u32, (u64, u64)>, NodeError> {
        let (Some(filters), Some(orders)) = (self.filters.slice(slice), &mut self.orders) else {
            return Ok(HashMap::new());
        };
        let room = filters.used();
        if room == 0 {
            return Ok(HashMap::new());
        }
        let rows = orders.hits(filters.number(), room)?;
        Ok(rows
            .into_iter()
            .map(|[entry, packets, bytes]| (entry as u32, (packets, bytes)))
            .collect())
    }
}
