//! The command `containerlab`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use serde_json::{Value, json};

use super::arguments::{Arguments, Known, split};
use super::lab::{self, Container, Deployed, Surroundings};
use crate::exit::Failure;
use crate::import;
use crate::table::{line, out};
use crate::up;

/// The version of containerlab whose options and output are imitated.
const LIKE: &str = "0.75.0";

const OPTIONS: Known = &[
    ("topo", Some('t'), true),
    ("name", None, true),
    ("reconfigure", Some('c'), false),
    ("cleanup", None, false),
    ("all", Some('a'), false),
    ("yes", Some('y'), false),
    ("graceful", None, false),
    ("keep-mgmt-net", None, false),
    ("format", Some('f'), true),
    ("label", None, true),
    ("cmd", None, true),
    ("details", None, false),
    ("wide", Some('w'), false),
    ("debug", Some('d'), false),
    ("log-level", None, true),
    ("runtime", Some('r'), true),
    ("timeout", None, true),
    ("max-workers", None, true),
    ("skip-post-deploy", None, false),
    ("short", Some('s'), false),
];

/// Runs a command line.
pub(super) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    let all = Arguments::read("containerlab", OPTIONS, words, false)?;
    let words: Vec<&str> = all.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["version", "short"] => line!("{LIKE}"),
        ["version" | "ver"] if all.has("short") => line!("{LIKE}"),
        ["version" | "ver"] => out!(
            "    version: {LIKE}\n     source: Europa {}, in place of containerlab\n",
            env!("CARGO_PKG_VERSION")
        ),
        ["deploy" | "dep"] => deploy(&all)?,
        ["redeploy" | "rdep"] => {
            let (path, _) = topology(&all)?;
            end(&lab_of(&path, &all)?)?;
            deploy(&all)?;
        }
        ["destroy" | "des"] => {
            for one in chosen(&all)? {
                end(&one)?;
            }
        }
        ["inspect" | "ins" | "i"] => inspect(&all)?,
        ["exec"] => return exec(&all),
        [] | ["help", ..] => line!(
            "Europa in place of containerlab: version, deploy, redeploy, destroy, inspect, exec"
        ),
        [other, ..] => {
            return Err(Failure::usage(format!(
                "containerlab {other}: Europa's stand-in has version, deploy, redeploy, destroy, \
                 inspect and exec; for captures and graphs see `europa help`"
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The topology's file and its text.
fn topology(all: &Arguments) -> Result<(PathBuf, String), Failure> {
    let given = all.one("topo").map(str::to_owned).or_else(|| std::env::var("CLAB_TOPO").ok());
    let path = match given {
        Some(path) if Path::new(&path).is_dir() => only_topology(Path::new(&path))?,
        Some(path) => PathBuf::from(path),
        None => only_topology(Path::new("."))?,
    };
    let failed = |error| format!("{}: {error}", path.display());
    let whole = fs::canonicalize(&path).map_err(failed)?;
    let text = fs::read_to_string(&whole).map_err(failed)?;
    Ok((whole, text))
}

/// The only topology of a folder.
fn only_topology(folder: &Path) -> Result<PathBuf, Failure> {
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".clab.yml") || name.ends_with(".clab.yaml")
    };
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_one).collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(Failure::usage("there is no *.clab.yml here: name one by --topo FILE")),
        _ => Err(Failure::usage("there are several *.clab.yml here: name one by --topo FILE")),
    }
}

/// The import of a topology, with the lab's name from the command line.
fn imported(path: &Path, text: &str, all: &Arguments) -> Result<europa_import::Imported, Failure> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if let Some(name) = all.one("name") {
        // Names of files follow from the lab's name, so it is changed before the topology is read.
        let renamed = format!("name: {}\n", json!(name));
        let others: String = text
            .lines()
            .filter(|line| !line.starts_with("name:"))
            .flat_map(|line| [line, "\n"])
            .collect();
        return Ok(import::read(path, &(others + &renamed), folder, &[])?);
    }
    Ok(import::read(path, text, folder, &[])?)
}

