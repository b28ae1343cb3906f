//! `get` and `describe`: documents and what became of them.

use std::process::ExitCode;

use europa_api::rest::{Event, Object, Objects};
use europa_api::stats::NodeStats;
use europa_client::{Client, escape};
use europa_node::Instance;
use serde_json::Value;

use crate::exit::Failure;
use crate::table::{Colours, Table, line, out, plain, plain_lines};
use crate::up::client;

/// Kinds of objects: plural, singular, and a short word.
pub(crate) const KINDS: [(&str, &str, &str); 6] = [
    ("ports", "port", "p"),
    ("slices", "slice", "s"),
    ("links", "link", "l"),
    ("hosts", "host", "h"),
    ("routers", "router", "r"),
    ("filters", "filters", "f"),
];

/// The plural of a kind, which stands in paths.
pub(crate) fn plural(kind: &str) -> Result<&'static str, Failure> {
    let found = KINDS.iter().find(|(many, one, short)| [*many, *one, *short].contains(&kind));
    found.map(|(many, _, _)| *many).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|(many, _, _)| *many).collect();
        Failure::usage(format!("{kind:?} is no kind of object: {}", known.join(", ")))
    })
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
    Yaml,
}

pub(crate) fn get(
    instance: &Instance,
    kind: Option<&str>,
    name: Option<&str>,
    form: Form,
) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let kinds: Vec<&str> = match kind.filter(|kind| *kind != "all") {
        Some(kind) => vec![plural(kind)?],
        None => KINDS.iter().map(|(many, _, _)| *many).collect(),
    };
    let mut objects = Vec::new();
    for kind in &kinds {
        match name {
            Some(name) => objects.push(one(&client, kind, name)?),
            None => objects.extend(client.get::<Objects>(&format!("/v1/{kind}"))?.items),
        }
    }
    match (form, name) {
        (Form::Json, Some(_)) => {
            line!("{}", serde_json::to_string_pretty(&objects.first())?);
        }
        (Form::Json, None) => {
            line!("{}", serde_json::to_string_pretty(&Objects { items: objects })?);
        }
        (Form::Yaml, _) => out!("{}", yaml(&objects)?),
        (Form::Table, _) => out!("{}", tables(&objects, kinds.len() > 1, Colours::stdout())),
    }
    Ok(ExitCode::SUCCESS)
}

fn one(client: &Client, kind: &str, name: &str) -> Result<Object, Failure> {
    let path: Vec<String> = name.split('/').map(escape).collect();
    Ok(client.get(&format!("/v1/{kind}/{}", path.join("/")))?)
}

/// Documents as they could stand in a file.
fn yaml(objects: &[Object]) -> Result<String, Failure> {
    let document = |object: &Object| {
        serde_saphyr::to_string(&object.document).map_err(|error| Failure::from(error.to_string()))
    };
    let texts = objects.iter().map(document).collect::<Result<Vec<_>, _>>()?;
    Ok(texts.join("---\n"))
}

fn tables(objects: &[Object], several: bool, colours: Colours) -> String {
    let mut text = String::new();
    for (many, kind, _) in KINDS {
        let of_kind: Vec<&Object> = objects.iter().filter(|object| object.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        if several {
            text += if text.is_empty() { "" } else { "\n" };
            text += &format!("{}\n", colours.bold(many));
        }
        text += &table(kind, &of_kind).text(colours);
    }
    if text.is_empty() { "there is nothing\n".to_owned() } else { text }
}

fn table(kind: &str, objects: &[&Object]) -> Table {
    let detail = |object: &Object, name: &str| match object.status.details.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    };
    let field = |object: &Object, name: &str| match object.document.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    };
    match kind {
        "port" => {
            let mut table =
                Table::new(&["NAME", "STATE", "DEVICE", "NAMESPACE", "KIND", "MAC", "MTU"])
                    .right(&[6])
                    .state(1);
            for object in objects {
                table.row([
                    object.name.clone(),
                    object.status.state.clone(),
                    field(object, "device"),
                    field(object, "namespace"),
                    detail(object, "kind"),
                    detail(object, "mac"),
                    detail(object, "mtu"),
                ]);
            }
            table
        }
        "router" => {
            let mut table = Table::new(&[
                "NAME",
                "STATE",
                "FAST PATH",
                "INTERFACES",
                "PROCESS",
                "RESTARTS",
                "UP FOR",
            ])
            .right(&[4, 5, 6])
            .state(1);
            for object in objects {
                let interfaces = object.document.get("interfaces").and_then(Value::as_object);
                let names: Vec<&str> =
                    interfaces.iter().flat_map(|map| map.keys().map(String::as_str)).collect();
                table.row([
                    object.name.clone(),
                    object.status.state.clone(),
                    fast_path(object),
                    names.join(","),
                    detail(object, "pid"),
                    detail(object, "restarts"),
                    duration(object.status.details.get("seconds").and_then(Value::as_u64)),
                ]);
            }
            table
        }
        _ => {
            let mut table = Table::new(&["NAME", "STATE", "DESCRIPTION"]).state(1);
            for object in objects {
                table.row([
                    object.name.clone(),
                    object.status.state.clone(),
                    field(object, "description"),
                ]);
            }
            table
        }
    }
}

