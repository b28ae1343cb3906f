//! Changes of desired state as events: actor, change and origin.

use europa_api::rest::{Action, Applied};

use crate::state::Api;
use crate::who::Who;

/// Most names of objects in an event.
const MOST_NAMES: usize = 16;

/// Notes a change with its actor. Removes the tokens of removed users.
pub(crate) fn applied(api: &Api, who: &Who, applied: &Applied) {
    if applied.dry_run || applied.changes.is_empty() {
        return;
    }
    for change in applied.changes.iter().filter(|one| one.kind == "user") {
        if change.action == Action::Remove {
            api.tokens.forget(&change.name);
        }
    }
    let word = |action| match action {
        Action::Add => "added",
        Action::Change => "changed",
        Action::Remove => "removed",
    };
    let told = applied.changes.iter().take(MOST_NAMES);
    let told: Vec<String> = told.map(|one| format!("{} {}", word(one.action), one.key())).collect();
    let more = applied.changes.len().saturating_sub(MOST_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    // A change that concerns one slice alone is an event of that slice.
    let slices = applied.changes.iter().map(|one| match one.kind.as_str() {
        "router" => one.name.split_once('/').map(|(slice, _)| slice),
        "slice" => Some(one.name.as_str()),
        _ => None,
    });
    let slices: Vec<Option<&str>> = slices.collect();
    let object = match slices.first() {
        Some(Some(slice)) if slices.iter().all(|one| *one == Some(slice)) => ("slice", *slice),
        _ => ("node", ""),
    };
    api.events.asked(who.by(), object, "Changed", told.join(", ") + &more);
}
