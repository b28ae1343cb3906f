//! `docs/reference.md`, and the marked parts of the pages in `docs/reference`, are generated from
//! the schema. `make docs` writes them; otherwise this test lists the outdated ones.
//!
//! A page of `docs/reference` describes one kind of document. Text outside the marked parts is
//! written by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use europa_api::{Source, parse, schema};
use serde_json::{Map, Value};

const INTRODUCTION: &str = "# YAML reference\n\n\
    All documents of a configuration, generated from the schema (`make docs`). Each kind has a page \
    with its fields. `europa explain KIND.FIELD` prints the same on the command line. \
    [Concepts](concepts.md) explains how the objects fit together, [matches](matches.md) how \
    they share packets.\n\n\
    A configuration is a set of documents, separated by `---`, in one file or several. Each has \
    a `kind` and a `name` (`a-z`, `0-9`, `-`; at most 32 characters). Europa reports all mistakes \
    at once, each with file, line and the text underlined; then nothing is changed.\n";

/// Marks of the generated parts of a page: fields, then types.
const BEGIN: [&str; 2] = ["<!-- generated: fields -->\n", "<!-- generated: types -->\n"];
const END: &str = "<!-- end of generated text -->\n";
/// The page of types that occur in documents of several kinds.
const SHARED: &str = "types";

/// One configuration with a document of each kind on this page.
const EXAMPLES: [(&str, &str); 9] = [
    ("port", "kind: port\nname: left\ndevice: eth1\n"),
    ("slice", "kind: slice\nname: red\ndescription: a tenant\n"),
    ("link", "kind: link\nname: core\nrate: 100Mb/s\ndelay: 10ms\nloss: 0.1%\n"),
    (
        "host",
        "kind: host\nname: alice\ninterfaces:\n  eth0: {link: access, addresses: [10.0.1.2/24]}\n\
         gateway: [10.0.1.1]\n",
    ),
    (
        "router",
        "kind: router\nname: r1\nslice: red\ninterfaces:\n  \
         in: {link: access, addresses: [10.0.1.1/24]}\n  \
         out: {port: left, match: {vlan: 10}, addresses: [10.0.2.1/24]}\n  \
         up: {link: core, addresses: [10.0.0.1/30], signalling: {rsvp_te: {}}}\n\
         fast_path:\n  builtin: ipv4\n  routes:\n    - {to: 0.0.0.0/0, via: 10.0.2.2}\n",
    ),
    (
        "filters",
        "kind: filters\nname: office\nslice: red\nrules:\n  \
         - {priority: 9, protocol: tcp, tcp_flags: +syn-ack, interface: r1.in, action: drop}\n  \
         - {protocol: udp, destination_port: 16384-32767, action: {dscp: ef}}\n",
    ),
    (
        "flow",
        "kind: flow\nname: voice\nslice: red\nfrom: r1\nto: r2\nbandwidth: 20Mb/s\nsetup: 4\n\
         prefixes: [10.0.3.0/24]\n",
    ),
    ("user", "kind: user\nname: carol\nroles: {red: owner}\n"),
    ("node", "kind: node\nname: n1\naddress: 192.0.2.1\nlabels: {rack: a}\n"),
];

/// The other end of the link.
const REST: &str = "kind: router\nname: r2\nslice: red\ninterfaces:\n  \
    down: {link: core, addresses: [10.0.0.2/30], signalling: {rsvp_te: {}}}\n\
    fast_path: {builtin: ipv4}\n";

/// The description of a field or type, as one line of a table.
fn described(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The name of the type that a schema refers to.
fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().map(|name| name.rsplit('/').next().unwrap_or(name))
}

