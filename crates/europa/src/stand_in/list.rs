//! Lists containers and images: `docker ps`, `docker image ls`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::lab::{self, Container};
use super::template;
use crate::exit::Failure;
use crate::table::out;

/// A container as `docker ps` describes it.
fn row(one: &Container<'_>, whole: bool) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let age = age(now.saturating_sub(one.deployed.since));
    let running = one.is_running();
    let id = one.id();
    let labels: Vec<String> =
        one.labels().iter().map(|(name, value)| format!("{name}={value}")).collect();
    json!({
        "Command": "\"europa\"",
        "CreatedAt": one.deployed.since.to_string(),
        "ID": if whole { id.as_str() } else { &id[..12] },
        "Image": one.node.image,
        "Labels": labels.join(","),
        "LocalVolumes": "0",
        "Mounts": "",
        "Names": one.name(),
        "Networks": "",
        "Ports": "",
        "RunningFor": format!("{age} ago"),
        "Size": "0B",
        "State": if running { "running" } else { "exited" },
        "Status": if running { format!("Up {age}") } else { format!("Exited (0) {age} ago") },
    })
}

/// A time in Docker's form.
fn age(seconds: u64) -> String {
    let told = |count: u64, unit: &str| match count {
        1 => format!("1 {unit}"),
        _ => format!("{count} {unit}s"),
    };
    match seconds {
        0 => "Less than a second".to_owned(),
        1..60 => told(seconds, "second"),
        60..3600 => told(seconds / 60, "minute"),
        3600..172_800 => told(seconds / 3600, "hour"),
        _ => told(seconds / 86_400, "day"),
    }
}

/// Whether a container matches all filters. Filters with the same name are alternatives, except
/// labels.
fn passes(one: &Container<'_>, filters: &[(&str, &str)]) -> Result<bool, Failure> {
    let mut alternatives: Vec<(&str, bool)> = Vec::new();
    for (name, value) in filters {
        let is = match *name {
            "name" => {
                one.name().contains(value.trim_start_matches(['^', '/']).trim_end_matches('$'))
            }
            "id" => one.id().starts_with(value),
            "status" => (*value == "running") == one.is_running(),
            "ancestor" => one.node.image == *value,
            "label" => {
                let (key, wanted) = value.split_once('=').unwrap_or((value, ""));
                let labels = one.labels();
                let mut same = labels.iter().filter(|(its, _)| *its == key);
                if !same.any(|(_, its)| wanted.is_empty() || its == wanted) {
                    return Ok(false);
                }
                continue;
            }
            other => {
                return Err(Failure::usage(format!(
                    "docker ps: Europa's stand-in has no filter {other}; it has name, id, status, \
                     ancestor and label"
                )));
            }
        };
        match alternatives.iter_mut().find(|(known, _)| known == name) {
            Some((_, any)) => *any |= is,
            None => alternatives.push((*name, is)),
        }
    }
    Ok(alternatives.iter().all(|(_, any)| *any))
}

/// `docker ps`.
pub(super) fn containers(all: &Arguments) -> Result<(), Failure> {
    let filters: Vec<(&str, &str)> =
        all.all("filter").map(|text| text.split_once('=').unwrap_or((text, ""))).collect();
    let labs = lab::all();
    let mut rows = Vec::new();
    for one in lab::containers(&labs) {
        if (all.has("all") || one.is_running()) && passes(&one, &filters)? {
            rows.push(row(&one, all.has("no-trunc")));
        }
    }
    let standard = if all.has("quiet") {
        "{{.ID}}"
    } else {
        "table {{.ID}}\\t{{.Image}}\\t{{.Command}}\\t{{.RunningFor}}\\t{{.Status}}\\t{{.Ports}}\\t{{.Names}}"
    };
    out!("{}", formatted(all.one("format").unwrap_or(standard), &rows)?);
    Ok(())
}

