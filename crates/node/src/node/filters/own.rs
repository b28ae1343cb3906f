//! Rules with numbers, as programs and users change them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use europa_api::filters::Rule;
use europa_api::rest::{FilterChanged, FilterList, FilterStatus, ProblemDetails};
use europa_pool::Mapping;
use europa_switch::FilterOrder;

use super::super::Node;
use super::{Filtering, ask, memory};
use crate::control::Reply;
use crate::filters::{Origin, count};
use crate::store::Store;
use crate::{Doing, NodeError};

/// Rules with numbers that are in force and not written down yet.
pub(super) struct OwnWrite {
    slice: String,
    put: Vec<(u32, String)>,
    removed: Vec<u32>,
    changed: FilterChanged,
    /// The changes that take them back: numbers to remove, rules to add.
    back: (Vec<u32>, Vec<(u32, Rule)>),
}

/// Changes of the rules with numbers, as asked for.
pub struct OwnChanges {
    /// The slice.
    pub slice: String,
    /// Remove all.
    pub replace: bool,
    /// Numbers of rules to remove.
    pub removed: Vec<u32>,
    /// Rules, with numbers or to get one.
    pub added: Vec<(Option<u32>, Rule)>,
}

impl Node {
    /// Adds and removes rules with numbers; `reply` is called once they are written down.
    pub(crate) fn change_own_filters(
        &mut self,
        changes: OwnChanges,
        reply: Reply<Result<FilterChanged, ProblemDetails>>,
    ) {
        let OwnWrite { slice, put, removed, changed, back } = match self.enforce_own(changes) {
            Ok(write) => write,
            // The caller may be gone.
            Err(problem) => return drop(reply.send(Err(problem))),
        };
        let write = {
            let slice = slice.clone();
            move |store: &mut dyn Store| store.change_filters(&slice, &put, &removed)
        };
        self.store.write(&self.control, write, move |node, written| {
            let answer = written.map(|()| changed).map_err(|error| {
                node.take_own_back(&slice, back);
                ProblemDetails::failed(error.to_string())
            });
            let _ = reply.send(answer);
        });
    }

    /// A change that could not be written down is taken back.
    pub(super) fn take_own_back(
        &mut self,
        slice: &str,
        (removed, added): (Vec<u32>, Vec<(u32, Rule)>),
    ) {
        let told = self.filtering.filters.change_own(slice, &removed, added);
        let done = match told {
            Ok(told) => self.tell_filters(slice, &told),
            Err(error) => Err(NodeError::Refused(error.to_string())),
        };
        if let Err(error) = done {
            self.events.warn("slice", slice, "Failed", format!("taking rules back: {error}"));
        }
    }

