//! The tables of requests in `docs/api.md`, and `docs/api-types.md`, are generated from the OpenAPI
//! description. `make docs` writes them; otherwise this test lists the outdated ones.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

const BEGIN: &str = "<!-- generated: requests -->\n";
const END: &str = "<!-- end of generated text -->\n";
const TYPES: &str = "# REST types\n\n\
    The JSON objects in requests and answers of the [REST interface](api.md), generated from its \
    OpenAPI description (`make docs`). Documents have the fields of the [YAML](reference.md).\n";
const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A text of the description as one line of a table.
fn line(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The name of the type that a schema refers to.
fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().map(|name| name.rsplit('/').next().unwrap_or(name))
}

/// A link to the type of a body, or its media type; empty without a body.
fn body(content: &Value) -> String {
    let Some((media, content)) = content.as_object().and_then(|content| content.iter().next())
    else {
        return String::new();
    };
    match referred(&content["schema"]) {
        Some("Document") => "a document".to_owned(),
        Some(name) => format!("[{name}](api-types.md#{})", name.to_lowercase()),
        None => format!("`{media}`"),
    }
}

/// The options in the query of a request, each with its meaning.
fn options(operation: &Value) -> String {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let query = all.filter(|parameter| parameter["in"] == "query");
    let text = |parameter: &Value| {
        format!("`{}`: {}", line(&parameter["name"]), line(&parameter["description"]))
    };
    query.map(text).collect::<Vec<_>>().join("; ")
}

/// All operations: path, method and description.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, operations) in paths {
        for method in METHODS {
            all.extend(operations.get(method).map(|operation| (path.as_str(), method, operation)));
        }
    }
    all
}

/// The tables of requests, one for each tag.
fn requests(document: &Value) -> String {
    let operations = operations(document);
    let tag_of = |operation: &Value| line(&operation["tags"][0]);
    let tags: BTreeSet<String> =
        operations.iter().map(|(_, _, operation)| tag_of(operation)).collect();
    let mut text = String::new();
    for tag in tags {
        let _ = writeln!(text, "\n### Requests: {tag}\n");
        text += "| request | description | query | body | answer |\n|---|---|---|---|---|\n";
        for (path, method, operation) in &operations {
            if tag_of(operation) != tag {
                continue;
            }
            let _ = writeln!(
                text,
                "| `{} {path}` | {} | {} | {} | {} |",
                method.to_uppercase(),
                line(&operation["summary"]),
                options(operation),
                body(&operation["requestBody"]["content"]),
                body(&operation["responses"]["200"]["content"]),
            );
        }
    }
    text + "\n"
}

/// The accepted values of a field. Types in `here` have a heading on the page.
fn values(schema: &Value, here: &BTreeSet<&str>) -> String {
    let values = |schema: &Value| values(schema, here);
    if let Some(name) = referred(schema) {
        return match (name, here.contains(name)) {
            ("Document", _) => "a document".to_owned(),
            (_, true) => format!("[{name}](#{})", name.to_lowercase()),
            (_, false) => format!("`{name}`"),
        };
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(choices) = schema[key].as_array() {
            let texts = choices.iter().filter(|choice| choice["type"] != "null").map(values);
            return texts.collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(list) = schema["enum"].as_array() {
        return list.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(only) = schema.get("const") {
        return format!("`{only}`");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| **kind != "null"),
        kind => Some(kind),
    };
    match kind.and_then(Value::as_str) {
        Some("array") if schema["prefixItems"].is_array() => "list".to_owned(),
        Some("array") => format!("list of {}", values(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("names, each with its {}", values(&schema["additionalProperties"]))
        }
        Some("integer" | "number") => "number".to_owned(),
        Some("string") => "text".to_owned(),
        Some(other) => other.to_owned(),
        None => "anything".to_owned(),
    }
}

/// The page of types that are no parts of documents.
fn types(document: &Value) -> String {
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let schema = europa_api::schema();
    let empty = Map::new();
    let of_documents = schema["$defs"].as_object().unwrap_or(&empty);
    let own = |name: &&str| *name != "Document" && !of_documents.contains_key(*name);
    let here: BTreeSet<&str> = schemas.keys().map(String::as_str).filter(own).collect();
    let mut text = TYPES.to_owned();
    for name in &here {
        let definition = &schemas[*name];
        let _ = writeln!(text, "\n## {name}\n\n{}", line(&definition["description"]));
        let Some(fields) = definition["properties"].as_object() else {
            let _ = writeln!(text, "\nValues: {}", values(definition, &here));
            continue;
        };
        text += "\n| field | description | value |\n|---|---|---|\n";
        for (field, schema) in fields {
            let described = line(&schema["description"]);
            let _ = writeln!(text, "| `{field}` | {described} | {} |", values(schema, &here));
        }
    }
    text
}

/// A page with its generated part replaced; `None` if a mark is missing.
fn replaced(page: &str, part: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, part, END, after].concat())
}

#[test]
fn the_reference_of_requests_is_current() {
    let document = europa_rest::openapi();
    let page = docs().join("api.md");
    let written = fs::read_to_string(&page).expect("docs/api.md");
    let text = replaced(&written, &requests(&document))
        .unwrap_or_else(|| panic!("docs/api.md lacks the marks {BEGIN:?} and {END:?}"));
    let files = [(page, text), (docs().join("api-types.md"), types(&document))];
    if std::env::var_os("EUROPA_WRITE_DOCS").is_some() {
        files.iter().for_each(|(path, text)| fs::write(path, text).expect("a page"));
    }
    for (path, text) in &files {
        let written = fs::read_to_string(path).unwrap_or_default();
        assert!(written == *text, "run `make docs`: {} is not current", path.display());
    }
}

#[test]
fn every_request_and_option_is_described() {
    let document = europa_rest::openapi();
    let operations = operations(&document);
    let mut silent = Vec::new();
    for (path, method, operation) in &operations {
        if line(&operation["summary"]).is_empty() {
            silent.push(format!("{method} {path}"));
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if line(&parameter["description"]).is_empty() {
                silent.push(format!("{method} {path} {}", parameter["name"]));
            }
        }
    }
    assert!(operations.len() > 20, "{} requests", operations.len());
    assert!(silent.is_empty(), "no sentence about {silent:?}");
}
