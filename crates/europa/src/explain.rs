//! `explain`: the fields of documents, from the JSON Schema.

use std::process::ExitCode;

use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::kinds::{KINDS, plural};
use crate::table::{Colours, out};

pub(crate) fn explain(path: Option<&str>) -> Result<ExitCode, Failure> {
    let schema = europa_api::schema();
    let colours = Colours::stdout();
    match path {
        None => out!("{}", overview(&schema, colours)),
        Some(path) => out!("{}", page(&schema, path, colours)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// All kinds, a line each.
fn overview(schema: &Value, colours: Colours) -> String {
    let mut text = String::new();
    for (_, kind, _) in KINDS {
        let about = document(schema, kind).map(description).unwrap_or_default().replace('\n', " ");
        let summary = about.split_inclusive(". ").next().unwrap_or_default().trim_end();
        text += &format!("{}  {summary}\n", colours.bold(&format!("{kind:<8}")));
    }
    text + "\nOne kind: `europa explain router`; a field: `europa explain router.interfaces`\n"
}

/// The page of a kind or field: its form, its description, and its own fields.
fn page(schema: &Value, path: &str, colours: Colours) -> Result<String, Failure> {
    let found = find(schema, path)?;
    let mut text = format!("{}  {}\n", colours.bold(path), form(schema, found));
    let mut described = description(found);
    if described.is_empty() {
        described = description(resolve(schema, found));
    }
    for line in described.lines() {
        text += &format!("  {line}\n");
    }
    text += &alternatives(schema, found);
    if let Some((fields, required)) = fields(schema, found) {
        text += "\nfields:\n";
        let widest = fields.keys().map(String::len).max().unwrap_or(0);
        for (name, field) in fields {
            let must = if required.contains(&name.as_str()) { ", required" } else { "" };
            let shown = colours.bold(&format!("{name:<widest$}"));
            text += &format!("  {shown}  {}{must}\n", form(schema, field));
            let mut about = description(field);
            if about.is_empty() {
                about = description(resolve(schema, field));
            }
            for line in about.lines() {
                text += &format!("  {:widest$}    {line}\n", "");
            }
        }
    }
    Ok(text)
}

/// The schema of the documents of a kind.
fn document<'a>(schema: &'a Value, kind: &str) -> Option<&'a Value> {
    let is =
        |one: &&Value| one.pointer("/properties/kind/const").and_then(Value::as_str) == Some(kind);
    schema.get("oneOf")?.as_array()?.iter().find(is)
}

/// The schema that a path names, such as `router.fast_path.routes`.
fn find<'a>(schema: &'a Value, path: &str) -> Result<&'a Value, Failure> {
    let mut names = path.split('.');
    let kind = plural(names.next().unwrap_or_default())?;
    let singular = KINDS.iter().find(|(many, ..)| *many == kind).map_or(kind, |(_, one, _)| one);
    let mut found = document(schema, singular)
        .ok_or_else(|| Failure::missing(format!("there is no schema of {singular}")))?;
    let mut at = singular.to_owned();
    for name in names {
        let Some((fields, _)) = fields(schema, found) else {
            return Err(Failure::missing(format!("{at} has no fields, and so no {name:?}")));
        };
        found = fields.get(name).ok_or_else(|| {
            let known: Vec<&str> = fields.keys().map(String::as_str).collect();
            Failure::missing(format!("{at} has no field {name:?}; it has {}", known.join(", ")))
        })?;
        at = format!("{at}.{name}");
    }
    Ok(found)
}

/// Names of the fields below a path, for completion.
pub(crate) fn names_below(path: &str) -> Vec<String> {
    let schema = europa_api::schema();
    let found = find(&schema, path).ok();
    let fields = found.and_then(|found| fields(&schema, found));
    fields.map(|(fields, _)| fields.keys().cloned().collect()).unwrap_or_default()
}

/// Follows references, and removes `null` alternatives, to the schema with the contents.
fn resolve<'a>(schema: &'a Value, mut at: &'a Value) -> &'a Value {
    // Longer chains of references do not occur; the limit also ends a cycle.
    for _ in 0..16 {
        if let Some(reference) = at.get("$ref").and_then(Value::as_str) {
            match schema.pointer(reference.trim_start_matches('#')) {
                Some(target) => at = target,
                None => return at,
            }
        } else if let Some([one]) = at.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            at = one;
        } else if let [one] = choices(at)[..] {
            at = one;
        } else {
            return at;
        }
    }
    at
}

/// The alternatives of a value, without `null`.
fn choices(at: &Value) -> Vec<&Value> {
    let lists = ["anyOf", "oneOf"].into_iter().filter_map(|name| at.get(name)?.as_array());
    lists.flatten().filter(|one| one.get("type").and_then(Value::as_str) != Some("null")).collect()
}

