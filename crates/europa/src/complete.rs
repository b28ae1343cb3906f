//! Completion in the shell: names of objects and handlers, which a running node is asked for.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use europa_api::rest::{HandlerValue, Objects};
use europa_api::stats::NodeStats;
use europa_client::{Client, Deadlines};
use europa_node::Instance;

use crate::kinds::{KINDS, plural};
use crate::target::{self, TargetArgs};
use crate::{explain, routers, selected};

/// The words before the word to complete, as the shell passes them.
fn line() -> Vec<String> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The name of the node in a command line.
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

/// The first word after one of these commands, without options.
fn after<'a>(line: &'a [String], commands: &[&str]) -> Option<&'a str> {
    let mut words = line.iter().skip_while(|word| !commands.contains(&word.as_str())).skip(1);
    words.find(|word| !word.starts_with('-')).map(String::as_str)
}

/// The plural of the kind, after a command that takes one.
fn kind(line: &[String]) -> Option<&'static str> {
    plural(after(line, &["get", "ls", "describe", "delete", "watch"])?).ok()
}

/// A client of the node in the command line. Its timeout is short, because the user waits.
fn client() -> Option<Client> {
    let name = instance(&line()).or_else(|| std::env::var("EUROPA_INSTANCE").ok());
    // The node that the command itself would use; without a choice, the node of this machine.
    let _ = target::choose(&TargetArgs::default(), name.is_some());
    let instance = Instance::new(name.as_deref().unwrap_or("default")).ok()?;
    let deadlines = Deadlines {
        silence: Duration::from_millis(500),
        probe: Duration::from_millis(500),
        reading: Duration::from_secs(2),
        ..Deadlines::default()
    };
    Some(target::client(&instance).with_deadlines(deadlines))
}

/// The objects of some kinds, in the form that `shown` makes of plural and name.
fn objects_of(
    kinds: &[&str],
    current: &OsStr,
    shown: impl Fn(&str, &str) -> String,
) -> Vec<CompletionCandidate> {
    let Some(client) = client() else { return Vec::new() };
    let current = current.to_string_lossy();
    let mut candidates = Vec::new();
    for kind in kinds {
        let Ok(objects) = client.get::<Objects>(&format!("/v1/{kind}")) else { continue };
        let names = objects.items.into_iter().map(|one| (shown(kind, &one.name), one.kind));
        let fit = names.filter(|(name, _)| name.starts_with(&*current));
        candidates
            .extend(fit.map(|(name, kind)| CompletionCandidate::new(name).help(Some(kind.into()))));
    }
    candidates
}

fn names(kinds: &[&str], current: &OsStr) -> Vec<CompletionCandidate> {
    objects_of(kinds, current, |_, name| name.to_owned())
}

/// The words that begin with `current`.
fn words<W: AsRef<str>>(
    words: impl IntoIterator<Item = W>,
    current: &OsStr,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fit = words.into_iter().filter(|word| word.as_ref().starts_with(&*current));
    fit.map(|word| CompletionCandidate::new(word.as_ref())).collect()
}

/// KIND/NAME of the kind that `current` begins with.
fn references(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let Some((typed, _)) = text.split_once('/') else { return Vec::new() };
    let Ok(kind) = plural(typed) else { return Vec::new() };
    objects_of(&[kind], current, |_, name| format!("{typed}/{name}"))
}

/// Kinds of objects, and KIND/NAME.
pub(crate) fn kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut kinds = words(KINDS.map(|(many, _, _)| many), current);
    kinds.extend(references(current));
    kinds
}

/// Routers.
pub(crate) fn routers(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["routers"], current)
}

/// Objects of the kind in the command line; without a kind, kinds and KIND/NAME.
pub(crate) fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    match kind(&line()) {
        Some(kind) => names(&[kind], current),
        None => kinds(current),
    }
}

/// Slices.
pub(crate) fn slices(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["slices"], current)
}

/// Flows.
pub(crate) fn flows(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["flows"], current)
}

/// Users.
pub(crate) fn users(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["users"], current)
}

