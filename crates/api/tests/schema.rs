//! Compares the fields of the schema with those of the reader.

use std::collections::BTreeSet;

use europa_api::{Source, parse, schema};
use serde_json::Value;

const UNKNOWN: &str = "qqqqqqqqqq";

/// The fields that the reader lists when a document has an unknown one.
fn read_fields(text: &str) -> BTreeSet<String> {
    let text = text.to_owned();
    let problems = parse(&[Source { path: "t.yaml".into(), text }]).expect_err("an unknown field");
    let problem = problems.iter().find(|problem| problem.message.contains(UNKNOWN)).expect("it");
    let help = problem.help.as_deref().expect("its fields");
    let list = help.strip_prefix("its fields are ").expect("its fields");
    list.split(", ").map(str::to_owned).collect()
}

fn properties(schema: &Value) -> BTreeSet<String> {
    let properties = schema["properties"].as_object().expect("properties");
    assert_eq!(schema["additionalProperties"], false);
    properties.keys().cloned().collect()
}

#[test]
fn fields_are_those_of_the_schema() {
    let schema = schema();
    let documents = schema["oneOf"].as_array().expect("kinds");
    for (document, kind) in documents.iter().zip(["port", "slice", "link", "host", "router"]) {
        assert_eq!(document["properties"]["kind"]["const"], kind);
        let read = read_fields(&format!("kind: {kind}\n{UNKNOWN}: 1\n"));
        assert_eq!(properties(document), read, "{kind}");
    }
    for (definition, text) in [
        ("Interface", format!("kind: router\ninterfaces: {{a: {{{UNKNOWN}: 1}}}}")),
        ("Match", format!("kind: router\ninterfaces: {{a: {{match: {{{UNKNOWN}: 1}}}}}}")),
        (
            "Vxlan",
            format!("kind: router\ninterfaces: {{a: {{match: {{vxlan: {{{UNKNOWN}: 1}}}}}}}}"),
        ),
        ("FastPath", format!("kind: router\nfast_path: {{{UNKNOWN}: 1}}")),
        ("Route", format!("kind: router\nfast_path: {{routes: [{{{UNKNOWN}: 1}}]}}")),
        ("Neighbour", format!("kind: router\nfast_path: {{neighbours: [{{{UNKNOWN}: 1}}]}}")),
        ("Line", format!("kind: link\na_to_b: {{{UNKNOWN}: 1}}")),
        ("Bursts", format!("kind: link\nloss: {{{UNKNOWN}: 1}}")),
        ("LinkAddresses", format!("kind: slice\nlinks: {{{UNKNOWN}: 1}}")),
        ("HostInterface", format!("kind: host\ninterfaces: {{a: {{{UNKNOWN}: 1}}}}")),
        ("HostRoute", format!("kind: host\nroutes: [{{{UNKNOWN}: 1}}]")),
        ("Pool", format!("kind: router\npool: {{{UNKNOWN}: 1}}")),
    ] {
        assert_eq!(properties(&schema["$defs"][definition]), read_fields(&text), "{definition}");
    }
}

#[test]
fn required_fields_are_those_that_the_reader_misses() {
    let schema = schema();
    let documents = schema["oneOf"].as_array().expect("kinds");
    for (document, kind) in documents.iter().zip(["port", "slice", "link", "host", "router"]) {
        let source = Source { path: "t.yaml".into(), text: format!("kind: {kind}\n") };
        let missed: BTreeSet<String> = parse(&[source])
            .expect_err("missing fields")
            .iter()
            .filter_map(|problem| problem.message.split(" needs `").nth(1))
            .map(|field| field.trim_end_matches('`').to_owned())
            .chain(["kind".to_owned()])
            .collect();
        let required: BTreeSet<String> = document["required"]
            .as_array()
            .expect("required")
            .iter()
            .map(|field| field.as_str().expect("a name").to_owned())
            .collect();
        assert_eq!(required, missed, "{kind}");
    }
}