/// The lab of a topology, if it is deployed.
fn lab_of(path: &Path, all: &Arguments) -> Result<Deployed, Failure> {
    let text = fs::read_to_string(path)?;
    let name = imported(path, &text, all)?.lab.name;
    lab::find(&name).ok_or_else(|| format!("the lab {name} is not deployed").into())
}

/// The labs that a command line selects.
fn chosen(all: &Arguments) -> Result<Vec<Deployed>, Failure> {
    if all.has("all") {
        return Ok(lab::all());
    }
    if let Some(name) = all.one("name").filter(|_| all.one("topo").is_none()) {
        let missing = || Failure::from(format!("the lab {name} is not deployed"));
        return Ok(vec![lab::find(name).ok_or_else(missing)?]);
    }
    Ok(vec![lab_of(&topology(all)?.0, all)?])
}

fn deploy(all: &Arguments) -> Result<(), Failure> {
    let (path, text) = topology(all)?;
    let imported = imported(&path, &text, all)?;
    for note in &imported.notes {
        eprintln!("{}:{}: {}", path.display(), note.line, note.message);
    }
    let name = &imported.lab.name;
    if let Some(old) = lab::find(name) {
        if !all.has("reconfigure") && containers_run(&old) {
            return Err(format!(
                "the '{name}' lab has already been deployed: destroy it first, or give \
                 --reconfigure"
            )
            .into());
        }
        end(&old)?;
    }
    let deployed = Deployed::new(imported.lab, path);
    let file = tempfile(&imported.yaml)?;
    let instance = deployed.instance()?;
    // The note is written first, so that `destroy` finds a lab that was started only in part.
    deployed.note()?;
    let applied = up::up_silently(&instance, &file);
    let _ = fs::remove_file(&file);
    match applied {
        Ok(applied) => applied.warnings.iter().for_each(|warning| eprintln!("warning: {warning}")),
        Err(failure) => {
            deployed.forget();
            return Err(failure);
        }
    }
    deployed.name_namespaces()?;
    for late in deployed.settle()? {
        eprintln!(
            "europa: {late}: its `exec` lines still run; `docker logs {late}` has their output"
        );
    }
    print(&[deployed], all)
}

fn containers_run(deployed: &Deployed) -> bool {
    lab::containers(std::slice::from_ref(deployed)).iter().any(Container::is_running)
}

/// A file with a configuration, readable only by root.
fn tempfile(text: &str) -> Result<PathBuf, Failure> {
    fs::create_dir_all("/run/europa")?;
    let path = PathBuf::from(format!("/run/europa/.clab-{}.yaml", std::process::id()));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Takes a lab down.
fn end(deployed: &Deployed) -> Result<(), Failure> {
    up::down_silently(&deployed.instance()?)?;
    deployed.forget();
    eprintln!("destroyed the lab {}", deployed.lab.name);
    Ok(())
}

fn inspect(all: &Arguments) -> Result<(), Failure> {
    let named = ["name", "topo", "all"].iter().any(|option| all.one(option).is_some());
    let labs = if named { chosen(all)? } else { lab::all() };
    print(&labs, all)
}

/// One container in the form of `inspect`.
fn shown(one: &Container<'_>) -> Value {
    let state = if one.is_running() { "running" } else { "exited" };
    let path = one.deployed.topology.display().to_string();
    json!({
        "lab_name": one.deployed.lab.name,
        "labPath": path,
        "absLabPath": path,
        "name": one.name(),
        "container_id": one.id()[..12],
        "image": one.node.image,
        "kind": one.node.kind,
        "state": state,
        "status": state,
        "ipv4_address": "N/A",
        "ipv6_address": "N/A",
        "owner": "root",
    })
}

fn print(labs: &[Deployed], all: &Arguments) -> Result<(), Failure> {
    let rows: Vec<Value> = lab::containers(labs).iter().map(shown).collect();
    match all.one("format").unwrap_or("table") {
        "json" => {
            let mut by_lab = serde_json::Map::new();
            for row in rows {
                let name = row["lab_name"].as_str().unwrap_or_default().to_owned();
                let list = by_lab.entry(name).or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(row.clone()));
            }
            line!("{}", serde_json::to_string_pretty(&by_lab)?);
        }
        "table" => out!("{}", table(&rows)),
        other => {
            return Err(Failure::usage(format!("--format {other}: this one has table and json")));
        }
    }
    Ok(())
}

