//! `get`: prints documents and their state.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::{Object, Objects};
use europa_client::Client;
use europa_node::Instance;
use serde_json::Value;

use crate::complete;
use crate::exit::Failure;
use crate::kinds::{KINDS, Reference, plural};
use crate::table::{Colours, Table, line, out};
use crate::up::client;

/// Arguments of `get`.
#[derive(Args)]
pub(crate) struct GetArgs {
    /// ports, slices, links, hosts, routers, filters, users or all; or KIND/NAME.
    #[arg(add = ArgValueCompleter::new(complete::kinds))]
    kind: Option<String>,
    /// Name of one object: SLICE/NAME for a router.
    #[arg(add = ArgValueCompleter::new(complete::objects))]
    name: Option<String>,
    /// Form of the output.
    #[arg(short, long, value_enum, conflicts_with_all = ["json", "yaml"])]
    output: Option<Form>,
    /// Print JSON, with state.
    #[arg(long, conflicts_with = "yaml")]
    json: bool,
    /// Print the documents as YAML, in the form for `apply`.
    #[arg(long)]
    yaml: bool,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table.
    Table,
    /// A table with more columns.
    Wide,
    /// JSON, with state.
    Json,
    /// The documents as YAML.
    Yaml,
}

impl GetArgs {
    fn form(&self) -> Form {
        match (self.output, self.json, self.yaml) {
            (Some(form), ..) => form,
            (None, true, _) => Form::Json,
            (None, _, true) => Form::Yaml,
            _ => Form::Table,
        }
    }
}

/// The selection of a command line: all objects of some kinds, or one object.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    All(Vec<&'static str>),
    One(Reference),
}

impl Selection {
    pub(crate) fn of(kind: Option<&str>, name: Option<&str>) -> Result<Selection, Failure> {
        let all = || KINDS.iter().map(|(many, _, _)| *many).collect();
        match (kind.filter(|kind| *kind != "all"), name) {
            (None, None) => Ok(Selection::All(all())),
            (None, Some(name)) => {
                Err(Failure::usage(format!("of which kind is {name:?}? Write KIND/NAME")))
            }
            (Some(kind), None) if !kind.contains('/') => Ok(Selection::All(vec![plural(kind)?])),
            (Some(kind), name) => Ok(Selection::One(Reference::of(kind, name)?)),
        }
    }

    /// The present objects.
    pub(crate) fn read(&self, client: &Client) -> Result<Vec<Object>, Failure> {
        match self {
            Selection::One(reference) => Ok(vec![one(client, reference)?]),
            Selection::All(kinds) => {
                let mut objects = Vec::new();
                for kind in kinds {
                    objects.extend(client.get::<Objects>(&format!("/v1/{kind}"))?.items);
                }
                Ok(objects)
            }
        }
    }

    /// Whether the objects may be of several kinds.
    pub(crate) fn is_mixed(&self) -> bool {
        matches!(self, Selection::All(kinds) if kinds.len() > 1)
    }
}