/// The fields of an object, or of the objects in a list or map, and whether each is required.
fn fields<'a>(schema: &'a Value, at: &'a Value) -> Option<(&'a Map<String, Value>, Vec<&'a str>)> {
    let at = resolve(schema, at);
    if let Some(fields) = at.get("properties").and_then(Value::as_object) {
        let required = at.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str).collect();
        return Some((fields, required));
    }
    let below = ["items", "additionalProperties"].into_iter().filter_map(|name| at.get(name));
    let patterns = at.get("patternProperties").and_then(Value::as_object);
    let below =
        below.chain(patterns.into_iter().flat_map(Map::values)).filter(|one| one.is_object());
    let below = below.chain(choices(at));
    below.into_iter().find_map(|one| fields(schema, one))
}

fn description(at: &Value) -> String {
    at.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The form of a value, in a few words.
fn form(schema: &Value, at: &Value) -> String {
    if let Some(value) = at.get("const") {
        return format!("always {value}");
    }
    let at = resolve(schema, at);
    if let Some(values) = at.get("enum").and_then(Value::as_array) {
        let words: Vec<String> =
            values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        return format!("one of {}", words.join(", "));
    }
    if let Some(value) = at.get("const") {
        return value.to_string();
    }
    let choices = choices(at);
    if !choices.is_empty() {
        let mut forms: Vec<String> = choices.iter().map(|one| form(schema, one)).collect();
        forms.dedup();
        return forms.join(" or ");
    }
    let types: Vec<&str> = match at.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect()
        }
        _ => Vec::new(),
    };
    let words = types.iter().map(|one| match *one {
        "array" => {
            let items = at.get("items").map_or("value".to_owned(), |items| form(schema, items));
            format!("list of {items}")
        }
        "object" if at.get("properties").is_none() => {
            let patterns = at.get("patternProperties").and_then(Value::as_object);
            let below = at.get("additionalProperties").filter(|below| below.is_object());
            let below = below.or_else(|| patterns.and_then(|all| all.values().next()));
            below.map_or("map".to_owned(), |below| format!("map of {}", form(schema, below)))
        }
        "boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "value".to_owned() } else { words.join(" or ") }
}

/// The values of an enumeration that have a description, one on each line.
fn alternatives(schema: &Value, at: &Value) -> String {
    let mut text = String::new();
    for one in choices(resolve(schema, at)) {
        if let (Some(value), false) = (one.get("const"), description(one).is_empty()) {
            text += &format!("  {value}: {}\n", description(one).replace('\n', " "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        page(&europa_api::schema(), path, Colours::none())
            .unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn kinds_and_fields_are_explained() {
        let all = overview(&europa_api::schema(), Colours::none());
        for (_, kind, _) in KINDS {
            let line = all.lines().find(|line| line.starts_with(kind)).expect("a line");
            assert!(line.split_whitespace().count() > 3, "{line}");
            assert!(shown(kind).contains("\nfields:\n"), "{kind}");
        }
        let router = shown("router");
        assert!(router.contains("  name ") && router.contains("required"), "{router}");
        let interface = shown("router.interfaces");
        assert!(interface.starts_with("router.interfaces  map of object\n"), "{interface}");
        assert!(interface.contains("  addresses") && interface.contains("list of string"));
        assert!(shown("r.interfaces.addresses").starts_with("r.interfaces.addresses  list of"));
    }

    /// Every field that a document can have is reached by its path, at any depth.
    #[test]
    fn every_field_has_a_page() {
        fn walk(schema: &Value, path: &str, depth: u32, pages: &mut u32) {
            let text = page(schema, path, Colours::none());
            let text = text.unwrap_or_else(|error| panic!("{path}: {error:?}"));
            assert!(text.lines().count() > 1 || path.ends_with(".kind"), "{path}: {text}");
            *pages += 1;
            let found = find(schema, path).expect("it was found");
            if let (Some((fields, _)), true) = (fields(schema, found), depth < 6) {
                for name in fields.keys() {
                    walk(schema, &format!("{path}.{name}"), depth + 1, pages);
                }
            }
        }
        let (schema, mut pages) = (europa_api::schema(), 0);
        KINDS.iter().for_each(|(_, kind, _)| walk(&schema, kind, 0, &mut pages));
        assert!(pages > 100, "{pages}");
    }

    #[test]
    fn an_unknown_field_is_answered_with_the_known_ones() {
        for (path, wanted) in [
            ("frob", "the kinds are ports"),
            ("router.fastpath", "router has no field \"fastpath\"; it has "),
            ("port.mtu.x", "port.mtu has no fields"),
        ] {
            let error = find(&europa_api::schema(), path).expect_err("an error");
            assert!(format!("{error:?}").contains(&wanted.replace('"', "\\\"")), "{error:?}");
        }
    }
}