/// Rows in a frame, as containerlab draws them.
fn table(rows: &[Value]) -> String {
    let fields = ["lab_name", "name", "kind", "image", "state", "ipv4_address"];
    let heads = ["Lab", "Name", "Kind", "Image", "State", "IPv4 Address"];
    let cell = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let mut lines: Vec<Vec<String>> = vec![heads.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| fields.iter().map(|field| cell(row, field)).collect()));
    let width = |column: usize| {
        let wide =
            lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count());
        wide.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..fields.len()).map(width).collect();
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
    let mut text = format!("╭{}╮\n", rule.join("┬"));
    for (number, line) in lines.iter().enumerate() {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, &width)| format!(" {cell:<width$} ")).collect();
        text += &format!("│{}│\n", cells.join("│"));
        if number == 0 {
            text += &format!("├{}┤\n", rule.join("┼"));
        }
    }
    text + &format!("╰{}╯\n", rule.join("┴"))
}

/// Runs commands in all nodes of a lab, or in those with a label.
fn exec(all: &Arguments) -> Result<ExitCode, Failure> {
    if all.all("cmd").next().is_none() {
        return Err(Failure::usage("containerlab exec: name a command by --cmd"));
    }
    let labs = chosen(all)?;
    let has = |one: &Container<'_>, label: &str| {
        let (name, value) = label.split_once('=').unwrap_or((label, ""));
        one.labels().iter().any(|(its, of)| *its == name && (value.is_empty() || of == value))
    };
    let mut results = serde_json::Map::new();
    let mut failed = false;
    for one in lab::containers(&labs) {
        if !all.all("label").all(|label| has(&one, label)) {
            continue;
        }
        for text in all.all("cmd") {
            let words = split(text);
            let done = one
                .command(&one.dressed(&words, &Surroundings::default()))?
                .stdin(Stdio::null())
                .output()?;
            let code = done.status.code().unwrap_or(1);
            failed |= code != 0;
            let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let result = json!({"cmd": words, "return-code": code,
                "stdout": said(&done.stdout), "stderr": said(&done.stderr)});
            let list = results.entry(one.name()).or_insert_with(|| json!([]));
            list.as_array_mut().into_iter().for_each(|list| list.push(result.clone()));
            if all.one("format") != Some("json") {
                let name = one.name();
                let mut told =
                    format!("Executed command node={name} command={text:?} code={code}\n");
                told += &said(&done.stdout);
                told += &said(&done.stderr);
                std::io::stderr().write_all(told.as_bytes())?;
            }
        }
    }
    if results.is_empty() {
        return Err("no node of the lab has these labels".into());
    }
    if all.one("format") == Some("json") {
        line!("{}", serde_json::to_string_pretty(&results)?);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_containers() {
        let rows = [json!({"lab_name": "l", "name": "clab-l-a", "kind": "linux", "image": "x:1",
            "state": "running", "ipv4_address": "N/A"})];
        let text = table(&rows);
        assert!(
            text.contains("│ l   │ clab-l-a │ linux │ x:1   │ running │ N/A          │"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn others_are_refused_by_name() {
        for (words, wanted) in [
            (&["graph"][..], "containerlab graph"),
            (&["deploy", "--node-filter", "a"], "--node-filter"),
            (&["exec"], "--cmd"),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let failure = run(&words).expect_err(wanted);
            assert!(format!("{failure:?}").contains(wanted), "{failure:?}");
        }
    }
}