/// The accepted values. The types among them are on the same page, or on the page of shared types.
fn values(schema: &Value, shared: &BTreeSet<String>) -> String {
    let values = |schema: &Value| values(schema, shared);
    if let Some(name) = referred(schema) {
        let page = if shared.contains(name) { "types.md" } else { "" };
        return format!("[{name}]({page}#{})", name.to_lowercase());
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(choices) = schema[key].as_array() {
            let texts: Vec<String> =
                choices.iter().filter(|choice| choice["type"] != "null").map(values).collect();
            return texts.join(" or ");
        }
    }
    let literal = |value: &Value| match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    if let Some(list) = schema["enum"].as_array() {
        let texts: Vec<String> = list.iter().filter(|v| !v.is_null()).map(literal).collect();
        return texts.join(", ");
    }
    if let Some(only) = schema.get("const") {
        return literal(only);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| **kind != "null"),
        kind => Some(kind),
    };
    match kind.and_then(Value::as_str) {
        Some("array") => format!("list of {}", values(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            let value = values(&schema["additionalProperties"]);
            format!("names, each with its {value}")
        }
        Some("integer") => match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
            (Some(least), Some(most)) => format!("number, {least} to {most}"),
            _ => "number".to_owned(),
        },
        Some("string") => "text".to_owned(),
        Some(other) => other.to_owned(),
        None => "anything".to_owned(),
    }
}

/// The fields of an object.
fn fields(schema: &Value, shared: &BTreeSet<String>, text: &mut String) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    text.push_str("| field | | value |\n|---|---|---|\n");
    // Required fields come first.
    let (mut names, rest): (Vec<&String>, Vec<&String>) =
        properties.keys().partition(|name| required.contains(&name.as_str()));
    names.extend(rest);
    for name in names.into_iter().filter(|name| *name != "kind") {
        let Some(field) = properties.get(name) else { continue };
        let must = if required.contains(&name.as_str()) { "**required**, " } else { "" };
        let value = values(field, shared);
        writeln!(text, "| `{name}` | {} | {must}{value} |", described(field)).expect("a text");
    }
}

/// Adds the names of all types to which a schema refers, directly or through other types.
fn reach(schema: &Value, definitions: &Map<String, Value>, found: &mut BTreeSet<String>) {
    if let Some(name) = referred(schema)
        && found.insert(name.to_owned())
        && let Some(definition) = definitions.get(name)
    {
        reach(definition, definitions, found);
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|v| reach(v, definitions, found)),
        Value::Array(items) => items.iter().for_each(|v| reach(v, definitions, found)),
        _ => {}
    }
}

/// A type: its description, then its fields or values.
fn definition(name: &str, definition: &Value, shared: &BTreeSet<String>, text: &mut String) {
    write!(text, "\n### {name}\n\n{}\n", described(definition)).expect("a text");
    let choices = definition["oneOf"].as_array();
    let named = choices.filter(|list| list.iter().all(|one| one.get("const").is_some()));
    if definition["properties"].is_object() {
        text.push('\n');
        fields(definition, shared, text);
    } else if let Some(choices) = named {
        text.push_str("\n| value | |\n|---|---|\n");
        for choice in choices {
            let value = values(choice, shared);
            writeln!(text, "| {value} | {} |", described(choice)).expect("a text");
        }
    } else {
        let value = values(definition, shared);
        let pattern = definition["pattern"].as_str().map(|pattern| format!(" like `{pattern}`"));
        write!(text, "\nValue: {value}{}.\n", pattern.unwrap_or_default()).expect("a text");
    }
}