fn fast_path(object: &Object) -> String {
    let Some(fast_path) = object.document.get("fast_path") else { return "-".to_owned() };
    let text = |name: &str| fast_path.get(name).and_then(Value::as_str);
    match (text("builtin"), text("click_file")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(file)) => file.to_owned(),
        _ if fast_path.get("click").is_some() => "click".to_owned(),
        _ => "program".to_owned(),
    }
}

fn duration(seconds: Option<u64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(s @ 0..120) => format!("{s}s"),
        Some(s @ 120..7200) => format!("{}m", s / 60),
        Some(s @ 7200..172_800) => format!("{}h", s / 3600),
        Some(s) => format!("{}d", s / 86_400),
    }
}

pub(crate) fn describe(
    instance: &Instance,
    kind: &str,
    name: &str,
    json: bool,
) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let object = one(&client, plural(kind)?, name)?;
    if json {
        line!("{}", serde_json::to_string_pretty(&object)?);
        return Ok(ExitCode::SUCCESS);
    }
    let colours = Colours::stdout();
    line!("{} {}", object.kind, colours.bold(&object.name));
    line!("  state:      {}", colours.state(&object.status.state));
    if let Some(message) = &object.status.message {
        line!("  message:    {}", plain_lines(message));
    }
    line!("  generation: {}, changed {}", object.generation, object.changed);
    for (name, value) in &object.status.details {
        match value {
            Value::Object(map) => {
                line!("  {name}:");
                for (name, value) in map {
                    line!("    {name}: {}", flat(value));
                }
            }
            value => line!("  {name}: {}", flat(value)),
        }
    }
    counters(&client, &object)?;
    line!("\ndocument:");
    for text in yaml(std::slice::from_ref(&object))?.lines() {
        line!("  {text}");
    }
    events(&client, &object)?;
    Ok(ExitCode::SUCCESS)
}

/// A value in one line, without braces.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(name, value)| format!("{name} {}", flat(value))).collect();
            pairs.join(", ")
        }
        other => other.to_string(),
    }
}

fn counters(client: &Client, object: &Object) -> Result<(), Failure> {
    if object.kind != "router" {
        return Ok(());
    }
    let stats: NodeStats = client.get("/v1/stats")?;
    let Some(router) = stats.routers.iter().find(|router| router.name == object.name) else {
        return Ok(());
    };
    line!("\ncounters:");
    let mut table = Table::new(&["INTERFACE", "RX PACKETS", "RX BYTES", "TX PACKETS", "TX BYTES"])
        .right(&[1, 2, 3, 4]);
    for i in &router.interfaces {
        let numbers = [i.rx_packets, i.rx_bytes, i.tx_packets, i.tx_bytes];
        table.row(std::iter::once(i.name.clone()).chain(numbers.map(|n| n.to_string())));
    }
    for line in table.text(Colours::stdout()).lines() {
        line!("  {line}");
    }
    for interface in &router.interfaces {
        for (cause, count) in &interface.drops {
            line!("  {}: {count} dropped: {cause}", interface.name);
        }
    }
    Ok(())
}

fn events(client: &Client, object: &Object) -> Result<(), Failure> {
    let text = client.get_bytes("/v1/events")?;
    let all = text.split(|byte| *byte == b'\n');
    let all: Vec<Event> = all.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let own: Vec<&Event> =
        all.iter().filter(|e| e.kind == object.kind && e.name == object.name).collect();
    if !own.is_empty() {
        line!("\nevents:");
    }
    for event in own.iter().rev().take(10).rev() {
        line!("  {}  {:<10} {}", event.time, event.reason, plain_lines(&event.message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (word, wanted) in [
            ("routers", Some("routers")),
            ("router", Some("routers")),
            ("p", Some("ports")),
            ("x", None),
        ] {
            assert_eq!(plural(word).ok(), wanted, "{word}");
        }
    }

    #[test]
    fn durations() {
        for (seconds, wanted) in [
            (None, "-"),
            (Some(5), "5s"),
            (Some(600), "10m"),
            (Some(7200), "2h"),
            (Some(200_000), "2d"),
        ] {
            assert_eq!(duration(seconds), wanted);
        }
    }
}
