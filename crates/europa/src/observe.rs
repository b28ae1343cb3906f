//! `watch`: prints objects again whenever one of them changes.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::Object;
use europa_node::Instance;

use crate::complete;
use crate::exit::Failure;
use crate::get::{Selection, tables};
use crate::table::{Colours, line, out, plain_lines};
use crate::up::client;
use crate::watch::{Beat, CLEAR};

/// Arguments of `watch`.
#[derive(Args)]
pub(crate) struct ObserveArgs {
    /// ports, slices, links, hosts, routers, filters, users or all; or KIND/NAME.
    #[arg(add = ArgValueCompleter::new(complete::kinds))]
    kind: Option<String>,
    /// Name of one object: SLICE/NAME for a router.
    #[arg(add = ArgValueCompleter::new(complete::objects))]
    name: Option<String>,
    /// Seconds between two readings.
    #[arg(short, long, value_name = "SECONDS", default_value = "1",
        value_parser = crate::cli::interval)]
    every: Duration,
    /// Print each object that changes as JSON, one a line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn observe(instance: &Instance, args: &ObserveArgs) -> Result<ExitCode, Failure> {
    let selection = Selection::of(args.kind.as_deref(), args.name.as_deref())?;
    let client = client(instance);
    let colours = Colours::stdout();
    let mut beat = Beat::new(args.every, None)?;
    let mut before: Vec<Object> = Vec::new();
    let mut first = true;
    loop {
        let now = selection.read(&client)?;
        if args.json {
            for object in changed(&before, &now) {
                line!("{}", serde_json::to_string(object)?);
            }
        } else if io::stdout().is_terminal() {
            let text = tables(&now, selection.is_mixed(), false, colours);
            out!("{CLEAR}{text}");
        } else {
            for object in changed(&before, &now) {
                line!("{}", object_line(object, colours));
            }
            for gone in gone(&before, &now) {
                line!("{} {} removed", gone.kind, gone.name);
            }
        }
        if first && now.is_empty() {
            eprintln!("europa: there are no objects yet; waiting for the first");
        }
        (first, before) = (false, now);
        if !beat.wait() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// One line about an object.
fn object_line(object: &Object, colours: Colours) -> String {
    let message = object.status.message.as_deref().map(plain_lines);
    let message = message.map_or(String::new(), |message| format!(": {message}"));
    let state = colours.state(&object.status.state);
    format!("{} {} {state}, generation {}{message}", object.kind, object.name, object.generation)
}

fn is_same(a: &Object, b: &Object) -> bool {
    a.kind == b.kind && a.name == b.name
}

/// Objects that are new or differ in document, state, process or number of restarts.
fn changed<'a>(before: &[Object], now: &'a [Object]) -> Vec<&'a Object> {
    let key = |object: &Object| {
        let detail = |name: &str| object.status.details.get(name).cloned();
        let Object { generation, status, .. } = object;
        (
            *generation,
            status.state.clone(),
            status.message.clone(),
            detail("pid"),
            detail("restarts"),
        )
    };
    let is_new = |object: &&Object| {
        let old = before.iter().find(|old| is_same(old, object));
        old.is_none_or(|old| key(old) != key(object))
    };
    now.iter().filter(is_new).collect()
}

/// Removed objects.
fn gone<'a>(before: &'a [Object], now: &[Object]) -> Vec<&'a Object> {
    before.iter().filter(|old| !now.iter().any(|one| is_same(one, old))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::rest::Status;
    use serde_json::{Value, json};

    fn object(name: &str, state: &str, seconds: u64) -> Object {
        Object {
            kind: "router".into(),
            name: name.into(),
            generation: 1,
            changed: String::new(),
            document: Value::Null,
            status: Status {
                state: state.into(),
                details: [("seconds".to_owned(), json!(seconds))].into(),
                ..Status::default()
            },
        }
    }

    #[test]
    fn only_changes_are_shown() {
        let before = [object("red/a", "running", 1), object("red/b", "starting", 1)];
        let now = [
            object("red/a", "running", 2),
            object("red/b", "running", 2),
            object("red/c", "starting", 0),
        ];
        let names = |objects: Vec<&Object>| {
            objects.iter().map(|object| object.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(changed(&[], &before)), "red/a red/b");
        assert_eq!(names(changed(&before, &now)), "red/b red/c");
        assert_eq!(names(gone(&now, &before)), "red/c");
        assert_eq!(object_line(&now[1], Colours::none()), "router red/b running, generation 1");
    }
}