/// The generated parts of each page of `docs/reference`, by name, and the page of all kinds.
fn parts() -> (BTreeMap<String, [String; 2]>, String) {
    let schema = schema();
    let none = Map::new();
    let definitions = schema["$defs"].as_object().unwrap_or(&none);
    let kinds: Vec<(&str, &Value, BTreeSet<String>)> = schema["oneOf"]
        .as_array()
        .expect("kinds")
        .iter()
        .map(|document| {
            let mut types = BTreeSet::new();
            reach(document, definitions, &mut types);
            (document["properties"]["kind"]["const"].as_str().expect("a kind"), document, types)
        })
        .collect();
    let used = |name: &String| kinds.iter().filter(|(_, _, types)| types.contains(name)).count();
    let shared: BTreeSet<String> = definitions.keys().filter(|n| used(n) > 1).cloned().collect();
    let typed = |names: &mut dyn Iterator<Item = &String>| {
        let mut text = "\n## Types\n".to_owned();
        for name in names {
            definition(name, &definitions[name], &shared, &mut text);
        }
        text
    };
    let mut index = INTRODUCTION.to_owned();
    let mut pages = BTreeMap::new();
    for (kind, document, types) in &kinds {
        let what = described(document);
        let example = EXAMPLES.iter().find(|(of, _)| of == kind).expect("an example").1;
        let example = format!("```yaml\n{example}```\n");
        write!(
            index,
            "\n## `kind: {kind}`\n\n{what} [All fields](reference/{kind}.md).\n\n{example}"
        )
        .expect("a text");
        let mut top = format!("\n{what}\n\n{example}\n");
        fields(document, &shared, &mut top);
        let own: Vec<&String> = types.difference(&shared).collect();
        let bottom = if own.is_empty() { String::new() } else { typed(&mut own.into_iter()) };
        pages.insert((*kind).to_owned(), [top + "\n", bottom + "\n"]);
    }
    let intro = "\nTypes of fields that documents of several kinds have.\n";
    pages.insert(SHARED.to_owned(), [intro.to_owned() + "\n", typed(&mut shared.iter()) + "\n"]);
    (pages, index)
}

/// A page with its generated parts replaced; `None` if a mark is missing.
fn replaced(page: &str, parts: &[String; 2]) -> Option<String> {
    let mut rest = page;
    let mut text = String::new();
    for (begin, part) in BEGIN.iter().zip(parts) {
        let (before, after) = rest.split_once(begin)?;
        let (_, after) = after.split_once(END)?;
        text += &[before, begin, part, END].concat();
        rest = after;
    }
    Some(text + rest)
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn the_yaml_reference_is_current() {
    let (pages, index) = parts();
    let mut files = vec![(docs().join("reference.md"), index)];
    for (name, parts) in &pages {
        let path = docs().join("reference").join(format!("{name}.md"));
        let written = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("docs/reference/{name}.md: {error}"));
        let text = replaced(&written, parts);
        files.push((
            path,
            text.unwrap_or_else(|| panic!("{name}.md has not all of {BEGIN:?}, {END}")),
        ));
    }
    if std::env::var_os("EUROPA_WRITE_DOCS").is_some() {
        files.iter().for_each(|(path, text)| fs::write(path, text).expect("a page"));
    }
    for (path, text) in &files {
        let written = fs::read_to_string(path).unwrap_or_default();
        assert!(written == *text, "run `make docs`: {} is not current", path.display());
    }
    let there = fs::read_dir(docs().join("reference")).expect("pages").flatten().count();
    assert_eq!(there, pages.len(), "docs/reference has a page that is about no kind");
}

#[test]
fn every_field_is_described() {
    let mut silent = Vec::new();
    let mut look = |of: &str, schema: &Value| {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if name != "kind" && described(field).is_empty() {
                silent.push(format!("{of}.{name}"));
            }
        }
    };
    let schema = schema();
    for document in schema["oneOf"].as_array().expect("kinds") {
        look(&document["properties"]["kind"]["const"].to_string(), document);
    }
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        look(name, definition);
    }
    assert!(silent.is_empty(), "no sentence about {silent:?}");
}

#[test]
fn the_examples_of_the_reference_are_right() {
    let kinds = schema()["oneOf"].as_array().expect("kinds").len();
    assert_eq!(EXAMPLES.len(), kinds, "one example a kind");
    let texts: Vec<&str> = EXAMPLES.iter().map(|(_, text)| *text).chain([REST]).collect();
    let source = Source { path: "reference.yaml".into(), text: texts.join("---\n") };
    if let Err(problems) = parse(&[source]) {
        panic!("{}", problems.render(false));
    }
}