    /// Puts rules that have numbers in force: they are written down once the switch has them.
    pub(super) fn enforce_own(&mut self, changes: OwnChanges) -> Result<OwnWrite, ProblemDetails> {
        let OwnChanges { slice, replace, mut removed, added } = changes;
        let documents = &self.documents;
        self.known_slice(&slice)?;
        let filters = &self.filtering.filters;
        // A change costs its own entries, for any number of other rules.
        let there = |number: u32| filters.own_rule(&slice, number);
        if replace {
            removed = filters.own(&slice).map(|(number, _)| number).collect();
        }
        removed.sort_unstable();
        removed.dedup();
        if let Some(missing) = removed.iter().find(|number| there(**number).is_none()) {
            return Err(ProblemDetails::not_found(format!(
                "slice {slice} has no filter {missing}; `europa filter list {slice}` shows them"
            )));
        }
        let mut next = match replace {
            true => 1,
            false => filters.own_highest(&slice).map_or(1, |most| most.saturating_add(1)),
        };
        let mut numbered = Vec::with_capacity(added.len());
        let mut come = HashSet::with_capacity(added.len());
        let leave: HashSet<u32> = removed.iter().copied().collect();
        let stays = |number| there(number).is_some() && !leave.contains(&number);
        for (number, rule) in added {
            for named in rule.interfaces() {
                if let Err((what, help)) = documents.interface_of(&slice, named) {
                    let help = help.map_or(String::new(), |help| format!("; {help}"));
                    return Err(ProblemDetails::configuration(what + &help));
                }
            }
            let queue = rule.action.queue.unwrap_or(0);
            documents
                .queue_of(&slice, queue)
                .map_err(|(what, help)| ProblemDetails::configuration(format!("{what}; {help}")))?;
            let number = number.unwrap_or(next);
            if stays(number) || !come.insert(number) {
                return Err(ProblemDetails::conflict(format!(
                    "slice {slice} has a filter {number} already; remove it in the same request"
                )));
            }
            next = next.max(number.saturating_add(1));
            numbered.push((number, rule));
        }
        let gone = removed.iter().filter_map(|number| there(*number));
        let gone = gone.map(|one| one.entries.len()).sum();
        let rules = numbered.iter().map(|(_, rule)| rule);
        let fits = filters.fit(&slice, documents, gone, rules);
        fits.map_err(|error| ProblemDetails::configuration(error.to_string()))?;
        let mut put = Vec::with_capacity(numbered.len());
        for (number, rule) in &numbered {
            let text = serde_json::to_string(rule);
            put.push((*number, text.map_err(|error| ProblemDetails::failed(error.to_string()))?));
        }
        let changed = FilterChanged {
            added: numbered.iter().map(|(number, _)| *number).collect(),
            removed: removed.len() as u64,
        };
        let old = removed.iter().filter_map(|number| Some((*number, there(*number)?.rule.clone())));
        let back = (changed.added.clone(), old.collect());
        let told = self.filtering.filters.change_own(&slice, &removed, numbered);
        let told = told.map_err(|error| ProblemDetails::configuration(error.to_string()))?;
        if let Err(error) = self.tell_filters(&slice, &told) {
            self.take_own_back(&slice, back);
            return Err(ProblemDetails::failed(error.to_string()));
        }
        Ok(OwnWrite { slice, put, removed, changed, back })
    }

    pub(super) fn known_slice(&self, slice: &str) -> Result<(), ProblemDetails> {
        let all = &self.documents.slices;
        if all.iter().any(|other| **other.name == *slice) {
            return Ok(());
        }
        let names: Vec<&str> = all.iter().map(|slice| -> &str { &slice.name }).collect();
        let known = match names.as_slice() {
            [] => "there is none at all".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        Err(ProblemDetails::not_found(format!("there is no slice {slice}; {known}")))
    }

    /// A slice's rules, and how often each has counted.
    pub(crate) fn filter_list(&mut self, slice: &str) -> Result<FilterList, ProblemDetails> {
        self.known_slice(slice)?;
        let limit = self.filtering.filters.limit(slice, &self.documents) as u64;
        let hits = self.hits(slice).map_err(|error| ProblemDetails::failed(error.to_string()))?;
        let Some(filters) = self.filtering.filters.slice(slice) else {
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
    pub(super) fn hits(&mut self, slice: &str) -> Result<HashMap<u32, (u64, u64)>, NodeError> {
        let Filtering { filters, orders, .. } = &mut self.filtering;
        let (Some(filters), Some(orders)) = (filters.slice(slice), orders) else {
            return Ok(HashMap::new());
        };
        let room = filters.used();
        if room == 0 {
            return Ok(HashMap::new());
        }
        let file = memory(&vec![0; room * 24])?;
        let order = FilterOrder::Hits { slice: filters.number(), room: room as u32 };
        let count = ask(orders, order, Some(&file))? as usize;
        let memory = Mapping::new(&file, room * 24).doing("reading counters of filters")?;
        let words = memory.words(0, count.min(room) * 3).unwrap_or_default();
        let row = |row: &[std::sync::atomic::AtomicU64]| {
            let word = |at: usize| row.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
            (word(0) as u32, (word(1), word(2)))
        };
        Ok(words.chunks_exact(3).map(row).collect())
    }
}
