//! Names of objects, for the shell's completion: the node is asked, if one runs.

use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;
use europa_api::rest::Objects;
use europa_client::Client;
use europa_node::Instance;

use crate::get::{KINDS, plural};

/// The words before the one that is completed, as the shell hands them over.
fn line() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The node that a line means.
fn instance(line: &[String]) -> Option<String> {
    let mut words = line.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("--instance") {
            Some("") => return words.next().cloned(),
            Some(name) => return name.strip_prefix('=').map(str::to_owned),
            None => {}
        }
    }
    None
}

/// The plural of the kind that stands behind a command that takes one.
fn kind(line: &[String]) -> Option<&'static str> {
    let commands = ["get", "ls", "describe", "delete"];
    let mut words = line.iter().skip_while(|word| !commands.contains(&word.as_str())).skip(1);
    plural(words.find(|word| !word.starts_with('-'))?).ok()
}

fn names(kinds: &[&str], current: &OsStr) -> Vec<CompletionCandidate> {
    let instance = instance(&line())
        .or_else(|| std::env::var("EUROPA_INSTANCE").ok())
        .unwrap_or_else(|| "default".to_owned());
    let Ok(instance) = Instance::new(&instance) else { return Vec::new() };
    let client = Client::new(instance.socket());
    let current = current.to_string_lossy();
    let objects =
        kinds.iter().filter_map(|kind| client.get::<Objects>(&format!("/v1/{kind}")).ok());
    objects
        .flat_map(|objects| objects.items)
        .filter(|object| object.name.starts_with(&*current))
        .map(|object| CompletionCandidate::new(object.name).help(Some(object.kind.into())))
        .collect()
}

/// Those of some words that begin like this.
fn words(words: &[&str], current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fit = words.iter().filter(|word| word.starts_with(&*current));
    fit.map(|word| CompletionCandidate::new(*word)).collect()
}

/// Kinds of objects.
pub(crate) fn kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    words(&KINDS.map(|(many, _, _)| many), current)
}

/// Routers.
pub(crate) fn routers(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["routers"], current)
}

/// Objects of the kind that was typed, or all.
pub(crate) fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    match kind(&line()) {
        Some(kind) => names(&[kind], current),
        None => names(&KINDS.map(|(many, _, _)| many), current),
    }
}

/// Whatever can be captured.
pub(crate) fn captured(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["routers", "ports", "links", "slices"], current)
}

/// Whatever can be drawn.
pub(crate) fn drawn(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut drawn = words(&["topology"], current);
    drawn.extend(routers(current));
    drawn
}

/// Whatever has a log.
pub(crate) fn logs(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut logs = words(&["node", "switch"], current);
    logs.extend(routers(current));
    logs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_before_counts() {
        for (line, wanted) in [
            ("europa describe router r", (None, Some("routers"))),
            ("europa --instance lab describe p ", (Some("lab"), Some("ports"))),
            ("europa --instance=lab get --json hosts ", (Some("lab"), Some("hosts"))),
            ("europa restart r", (None, None)),
            ("europa get nosuch ", (None, None)),
        ] {
            let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!((instance(&line).as_deref(), kind(&line)), wanted, "{line:?}");
        }
    }
}
