//! `status`: prints whether the node runs, and which objects are not as configured.

use std::collections::BTreeMap;
use std::process::ExitCode;

use europa_api::rest::{Event, NodeInfo, Object};
use europa_api::stats::NodeStats;
use europa_client::Client;
use europa_node::Instance;
use serde_json::json;

use crate::exit::Failure;
use crate::get::Selection;
use crate::kinds::KINDS;
use crate::table::{Colours, line, out, plain_lines};
use crate::up::client;

/// Warnings that are shown.
const WARNINGS: usize = 5;

pub(crate) fn status(instance: &Instance, json: bool) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let info: NodeInfo = client.get("/v1/node")?;
    let stats: NodeStats = client.get("/v1/stats")?;
    let objects = Selection::of(None, None)?.read(&client)?;
    let warnings = warnings(&client)?;
    if json {
        let amiss: Vec<&Object> = objects.iter().filter(|object| !is_well(object)).collect();
        let switch_runs = stats.switch.is_some();
        let text = json!({ "node": info, "switch_runs": switch_runs,
            "switch_restarts": stats.switch_restarts, "objects": counts(&objects),
            "not_as_configured": amiss, "warnings": warnings });
        line!("{}", serde_json::to_string_pretty(&text)?);
    } else {
        out!("{}", text(&info, &stats, &objects, &warnings, Colours::stdout()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The latest warnings, in order.
fn warnings(client: &Client) -> Result<Vec<Event>, Failure> {
    let text = client.get_bytes("/v1/events")?;
    let all = text.split(|byte| *byte == b'\n');
    let events = all.filter_map(|line| serde_json::from_slice::<Event>(line).ok());
    let mut warnings: Vec<Event> = events.filter(|event| event.warning).collect();
    Ok(warnings.split_off(warnings.len().saturating_sub(WARNINGS)))
}

fn is_well(object: &Object) -> bool {
    matches!(object.status.state.as_str(), "running" | "attached" | "active")
}

/// Objects by kind and state.
fn counts(objects: &[Object]) -> BTreeMap<&str, BTreeMap<&str, usize>> {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for object in objects {
        let of_kind = counts.entry(&object.kind).or_default();
        *of_kind.entry(&object.status.state).or_default() += 1;
    }
    counts
}

fn text(
    info: &NodeInfo,
    stats: &NodeStats,
    objects: &[Object],
    warnings: &[Event],
    colours: Colours,
) -> String {
    let NodeInfo { instance, version, pid, since, revision, workers, .. } = info;
    let mut text = format!("node {}: process {pid}, version {version}\n", colours.bold(instance));
    text += &format!("  running since {since}, revision {revision} of the configuration");
    text += if info.settled { "\n" } else { ", a change is being carried out\n" };
    if info.temporary {
        text += "  started by `europa up`: `europa down` deletes its configuration\n";
    }
    let switch = match stats.switch {
        Some(_) => colours.green("running"),
        None => colours.red("not running"),
    };
    text += &format!(
        "  switch {switch}, {workers} {}, restarted {} times\n",
        if *workers == 1 { "worker" } else { "workers" },
        stats.switch_restarts
    );
    if let Some(at) = &info.metrics_at {
        text += &format!("  metrics at http://{at}/metrics\n");
    }
    if let Some(at) = &info.listens_at {
        text += &format!("  requests of users at https://{at}\n");
    }
    if let Some(at) = &info.ssh_at {
        text += &format!("  logins of users by SSH at {at}\n");
    }
    let counts = counts(objects);
    for (many, kind, _) in KINDS {
        let Some(states) = counts.get(kind) else { continue };
        let all: usize = states.values().sum();
        let states: Vec<String> = states
            .iter()
            .map(|(state, count)| format!("{count} {}", colours.state(state)))
            .collect();
        text += &format!("  {many:<8} {all:>5}: {}\n", states.join(", "));
    }
    for object in objects.iter().filter(|object| !is_well(object)) {
        let is_down = object.kind == "port" && object.status.state == "down";
        let default = if is_down {
            "its device is down, or the other end is; to mend it: `ip link set DEVICE up`"
        } else {
            "no reason is known"
        };
        let why = object.status.message.as_deref().unwrap_or(default);
        let state = colours.state(&object.status.state);
        text += &format!("{} {} is {state}: {}\n", object.kind, object.name, plain_lines(why));
    }
    if !warnings.is_empty() {
        text += "latest warnings:\n";
    }
    for event in warnings {
        let object = format!("{} {}", event.kind, event.name);
        let message = plain_lines(&event.message);
        text += &format!("  {}  {}  {message}\n", event.time, object.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::rest::Status;

    #[test]
    fn what_is_not_as_configured_is_named() {
        let object = |name: &str, state: &str, message: Option<&str>| Object {
            kind: "router".into(),
            name: name.into(),
            generation: 1,
            changed: String::new(),
            document: json!({}),
            status: Status {
                state: state.into(),
                message: message.map(str::to_owned),
                ..Status::default()
            },
        };
        let objects = [
            object("red/r1", "running", None),
            object("red/r2", "running", None),
            object("red/r3", "waiting", Some("its port is missing")),
        ];
        let info =
            NodeInfo { instance: "lab".into(), workers: 1, settled: true, ..NodeInfo::default() };
        let event = Event {
            sequence: 7,
            time: "12:00".into(),
            warning: true,
            kind: "switch".into(),
            name: String::new(),
            reason: "Ended".into(),
            message: "killed".into(),
            who: None,
            from: None,
        };
        let shown = text(&info, &NodeStats::default(), &objects, &[event], Colours::none());
        for wanted in [
            "node lab: ",
            "  switch not running, 1 worker, restarted 0 times\n",
            "  routers      3: 2 running, 1 waiting\n",
            "router red/r3 is waiting: its port is missing\n",
            "latest warnings:\n  12:00  switch  killed\n",
        ] {
            assert!(shown.contains(wanted), "{wanted:?} in {shown}");
        }
        assert!(!shown.contains("ports"), "{shown}");
    }
}
