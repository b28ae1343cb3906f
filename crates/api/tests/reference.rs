//! `docs/reference.md` is generated from the schema. `make docs` writes it; otherwise this
//! test says when it is old.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use europa_api::{Source, parse, schema};
use serde_json::{Map, Value};

const INTRODUCTION: &str = "# YAML reference\n\n\
    All fields of a configuration, generated from the schema (`make docs`). \
    [Concepts](concepts.md) explains how the objects fit together, [matches](matches.md) how \
    they share packets.\n\n\
    A configuration is a set of documents, separated by `---`, in one file or several. Each has \
    a `kind`. Europa reports all mistakes at once, each with file, line and the text underlined; \
    then nothing is changed.\n";

/// One configuration, a document of each kind that this page shows.
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

/// A field's or type's description, as one line of a table.
fn described(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The accepted values.
fn values(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or(name);
        return format!("[{name}](#{})", name.to_lowercase());
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
fn fields(schema: &Value, text: &mut String) {
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
        let value = values(field);
        writeln!(text, "| `{name}` | {} | {must}{value} |", described(field)).expect("a text");
    }
}

/// The whole page.
fn page() -> String {
    let schema = schema();
    let none = Map::new();
    let definitions = schema["$defs"].as_object().unwrap_or(&none);
    let mut text = INTRODUCTION.to_owned();
    for document in schema["oneOf"].as_array().expect("kinds") {
        let kind = document["properties"]["kind"]["const"].as_str().expect("a kind");
        write!(text, "\n## `kind: {kind}`\n\n{}\n\n", described(document)).expect("a text");
        if let Some((_, example)) = EXAMPLES.iter().find(|(of, _)| *of == kind) {
            write!(text, "```yaml\n{example}```\n\n").expect("a text");
        }
        fields(document, &mut text);
    }
    text.push_str("\n## Types\n");
    for (name, definition) in definitions {
        write!(text, "\n### {name}\n\n{}\n", described(definition)).expect("a text");
        let choices = definition["oneOf"].as_array();
        let named = choices.filter(|list| list.iter().all(|one| one.get("const").is_some()));
        if definition["properties"].is_object() {
            text.push('\n');
            fields(definition, &mut text);
        } else if let Some(choices) = named {
            text.push_str("\n| value | |\n|---|---|\n");
            for choice in choices {
                let value = values(choice);
                writeln!(text, "| {value} | {} |", described(choice)).expect("a text");
            }
        } else {
            let value = values(definition);
            let pattern =
                definition["pattern"].as_str().map(|pattern| format!(" like `{pattern}`"));
            write!(text, "\nValue: {value}{}.\n", pattern.unwrap_or_default()).expect("a text");
        }
    }
    text
}

#[test]
fn the_yaml_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let page = page();
    if std::env::var_os("EUROPA_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("docs/reference.md");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "run `make docs`: docs/reference.md is not current");
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