/// Objects with packets to capture, and interfaces of routers.
pub(crate) fn captured(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut captured = names(&["routers", "ports", "links", "slices"], current);
    if current.to_string_lossy().contains('.') {
        captured.extend(counted(current));
    }
    captured
}

/// Objects that `stats` selects.
pub(crate) fn counted(current: &OsStr) -> Vec<CompletionCandidate> {
    let stats = client().and_then(|client| client.get::<NodeStats>("/v1/stats").ok());
    stats.map_or_else(Vec::new, |stats| words(selected::names(&stats), current))
}

/// Drawings.
pub(crate) fn drawn(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut drawn = words(["topology"], current);
    drawn.extend(routers(current));
    drawn
}

/// Logs.
pub(crate) fn logs(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut logs = words(["node", "switch"], current);
    logs.extend(names(&["routers", "hosts"], current));
    logs
}

/// The objects that `exec` enters.
pub(crate) fn entered(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["routers", "hosts"], current)
}

/// Kinds and fields of documents, in the form of `explain`.
pub(crate) fn fields(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    match text.rsplit_once('.') {
        None => words(KINDS.map(|(_, one, _)| one), current),
        Some((above, _)) => {
            let below = explain::names_below(above).into_iter();
            words(below.map(|name| format!("{above}.{name}")), current)
        }
    }
}

/// Handlers that can be read.
pub(crate) fn read_handlers(current: &OsStr) -> Vec<CompletionCandidate> {
    handlers(current, 'r')
}

/// Handlers that can be written.
pub(crate) fn write_handlers(current: &OsStr) -> Vec<CompletionCandidate> {
    handlers(current, 'w')
}

/// The elements of the router in the command line; after a dot, the handlers of an element.
fn handlers(current: &OsStr, mode: char) -> Vec<CompletionCandidate> {
    let line = line();
    let Some(path) = after(&line, &["read", "write"]).and_then(|name| routers::path(name).ok())
    else {
        return Vec::new();
    };
    let Some(client) = client() else { return Vec::new() };
    let read = |handler: &str| -> Option<String> {
        let path = format!("{path}/handlers/{}", europa_client::escape(handler));
        client.get::<HandlerValue>(&path).ok().map(|answer| answer.value)
    };
    let text = current.to_string_lossy();
    if let Some((element, _)) = text.rsplit_once('.') {
        let list = read(&format!("{element}.handlers")).unwrap_or_default();
        return words(allowed(&list, mode).map(|name| format!("{element}.{name}")), current);
    }
    let elements = read("list").unwrap_or_default();
    // The first line is their number.
    let elements = elements.lines().skip(1).map(|name| format!("{name}."));
    let own = read("handlers").unwrap_or_default();
    words(elements.chain(allowed(&own, mode).map(str::to_owned)), current)
}

/// The names in a list of handlers that permit a mode. In the list, each name is followed by a tab
/// and its modes.
fn allowed(list: &str, mode: char) -> impl Iterator<Item = &str> {
    let pairs = list.lines().filter_map(|line| line.split_once('\t'));
    pairs.filter(move |(_, modes)| modes.contains(mode)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_before_decide() {
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

    #[test]
    fn handlers_are_listed_by_what_can_be_done_with_them() {
        let list = "count\tr\ncount_call\trw\nreset\twb\n";
        assert_eq!(allowed(list, 'r').collect::<Vec<_>>(), ["count", "count_call"]);
        assert_eq!(allowed(list, 'w').collect::<Vec<_>>(), ["count_call", "reset"]);
        let line: Vec<String> =
            ["europa", "--instance=lab", "read", "--json", "red/r1"].map(str::to_owned).into();
        assert_eq!(after(&line, &["read", "write"]), Some("red/r1"));
    }

    #[test]
    fn fields_are_completed() {
        let shown = |text: &str| -> Vec<String> {
            let found = fields(OsStr::new(text));
            found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(shown("rou"), ["router"]);
        assert_eq!(shown("router.fast"), ["router.fast_path"]);
        assert!(shown("router.fast_path.b").contains(&"router.fast_path.builtin".to_owned()));
        assert!(shown("frob.").is_empty());
    }
}