/// Rows by a format of Docker's: `json`, a template, or `table` and a template.
fn formatted(format: &str, rows: &[Value]) -> Result<String, Failure> {
    let columns = match format {
        "json" => return Ok(rows.iter().map(|row| format!("{row}\n")).collect()),
        "table" => {
            "{{.ID}}\\t{{.Image}}\\t{{.Command}}\\t{{.RunningFor}}\\t{{.Status}}\\t{{.Ports}}\\t{{.Names}}"
        }
        _ => match format.strip_prefix("table ") {
            Some(columns) => columns,
            None => {
                let lines: Result<Vec<String>, Failure> =
                    rows.iter().map(|row| template::fill(format, row)).collect();
                return Ok(lines?.iter().map(|line| format!("{line}\n")).collect());
            }
        },
    };
    let heads = [
        ("ID", "CONTAINER ID"),
        ("RunningFor", "CREATED"),
        ("CreatedSince", "CREATED"),
        ("Repository", "REPOSITORY"),
    ];
    let mut head = serde_json::Map::new();
    for key in rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()) {
        head.insert(key.clone(), key.to_uppercase().into());
    }
    for key in ["ID", "Image", "Command", "RunningFor", "Status", "Ports", "Names", "Tag", "Size"] {
        head.insert(key.to_owned(), key.to_uppercase().into());
    }
    for (key, text) in heads {
        head.insert(key.to_owned(), text.into());
    }
    let head = Value::Object(head);
    let filled: Result<Vec<String>, Failure> =
        std::iter::once(&head).chain(rows).map(|row| template::fill(columns, row)).collect();
    let lines: Vec<Vec<String>> =
        filled?.iter().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let padded = |line: &Vec<String>| {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:<width$}", width = width(column)))
            .collect();
        format!("{}\n", cells.join("   ").trim_end())
    };
    Ok(lines.iter().map(padded).collect())
}

/// `docker image ls`: the images in the documents of nodes.
pub(super) fn images(all: &Arguments) -> Result<(), Failure> {
    let labs = lab::all();
    let mut names: Vec<&str> =
        lab::containers(&labs).iter().map(|one| one.node.image.as_str()).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    let split = |name: &str| match name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
        Some((name, tag)) => (name.to_owned(), tag.to_owned()),
        None => (name.to_owned(), "latest".to_owned()),
    };
    let wanted = all.words.first().map(|word| split(word));
    let rows: Vec<Value> = names
        .into_iter()
        .map(split)
        .filter(|image| wanted.as_ref().is_none_or(|wanted| wanted == image))
        .map(|(name, tag)| {
            json!({"Repository": name, "Tag": tag, "ID": "", "CreatedSince": "", "Size": "0B"})
        })
        .collect();
    let standard = "table {{.Repository}}\\t{{.Tag}}\\t{{.ID}}\\t{{.CreatedSince}}\\t{{.Size}}";
    let format = all.one("format").unwrap_or(if all.has("quiet") { "{{.ID}}" } else { standard });
    out!("{}", formatted(format, &rows)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_formats() {
        let rows = [json!({"ID": "abc", "Names": "clab-l-a", "Status": "Up 2 seconds"})];
        for (format, wanted) in [
            ("{{.Names}}", "clab-l-a\n"),
            ("json", "{\"ID\":\"abc\",\"Names\":\"clab-l-a\",\"Status\":\"Up 2 seconds\"}\n"),
            ("{{json .Names}}", "\"clab-l-a\"\n"),
            ("table {{.Names}}\\t{{.Status}}", "NAMES      STATUS\nclab-l-a   Up 2 seconds\n"),
            ("table {{.ID}}", "CONTAINER ID\nabc\n"),
        ] {
            assert_eq!(formatted(format, &rows).unwrap(), wanted, "{format}");
        }
        assert_eq!(formatted("json", &[]).unwrap(), "");
    }

    #[test]
    fn times() {
        for (seconds, wanted) in
            [(0, "Less than a second"), (1, "1 second"), (59, "59 seconds"), (7200, "2 hours")]
        {
            assert_eq!(age(seconds), wanted);
        }
    }
}