pub(crate) fn get(instance: &Instance, args: &GetArgs) -> Result<ExitCode, Failure> {
    let selection = Selection::of(args.kind.as_deref(), args.name.as_deref())?;
    let objects = selection.read(&client(instance))?;
    match (args.form(), &selection) {
        (Form::Json, Selection::One(_)) => {
            line!("{}", serde_json::to_string_pretty(&objects.first())?);
        }
        (Form::Json, Selection::All(_)) => {
            line!("{}", serde_json::to_string_pretty(&Objects { items: objects })?);
        }
        (Form::Yaml, _) => out!("{}", yaml(&objects)?),
        (form, _) => {
            let wide = form == Form::Wide;
            out!("{}", tables(&objects, selection.is_mixed(), wide, Colours::stdout()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn one(client: &Client, reference: &Reference) -> Result<Object, Failure> {
    Ok(client.get(&reference.path())?)
}

/// Documents as YAML, in the form of a file.
pub(crate) fn yaml(objects: &[Object]) -> Result<String, Failure> {
    let document = |object: &Object| {
        serde_saphyr::to_string(&object.document).map_err(|error| Failure::from(error.to_string()))
    };
    let texts = objects.iter().map(document).collect::<Result<Vec<_>, _>>()?;
    Ok(texts.join("---\n"))
}

/// A table for each kind with objects.
pub(crate) fn tables(objects: &[Object], several: bool, wide: bool, colours: Colours) -> String {
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
        text += &table(kind, &of_kind, wide).text(colours);
    }
    if text.is_empty() { "no objects\n".to_owned() } else { text }
}

/// The function that makes a table's cell from an object.
type Cell = fn(&Object) -> String;

/// The columns of a kind: heading, whether only wide tables show it, and the cell.
fn columns(kind: &str) -> &'static [(&'static str, bool, Cell)] {
    match kind {
        "port" => &[
            ("NAME", false, name),
            ("STATE", false, state),
            ("DEVICE", false, |object| field(object, "device")),
            ("NAMESPACE", false, |object| field(object, "namespace")),
            ("KIND", false, |object| detail(object, "kind")),
            ("MAC", false, |object| detail(object, "mac")),
            ("MTU", false, |object| detail(object, "mtu")),
            ("RATE", true, |object| field(object, "rate")),
            ("CHANGED", true, |object| object.changed.clone()),
            ("MESSAGE", true, message),
        ],
        "router" => &[
            ("NAME", false, name),
            ("STATE", false, state),
            ("FAST PATH", false, fast_path),
            ("INTERFACES", false, interfaces),
            ("PROCESS", false, |object| detail(object, "pid")),
            ("RESTARTS", false, |object| detail(object, "restarts")),
            ("UP FOR", false, |object| {
                duration(object.status.details.get("seconds").and_then(Value::as_u64))
            }),
            ("RUN", true, |object| field(object, "run")),
            ("ADDRESSES", true, addresses),
            ("CHANGED", true, |object| object.changed.clone()),
            ("MESSAGE", true, message),
        ],
        "flow" => &[
            ("NAME", false, name),
            ("STATE", false, state),
            ("SLICE", false, |object| field(object, "slice")),
            ("FROM", false, |object| field(object, "from")),
            ("TO", false, |object| field(object, "to")),
            ("BANDWIDTH", false, |object| field(object, "bandwidth")),
            ("CHANGED", true, |object| object.changed.clone()),
            ("MESSAGE", true, message),
        ],
        "user" => &[
            ("NAME", false, name),
            ("ADMIN", false, |object| field(object, "admin")),
            ("ROLES", false, roles),
            ("DESCRIPTION", false, |object| field(object, "description")),
            ("GENERATION", true, |object| object.generation.to_string()),
            ("CHANGED", true, |object| object.changed.clone()),
        ],
        _ => &[
            ("NAME", false, name),
            ("STATE", false, state),
            ("DESCRIPTION", false, |object| field(object, "description")),
            ("GENERATION", true, |object| object.generation.to_string()),
            ("CHANGED", true, |object| object.changed.clone()),
            ("MESSAGE", true, message),
        ],
    }
}

/// Headings of columns of numbers.
const NUMBERS: [&str; 5] = ["MTU", "PROCESS", "RESTARTS", "UP FOR", "GENERATION"];

fn table(kind: &str, objects: &[&Object], wide: bool) -> Table {
    let shown: Vec<_> = columns(kind).iter().filter(|(_, extra, _)| wide || !extra).collect();
    let header: Vec<&'static str> = shown.iter().map(|(heading, ..)| *heading).collect();
    let right: Vec<usize> = (0..header.len()).filter(|at| NUMBERS.contains(&header[*at])).collect();
    let mut table = Table::new(&header).right(&right).state(1);
    for object in objects {
        table.row(shown.iter().map(|(_, _, cell)| cell(object)));
    }
    table
}

fn name(object: &Object) -> String {
    object.name.clone()
}

fn state(object: &Object) -> String {
    object.status.state.clone()
}

fn message(object: &Object) -> String {
    object.status.message.clone().unwrap_or_else(|| "-".to_owned())
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    }
}

fn detail(object: &Object, name: &str) -> String {
    text(object.status.details.get(name))
}

fn field(object: &Object, name: &str) -> String {
    text(object.document.get(name))
}

fn interfaces(object: &Object) -> String {
    let interfaces = object.document.get("interfaces").and_then(Value::as_object);
    let names: Vec<&str> =
        interfaces.iter().flat_map(|map| map.keys().map(String::as_str)).collect();
    names.join(",")
}

/// The addresses in a router's document.
fn addresses(object: &Object) -> String {
    let interfaces = object.document.get("interfaces").and_then(Value::as_object);
    let lists = interfaces.iter().flat_map(|map| map.values());
    let addresses = lists.filter_map(|fields| fields.get("addresses")?.as_array()).flatten();
    let all: Vec<&str> = addresses.filter_map(Value::as_str).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
}

/// The roles of a user's document.
fn roles(object: &Object) -> String {
    let roles = object.document.get("roles").and_then(Value::as_object);
    let all = roles.into_iter().flatten();
    let all: Vec<String> =
        all.map(|(slice, role)| format!("{slice}:{}", text(Some(role)))).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
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

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::rest::Status;
    use serde_json::json;

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

    #[test]
    fn selections() {
        let paths = |kind, name| match Selection::of(kind, name) {
            Ok(Selection::All(kinds)) => kinds.join(" "),
            Ok(Selection::One(reference)) => reference.path(),
            Err(_) => "wrong".to_owned(),
        };
        for (kind, name, wanted) in [
            (None, None, "ports slices links hosts routers filters flows users"),
            (Some("all"), None, "ports slices links hosts routers filters flows users"),
            (Some("r"), None, "routers"),
            (Some("router"), Some("red/r1"), "/v1/routers/red/r1"),
            (Some("router/red/r1"), None, "/v1/routers/red/r1"),
            (Some("all"), Some("red"), "wrong"),
            (Some("frob"), None, "wrong"),
            (Some("frob/red"), None, "wrong"),
        ] {
            assert_eq!(paths(kind, name), wanted, "{kind:?} {name:?}");
        }
    }

    #[test]
    fn wide_tables_have_more_columns() {
        let object = Object {
            kind: "router".into(),
            name: "red/r1".into(),
            generation: 1,
            changed: "2026-01-01T00:00:00Z".into(),
            document: json!({"run": "isolated", "fast_path": {"builtin": "ipv4"},
                "interfaces": {"in": {"addresses": ["10.0.0.1/24"]}, "out": {}}}),
            status: Status { state: "running".into(), ..Status::default() },
        };
        let narrow = tables(std::slice::from_ref(&object), false, false, Colours::none());
        let wide = tables(std::slice::from_ref(&object), true, true, Colours::none());
        assert!(!narrow.contains("ADDRESSES") && narrow.contains("in,out"), "{narrow}");
        assert!(wide.starts_with("routers\n") && wide.contains("10.0.0.1/24"), "{wide}");
    }
}
