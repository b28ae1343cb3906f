//! The differences between two desired states, object by object and field by field.

use std::collections::HashMap;

use europa_api::rest::{Action, Change, FieldChange};
use europa_api::{Kept, Key};
use serde_json::Value;

/// Changes from `old` to `new`: removed objects, then changed ones, then new ones, each group in
/// its order. Also returns the number of unchanged objects.
pub fn difference(old: &[Kept], new: &[Kept]) -> (Vec<Change>, u64) {
    let change = |action, kept: &Kept, fields| Change {
        action,
        kind: kept.key.kind.clone(),
        name: kept.key.name.clone(),
        how: None,
        fields,
    };
    let (olds, news) = (by_key(old), by_key(new));
    let mut changes: Vec<Change> = old
        .iter()
        .filter(|kept| !news.contains_key(&kept.key))
        .map(|kept| change(Action::Remove, kept, Vec::new()))
        .collect();
    let mut unchanged = 0;
    let mut added = Vec::new();
    for kept in new {
        match olds.get(&kept.key) {
            None => added.push(change(Action::Add, kept, Vec::new())),
            // Reading JSON costs far more than comparing texts.
            Some(before) if *before == kept => unchanged += 1,
            Some(before) => {
                let fields = fields(before, kept);
                if fields.is_empty() {
                    unchanged += 1;
                } else {
                    changes.push(change(Action::Change, kept, fields));
                }
            }
        }
    }
    changes.append(&mut added);
    (changes, unchanged)
}

fn by_key(all: &[Kept]) -> HashMap<&Key, &Kept> {
    all.iter().map(|kept| (&kept.key, kept)).collect()
}

/// The fields that differ.
fn fields(old: &Kept, new: &Kept) -> Vec<FieldChange> {
    let mut found = Vec::new();
    let parse = |kept: &Kept| serde_json::from_str(&kept.document).unwrap_or(Value::Null);
    compare(String::new(), Some(&parse(old)), Some(&parse(new)), &mut found);
    let text = |kept: &Kept| kept.configuration.as_ref().map(|c| c.text.clone());
    let (before, after) = (text(old), text(new));
    let told = found.iter().any(|field| field.path.starts_with("fast_path"));
    if before != after && !told && parse(new).pointer("/fast_path/xdp").is_some() {
        // Users cannot read base64, so the size is shown.
        let size = |text: Option<String>| {
            text.map(|text| Value::from(format!("a program of {} bytes", text.len() / 4 * 3)))
        };
        let path = "fast_path.xdp (its program)".into();
        found.push(FieldChange { path, before: size(before), after: size(after) });
    } else if before != after && !told {
        // The document names a file whose text differs.
        found.push(FieldChange {
            path: "fast_path.click_file (its text)".into(),
            before: before.map(Value::String),
            after: after.map(Value::String),
        });
    }
    found
}

/// The key of a list's entry, if it has one.
fn name_of(value: &Value) -> Option<String> {
    let names = ["to", "address", "name", "path"];
    names.iter().find_map(|field| value.get(field)?.as_str().map(str::to_owned))
}

fn compare(path: String, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<FieldChange>) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {
            // The order of a router's interfaces matters, but `==` ignores it.
            let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return };
            if path == "interfaces" && !old.keys().eq(new.keys()) {
                let order = |map: &serde_json::Map<String, Value>| {
                    Some(Value::from(map.keys().cloned().collect::<Vec<_>>()))
                };
                found.push(FieldChange {
                    path: "interfaces (their order)".into(),
                    before: order(old),
                    after: order(new),
                });
            }
            for (key, value) in old {
                let path = join(&path, key);
                compare(path, Some(value), new.get(key), found);
            }
        }
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for (key, value) in old {
                compare(join(&path, key), Some(value), new.get(key), found);
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                compare(join(&path, key), None, Some(value), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new)))
            if old.iter().chain(new).all(|value| name_of(value).is_some()) =>
        {
            list(&path, old, new, found);
        }
        (None, Some(Value::Array(new))) if new.iter().all(|value| name_of(value).is_some()) => {
            list(&path, &[], new, found);
        }
        (Some(Value::Array(old)), None) if old.iter().all(|value| name_of(value).is_some()) => {
            list(&path, old, &[], found);
        }
        (before, after) => {
            found.push(FieldChange { path, before: before.cloned(), after: after.cloned() });
        }
    }
}

