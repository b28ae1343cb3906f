//! `cluster status`, `cluster get`: the cluster as etcd stores it.

use std::collections::BTreeSet;
use std::process::ExitCode;

use europa_cluster::{Access, Etcd, State, Whole, leader, members, wait};
use serde_json::{Value, json};

use super::key;
use crate::exit::Failure;
use crate::kinds::{plural, singular};
use crate::table::{Colours, Table, line, out, scaled};

pub(super) fn status(access: &Access, json: bool) -> Result<ExitCode, Failure> {
    let (state, members, leader, service) = wait(async {
        let etcd = Etcd::connect(access).await?;
        let state = State::read(&etcd, &State::default()).await?;
        Ok((state, members(&etcd).await?, leader(&etcd).await?, etcd.service().await?))
    })?;
    let whole = Whole::of(&state)?;
    let sequence = state.head.sequence;
    let named: BTreeSet<&str> = whole.nodes().chain(members.keys().map(String::as_str)).collect();
    let mut rows = Vec::new();
    for name in named {
        let member = members.get(name);
        let address = whole.address(name).map(|address| address.to_string());
        let why = match member {
            None => Some("no lease: its agent does not run, or does not reach etcd".to_owned()),
            Some(member) => member
                .error
                .clone()
                .or_else(|| address.is_none().then(|| "no document `kind: node`".to_owned())),
        };
        let cordon = whole.cordons.get(name);
        let word = match (member, &why) {
            (None, _) => "absent",
            (Some(_), Some(_)) => "failed",
            (Some(member), None) if member.passed < sequence => "waiting",
            _ => "running",
        };
        rows.push(json!({
            "name": name,
            "state": word,
            "address": address,
            "change": member.map(|member| member.passed),
            "version": member.map(|member| &member.version),
            "leader": leader.as_deref() == Some(name),
            "cordon": cordon.map(|cordon| &cordon.why),
            "message": why,
        }));
    }
    if json {
        let all = json!({
            "cluster": access.cluster,
            "change": sequence,
            "documents": whole.kept.len(),
            "recent": state.head.recent,
            "etcd": {"version": service.version, "bytes": service.bytes, "alarms": service.errors},
            "nodes": rows,
        });
        line!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut table = Table::new(&["NODE", "STATE", "ADDRESS", "CHANGE", "LEADER", ""]).state(1);
    for row in &rows {
        let leads = if row["leader"] == true { "leader" } else { "" };
        let shown = ["name", "state", "address", "change"].map(|field| text(&row[field]));
        let cordon = row["cordon"].as_str().map(|why| format!("cordon: {why}"));
        let message = row["message"].as_str().map(str::to_owned);
        let message = cordon.into_iter().chain(message).collect::<Vec<_>>().join("; ");
        table.row(shown.into_iter().chain([leads.to_owned(), message]));
    }
    out!("{}", table.text(Colours::stdout()));
    line!(
        "cluster {}: change {sequence}, {} documents; etcd {} with {}",
        access.cluster,
        whole.kept.len(),
        service.version,
        scaled(service.bytes as f64, "B")
    );
    for error in &service.errors {
        line!("etcd: {error}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn get(access: &Access, what: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let wanted = match what {
        None => None,
        Some("node" | "nodes") => Some(("node", None)),
        Some(text) if text.contains('/') => Some(("", Some(key(text)?))),
        Some(kind) => Some((singular(plural(kind)?), None)),
    };
    let state = wait(async {
        let etcd = Etcd::connect(access).await?;
        State::read(&etcd, &State::default()).await
    })?;
    let whole = Whole::of(&state)?;
    let is_wanted = |one: &europa_api::Key| match &wanted {
        None => true,
        Some((_, Some(key))) => one == key,
        Some((kind, None)) => one.kind == *kind,
    };
    let shown: Vec<_> = whole.kept.iter().filter(|kept| is_wanted(&kept.key)).collect();
    if let (Some((_, Some(key))), true) = (&wanted, shown.is_empty()) {
        return Err(Failure::missing(format!("there is no {key} in the cluster")));
    }
    if json {
        let parsed: Vec<Value> = shown
            .iter()
            .map(|kept| serde_json::from_str(&kept.document))
            .collect::<Result<_, _>>()?;
        line!("{}", serde_json::to_string_pretty(&parsed)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["KIND", "NAME", "NODE", "WHY"]);
    for kept in shown {
        let (node, why) = match (kept.key.kind.as_str(), whole.places.get(&kept.key)) {
            (_, Some(place)) => (place.node.clone(), place.why.clone()),
            ("link", None) => match whole.tunnels.get(&kept.key.name) {
                Some(tunnel) => (tunnel.nodes.join(" — "), format!("tunnel {}", tunnel.id)),
                None => (String::new(), String::new()),
            },
            _ => (String::new(), String::new()),
        };
        table.row([kept.key.kind.clone(), kept.key.name.clone(), node, why]);
    }
    // Links that only interfaces name.
    for (link, tunnel) in &whole.tunnels {
        let key = europa_api::Key::new("link", link.as_str());
        if is_wanted(&key) && !whole.kept.iter().any(|kept| kept.key == key) {
            let node = tunnel.nodes.join(" — ");
            table.row(["link".to_owned(), link.clone(), node, format!("tunnel {}", tunnel.id)]);
        }
    }
    out!("{}", table.text(Colours::stdout()));
    Ok(ExitCode::SUCCESS)
}
