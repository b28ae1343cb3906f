//! Rules with numbers, as programs and users change them.

use std::collections::HashSet;

use europa_api::Documents;
use europa_api::filters::Rule;
use europa_api::rest::{FilterChanged, ProblemDetails};

use super::{Actor, Answer};
use crate::NodeError;

/// Rules with numbers that are in force and not written down yet.
pub(crate) struct OwnWrite {
    pub(crate) slice: String,
    pub(crate) put: Vec<(u32, String)>,
    pub(crate) removed: Vec<u32>,
    pub(crate) changed: FilterChanged,
    /// The changes that undo them: numbers to remove, rules to add.
    pub(crate) back: (Vec<u32>, Vec<(u32, Rule)>),
}

/// Changes of the rules with numbers, as asked for.
pub struct OwnChanges {
    /// The slice.
    pub slice: String,
    /// Remove all.
    pub replace: bool,
    /// Numbers of rules to remove.
    pub removed: Vec<u32>,
    /// Added rules, with or without a number.
    pub added: Vec<(Option<u32>, Rule)>,
}

impl Actor {
    /// Adds and removes rules with numbers. The loop has them written down, and answers.
    pub(super) fn change_own(&mut self, changes: OwnChanges, answer: Answer<FilterChanged>) {
        match self.enforce(changes) {
            Ok(write) => self.control.tell(move |node| node.write_own(write, answer)),
            // The caller may have ended.
            Err(problem) => drop(answer.send(Err(problem))),
        }
    }

    /// Takes a change back.
    pub(super) fn take_back(
        &mut self,
        slice: &str,
        (removed, added): (Vec<u32>, Vec<(u32, Rule)>),
    ) {
        let done = match self.filters.change_own(slice, &removed, added) {
            Ok(told) => self.tell(slice, &told),
            Err(error) => Err(NodeError::Refused(error.to_string())),
        };
        if let Err(error) = done {
            self.events.warn("slice", slice, "Failed", format!("taking rules back: {error}"));
        }
    }

    /// Puts rules that have numbers in force: they are written down once the switch has them.
    fn enforce(&mut self, changes: OwnChanges) -> Result<OwnWrite, ProblemDetails> {
        let OwnChanges { slice, replace, mut removed, added } = changes;
        let documents = &*self.documents();
        known_slice(documents, &slice)?;
        let filters = &self.filters;
        // The cost of a change depends on its own entries, not on the number of other rules.
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
        let told = self.filters.change_own(&slice, &removed, numbered);
        let told = told.map_err(|error| ProblemDetails::configuration(error.to_string()))?;
        if let Err(error) = self.tell(&slice, &told) {
            self.take_back(&slice, back);
            return Err(ProblemDetails::failed(error.to_string()));
        }
        Ok(OwnWrite { slice, put, removed, changed, back })
    }
}

/// Succeeds if the slice exists.
pub(super) fn known_slice(documents: &Documents, slice: &str) -> Result<(), ProblemDetails> {
    let all = &documents.slices;
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