/// Compares lists by the names of their entries.
fn list(path: &str, old: &[Value], new: &[Value], found: &mut Vec<FieldChange>) {
    use std::collections::HashMap;
    let by_name = |list: &[Value]| -> HashMap<String, Value> {
        list.iter().filter_map(|value| Some((name_of(value)?, value.clone()))).collect()
    };
    let (olds, news) = (by_name(old), by_name(new));
    for (list, others, gone) in [(old, &news, true), (new, &olds, false)] {
        for value in list {
            let Some(name) = name_of(value) else { continue };
            let path = format!("{path}[{name}]");
            match (others.get(&name), gone) {
                (None, true) => {
                    let before = Some(value.clone());
                    found.push(FieldChange { path, before, after: None });
                }
                (None, false) => {
                    found.push(FieldChange { path, before: None, after: Some(value.clone()) });
                }
                (Some(other), true) => compare(path, Some(value), Some(other), found),
                (Some(_), false) => {}
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(name: &str, document: Value) -> Kept {
        Kept { key: Key::new("router", name), document: document.to_string(), configuration: None }
    }

    fn paths(old: Value, new: Value) -> Vec<String> {
        let (changes, _) = difference(&[kept("a", old)], &[kept("a", new)]);
        let mark = |field: &FieldChange| match (&field.before, &field.after) {
            (None, _) => format!("+{}", field.path),
            (_, None) => format!("-{}", field.path),
            _ => format!("~{}", field.path),
        };
        changes.iter().flat_map(|change| change.fields.iter().map(mark)).collect()
    }

    #[test]
    fn objects() {
        let old = [kept("a", json!({"x": 1})), kept("b", json!({"x": 1})), kept("c", json!({}))];
        let new = [kept("c", json!({})), kept("b", json!({"x": 2})), kept("d", json!({"x": 1}))];
        let (changes, unchanged) = difference(&old, &new);
        let told: Vec<_> = changes.iter().map(|c| (c.action, c.name.as_str())).collect();
        assert_eq!(told, [(Action::Remove, "a"), (Action::Change, "b"), (Action::Add, "d")]);
        assert_eq!(unchanged, 1);
    }

    #[test]
    fn fields_by_path() {
        let route = |to: &str, via: &str| json!({"to": to, "via": via});
        for (old, new, wanted) in [
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2, "c": 3}}), vec!["~a.b", "+a.c"]),
            (json!({"a": 1, "b": 2}), json!({"b": 2}), vec!["-a"]),
            (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), vec![]),
            (
                json!({"interfaces": {"a": {}, "b": {}}}),
                json!({"interfaces": {"b": {}, "a": {}}}),
                vec!["~interfaces (their order)"],
            ),
            (
                json!({"r": [route("10/8", "a"), route("11/8", "a")]}),
                json!({"r": [route("11/8", "b"), route("12/8", "a")]}),
                vec!["-r[10/8]", "~r[11/8].via", "+r[12/8]"],
            ),
            (json!({}), json!({"r": [route("10/8", "a")]}), vec!["+r[10/8]"]),
            (json!({"l": [1, 2]}), json!({"l": [2, 1]}), vec!["~l"]),
        ] {
            assert_eq!(paths(old.clone(), new.clone()), wanted, "{old} {new}");
        }
    }

    #[test]
    fn the_text_of_a_click_file() {
        let of = |text: &str| Kept {
            configuration: Some(europa_api::Configuration {
                file: "a.click".into(),
                first_line: 1,
                text: text.into(),
            }),
            ..kept("a", json!({"fast_path": {"click_file": "a.click"}}))
        };
        let (changes, _) = difference(&[of("Idle")], &[of("Idle -> Discard")]);
        assert_eq!(changes[0].fields[0].path, "fast_path.click_file (its text)");
        assert!(difference(&[of("Idle")], &[of("Idle")]).0.is_empty());
    }
}
