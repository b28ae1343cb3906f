//! Go's templates of `--format`: fields, `json`, `index`, `len`, `upper`, `lower`.

use serde_json::Value;

use crate::exit::Failure;

/// The text of a template for a value. `\t` and `\n` are a tab and a newline.
pub(super) fn fill(template: &str, value: &Value) -> Result<String, Failure> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out += &plain(before);
        let (inside, after) = after.split_once("}}").ok_or_else(|| {
            Failure::usage(format!("template {template:?}: `{{{{` has no `}}}}`"))
        })?;
        out += &shown(&action(inside.trim().trim_matches('-').trim(), value)?);
        rest = after;
    }
    Ok(out + &plain(rest))
}

fn plain(text: &str) -> String {
    text.replace("\\t", "\t").replace("\\n", "\n")
}

/// A value in Go's form.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".to_owned(),
        Value::Array(items) => {
            let all: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", all.join(" "))
        }
        Value::Object(entries) => {
            let all: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key}:{}", shown(value))).collect();
            format!("map[{}]", all.join(" "))
        }
        other => other.to_string(),
    }
}

fn action(text: &str, value: &Value) -> Result<Value, Failure> {
    let words = super::arguments::split(&text.replace('"', "'"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [path] if path.starts_with('.') => Ok(field(path, value)),
        ["json", path] if path.starts_with('.') => Ok(field(path, value).to_string().into()),
        ["len", path] if path.starts_with('.') => Ok(match field(path, value) {
            Value::Array(items) => items.len().into(),
            Value::Object(entries) => entries.len().into(),
            Value::String(text) => text.len().into(),
            _ => 0.into(),
        }),
        ["upper", path] if path.starts_with('.') => {
            Ok(shown(&field(path, value)).to_uppercase().into())
        }
        ["lower", path] if path.starts_with('.') => {
            Ok(shown(&field(path, value)).to_lowercase().into())
        }
        ["index", path, key] if path.starts_with('.') => {
            let found = field(path, value);
            let at = key.parse::<usize>().ok().and_then(|at| found.get(at));
            Ok(found.get(*key).or(at).cloned().unwrap_or_else(|| "".into()))
        }
        [".Label", key] => Ok(value["Labels"][*key].clone()),
        _ => Err(Failure::usage(format!(
            "template: Europa's stand-in does not understand {{{{{text}}}}}: it has .FIELD, json, \
             index, len, upper and lower"
        ))),
    }
}

/// The value of `.A.B`.
fn field(path: &str, value: &Value) -> Value {
    let mut found = value;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        found = &found[name];
    }
    found.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates() {
        let value = json!({"Names": "clab-x-a", "State": {"Running": true, "Pid": 7},
            "Config": {"Labels": {"clab-node-name": "a"}}, "Ports": []});
        for (template, wanted) in [
            ("{{.Names}}", "clab-x-a"),
            (r"{{ .Names }}\t{{.State.Pid}}", "clab-x-a\t7"),
            ("{{json .State}}", r#"{"Running":true,"Pid":7}"#),
            (r#"{{index .Config.Labels "clab-node-name"}}"#, "a"),
            ("{{len .Ports}} {{upper .Names}}", "0 CLAB-X-A"),
            ("{{.Nothing}}", "<no value>"),
            ("plain", "plain"),
        ] {
            assert_eq!(fill(template, &value).unwrap(), wanted, "{template}");
        }
        for wrong in ["{{range .Ports}}", "{{.Names"] {
            assert!(fill(wrong, &value).is_err(), "{wrong}");
        }
    }
}
