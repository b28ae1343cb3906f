//! `filter`: changes rules of slices while packets pass.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::engine::ArgValueCompleter;
use europa_api::Problems;
use europa_api::filters::{Action, Rule};
use europa_api::rest::{
    ClassBench, FilterChanged, FilterChanges, FilterList, FilterStatus, NewFilter,
};
use europa_client::{Client, escape};
use europa_node::Instance;
use serde_json::Value;

use crate::complete;
use crate::exit::Failure;
use crate::table::{Colours, Table, errors_in_colour, line, out};
use crate::target::remote;
use crate::up::{Progress, client};

/// Commands about rules.
#[derive(Subcommand)]
pub(crate) enum FilterCommand {
    /// Add rules, all at once, and print their numbers.
    #[command(after_help = "Examples:\n  \
        europa filter add red 'protocol: udp, destination_port: 53, action: {queue: 2}'\n  \
        europa filter add red 'priority: 9, source: 10.9.0.0/16, action: drop'")]
    Add {
        /// The slice whose packets they match.
        #[arg(add = ArgValueCompleter::new(complete::slices))]
        slice: String,
        /// Rules, each in one line, with the fields of a `filters` document.
        #[arg(required = true)]
        rules: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove rules by number, all at once.
    Del {
        /// The slice.
        #[arg(add = ArgValueCompleter::new(complete::slices))]
        slice: String,
        /// Numbers as `list` shows them.
        #[arg(required = true)]
        numbers: Vec<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a slice's rules with the packets and bytes that each has matched.
    List {
        /// The slice.
        #[arg(add = ArgValueCompleter::new(complete::slices))]
        slice: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add the rules of a file, all at once.
    ///
    /// The file has one rule a line: in the form of `add`, or as a filter in ClassBench's format.
    /// The first filter has the highest priority.
    Load {
        /// The slice.
        #[arg(add = ArgValueCompleter::new(complete::slices))]
        slice: String,
        /// The file.
        file: PathBuf,
        /// The action of ClassBench filters, such as `drop` or `{queue: 3}`.
        #[arg(long, default_value = "count")]
        action: String,
        /// Remove all present rules that have numbers, at the same moment.
        #[arg(long)]
        replace: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn filter(instance: &Instance, command: FilterCommand) -> Result<ExitCode, Failure> {
    match command {
        FilterCommand::Add { slice, rules, json } => {
            let add = new(read("rule", &rules.join("\n"))?);
            change(instance, &slice, &FilterChanges { add, ..FilterChanges::default() }, json)
        }
        FilterCommand::Del { slice, numbers: remove, json } => {
            change(instance, &slice, &FilterChanges { remove, ..FilterChanges::default() }, json)
        }
        FilterCommand::List { slice, json } => list(instance, &slice, json),
        FilterCommand::Load { slice, file, action, replace, json } => {
            let changes = load(&file, &action)?;
            change(instance, &slice, &FilterChanges { replace, ..changes }, json)
        }
    }
}

/// A client of the node or, in a router's slow path, of the node's socket for programs of routers.
fn node(instance: &Instance) -> Client {
    if remote().is_some() {
        return client(instance);
    }
    let inside = Client::new("\0europa");
    match instance.socket().exists() || !inside.is_there() {
        true => client(instance),
        false => inside,
    }
}

fn url(slice: &str) -> String {
    format!("/v1/slices/{}/filters", escape(slice))
}

fn read(file: &str, text: &str) -> Result<Vec<Rule>, Failure> {
    let shown = |problems: Problems| Failure::configuration(problems.render(errors_in_colour()));
    Rule::parse_lines(file, text).map_err(shown)
}

fn new(rules: Vec<Rule>) -> Vec<NewFilter> {
    rules.into_iter().map(|rule| NewFilter { number: None, rule }).collect()
}

fn load(file: &Path, action: &str) -> Result<FilterChanges, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::from(format!("cannot read {name}: {error}")))?;
    if !text.trim_start().starts_with('@') {
        return Ok(FilterChanges { add: new(read(&name, &text)?), ..FilterChanges::default() });
    }
    let rules = read("--action", &format!("{{action: {action}}}"))?;
    let action = rules.into_iter().next().map_or_else(Action::default, |rule| rule.action);
    let classbench = Some(ClassBench { file: name, text, action });
    Ok(FilterChanges { classbench, colour: errors_in_colour(), ..FilterChanges::default() })
}

fn change(
    instance: &Instance,
    slice: &str,
    changes: &FilterChanges,
    json: bool,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new("changing rules");
    let changed = node(instance).post(&url(slice), changes);
    progress.end();
    let changed: FilterChanged = changed?;
    if json {
        line!("{}", serde_json::to_string_pretty(&changed)?);
        return Ok(ExitCode::SUCCESS);
    }
    let added = match changed.added.as_slice() {
        [] => "none added".to_owned(),
        [one] => format!("{one} added"),
        [first, .., last] => format!("{} added, {first} to {last}", changed.added.len()),
    };
    line!("{added}, {} removed", changed.removed);
    Ok(ExitCode::SUCCESS)
}

fn list(instance: &Instance, slice: &str, json: bool) -> Result<ExitCode, Failure> {
    let list: FilterList = node(instance).get(&url(slice))?;
    if json {
        line!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table =
        Table::new(&["NUMBER", "PRIORITY", "PACKETS", "BYTES", "RULE"]).right(&[1, 2, 3]);
    for filter in &list.filters {
        let FilterStatus { document, number, rule, packets, bytes, .. } = filter;
        let number = number.map(|number| number.to_string());
        table.row([
            number.or_else(|| document.clone()).unwrap_or_default(),
            rule.priority.to_string(),
            packets.to_string(),
            bytes.to_string(),
            shown(rule)?,
        ]);
    }
    out!("{}", table.text(Colours::stdout()));
    line!("{} of {} entries used", list.entries, list.limit);
    Ok(ExitCode::SUCCESS)
}

/// A rule in one line, without its priority.
fn shown(rule: &Rule) -> Result<String, Failure> {
    let mut value = serde_json::to_value(rule)?;
    if let Value::Object(fields) = &mut value {
        fields.shift_remove("priority");
        let pairs = fields.iter().map(|(name, value)| pair(name, value));
        return Ok(pairs.collect::<Vec<_>>().join(", "));
    }
    Ok(value.to_string())
}

/// A field as text. Values that YAML would read as a number are quoted.
fn pair(name: &str, value: &Value) -> String {
    match name {
        "key" | "result" => format!("{name}: {value}"),
        _ => format!("{name}: {}", plain(value)),
    }
}

/// YAML in one line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let pairs = map.iter().map(|(name, value)| pair(name, value));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_added() {
        for text in [
            "source: 10.0.0.0/8, protocol: tcp, destination_port: 80-81, \
             action: {queue: 3, dscp: ef}",
            "key: \"0800??\", action: {back: true, result: \"01\"}",
        ] {
            let rules = Rule::parse_lines("rule", text).expect("a rule");
            assert_eq!(shown(&rules[0]).ok().as_deref(), Some(text));
        }
    }
}
