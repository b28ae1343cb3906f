//! `up`, `apply`, `diff`, `down`: change the node's configuration.

use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use europa_api::rest::{Action, Applied, ApplyRequest, Change, FieldChange, NodeInfo, Said};
use europa_api::{Bundle, Source};
use europa_client::{Client, await_node};
use europa_node::Instance;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::cli::{Apply, Files, Starting};
use crate::compile;
use crate::exit::{DIFFERS, Failure};
use crate::table::{Colours, errors_in_colour, line, out, plain};
use crate::text_difference;

/// Time limit until a node listens: it first adopts the processes of a killed node.
const PATIENCE: Duration = Duration::from_secs(20);
/// After this time, a spinner is shown for a request.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// Most characters of a value that are shown.
const MOST_SHOWN: usize = 60;
/// Characters before the first difference of two long values.
const SHOWN_BEFORE: usize = 20;

pub(crate) use crate::target::client;

pub(crate) fn up(
    instance: &Instance,
    apply: &Apply,
    starting: &Starting,
) -> Result<ExitCode, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err("`europa up` needs root: it attaches eBPF programs to devices".into());
    }
    // Mistakes are reported before a node is started.
    let request = request(apply)?;
    let client = client(instance);
    let mut fresh = false;
    if !client.look()? {
        request.bundle().documents().map_err(|p| mistakes(&p))?;
        start(instance, &client, starting)?;
        // A node that adopts the objects of a killed node already has a revision.
        fresh = client.get::<NodeInfo>("/v1/node")?.revision == 0;
    } else {
        let Starting { metrics, workers, listen, ssh, .. } = starting;
        let found = client.get::<NodeInfo>("/v1/node")?;
        if let Some(wanted) = metrics.filter(|at| found.metrics_at != Some(at.to_string())) {
            eprintln!("europa: a node runs already, and does not serve metrics at {wanted}");
        }
        if let Some(wanted) = listen.filter(|at| found.listens_at != Some(at.to_string())) {
            eprintln!("europa: a node runs already, and does not take requests at {wanted}");
        }
        if let Some(wanted) = ssh.filter(|at| found.ssh_at != Some(at.to_string())) {
            eprintln!("europa: a node runs already, and takes no logins at {wanted}");
        }
        if let Some(wanted) = workers.filter(|wanted| *wanted != found.workers) {
            let there = found.workers;
            eprintln!(
                "europa: a node runs already, and its switch has {there} workers, not {wanted}"
            );
        }
    }
    let applied = send(&client, &request);
    if fresh && (applied.is_err() || apply.dry_run) {
        // A node without a configuration is ended.
        let _ = client.post::<Said>("/v1/down", &Value::Null);
    }
    show(apply, &applied?)
}

/// Starts a node with the configuration of a file; the caller prints the result.
pub(crate) fn up_silently(instance: &Instance, file: &Path) -> Result<Applied, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err("this needs root: it attaches eBPF programs to devices".into());
    }
    let apply =
        Apply { files: Files::of(file.to_owned()), dry_run: false, prune: true, json: false };
    let request = request(&apply)?;
    let client = client(instance);
    if !client.look()? {
        request.bundle().documents().map_err(|p| mistakes(&p))?;
        start(instance, &client, &Starting::default())?;
    }
    let applied = send(&client, &request);
    if applied.is_err() {
        let _ = client.post::<Said>("/v1/down", &Value::Null);
    }
    applied
}

/// Ends a node, or removes the remains of a killed one, and prints nothing.
pub(crate) fn down_silently(instance: &Instance) -> Result<(), Failure> {
    let client = client(instance);
    if client.look()? {
        client.post::<Said>("/v1/down", &Value::Null)?;
    } else {
        europa_node::clean_up(instance)?;
    }
    Ok(())
}

pub(crate) fn apply(instance: &Instance, apply: &Apply) -> Result<ExitCode, Failure> {
    let request = request(apply)?;
    let applied = send(&client(instance), &request)?;
    show(apply, &applied)
}

/// Shows the changes of `apply`.
pub(crate) fn diff(
    instance: &Instance,
    apply: &Apply,
    exit_code: bool,
) -> Result<ExitCode, Failure> {
    let applied = send(&client(instance), &request(apply)?)?;
    print(&applied, apply.json, true)?;
    let differs = exit_code && !applied.changes.is_empty();
    Ok(if differs { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
}

fn mistakes(problems: &europa_api::Problems) -> Failure {
    Failure::configuration(problems.render(errors_in_colour()))
}

fn send(client: &Client, request: &ApplyRequest) -> Result<Applied, Failure> {
    let progress = Progress::new(if request.dry_run { "checking" } else { "applying" });
    let applied = client.post("/v1/apply", request);
    progress.end();
    Ok(applied?)
}

/// Reads the files, and the files that they name.
pub(crate) fn request(apply: &Apply) -> Result<ApplyRequest, Failure> {
    let mut paths = Vec::new();
    let mut sources = Vec::new();
    for file in apply.files.all() {
        if file.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            sources.push(Source { path: "standard input".into(), text });
        } else if file.is_dir() {
            paths.extend(yaml_files(file)?);
        } else {
            paths.push(file.clone());
        }
    }
    let read = europa_api::read(&paths).map_err(|problems| mistakes(&problems))?;
    let mut bundle = Bundle::of(sources);
    bundle.sources.extend(read.sources);
    bundle.files.extend(read.files);
    bundle.compile(|source, _| compile::object_for_document(source));
    Ok(ApplyRequest {
        dry_run: apply.dry_run,
        prune: apply.prune,
        colour: errors_in_colour(),
        ..bundle.into()
    })
}

/// The YAML files of a directory, in the order of their names.
fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::from(format!("{}: {error}", directory.display()));
    let entries = fs::read_dir(directory).map_err(failed)?;
    let is_yaml = |path: &PathBuf| {
        // Editors keep locks and copies beside a file, under names that begin with a dot.
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[..1] == *b".");
        !is_hidden
            && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
    };
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_yaml).collect();
    files.sort();
    if files.is_empty() {
        return Err(
            format!("{}: this directory has no .yaml or .yml file", directory.display()).into()
        );
    }
    Ok(files)
}

/// Starts a node in the background and waits until it listens.
fn start(instance: &Instance, client: &Client, starting: &Starting) -> Result<(), Failure> {
    fs::create_dir_all(instance.logs())?;
    let path = instance.log("node");
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let before = log.metadata()?.len();
    let mut node = Command::new("/proc/self/exe")
        // Without this, `ps` would show the path of this link.
        .arg0("europa")
        .arg("--instance")
        .arg(instance.name())
        .arg("node")
        .arg("--temporary")
        .args(starting.metrics.map(|at| format!("--metrics={at}")))
        .args(starting.workers.map(|workers| format!("--workers={workers}")))
        .args(starting.listen.map(|at| format!("--listen={at}")))
        .args(starting.ssh.map(|at| format!("--ssh={at}")))
        .args(file("--tls-cert", &starting.tls_cert)?)
        .args(file("--tls-key", &starting.tls_key)?)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .map_err(|error| format!("starting the node: {error}"))?;
    let mut ended = || node.try_wait().is_ok_and(|exit| exit.is_some());
    if await_node(client, PATIENCE, &mut ended) {
        return Ok(());
    }
    let log = fs::read(&path).unwrap_or_default();
    let said = log.get(usize::try_from(before).unwrap_or(0)..).unwrap_or(&log);
    let said = String::from_utf8_lossy(said);
    Err(format!("the node did not start:\n{}", said.trim_end()).into())
}

/// The value of an option that names a file, as an absolute path: the node runs in another folder.
fn file(option: &str, path: &Option<PathBuf>) -> Result<Option<String>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let path = std::path::absolute(path)?;
    Ok(Some(format!("{option}={}", path.display())))
}

pub(crate) fn down(instance: &Instance) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let lines = if client.look()? {
        let progress = Progress::new("taking everything down");
        let said = client.post::<Said>("/v1/down", &Value::Null);
        progress.end();
        said?.lines
    } else {
        // No node runs: remove the remains of a killed one.
        let said = europa_node::clean_up(instance)?;
        match said.is_empty() {
            true => vec![format!("node `{}` does not run", instance.name())],
            false => said,
        }
    };
    for line in lines {
        line!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

fn show(apply: &Apply, applied: &Applied) -> Result<ExitCode, Failure> {
    print(applied, apply.json, true)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn print(applied: &Applied, json: bool, summary: bool) -> Result<(), Failure> {
    if json {
        line!("{}", serde_json::to_string_pretty(applied)?);
        return Ok(());
    }
    out!("{}", change_lines(applied, Colours::stdout()));
    if summary {
        line!("{}", counted(applied));
    }
    Ok(())
}

/// The changes: a line for each object, and a line for each field.
fn change_lines(applied: &Applied, colours: Colours) -> String {
    let mut text = String::new();
    for change in &applied.changes {
        let Change { action, kind, name, how, fields } = change;
        let how = how.as_ref().map_or(String::new(), |how| format!(" ({how})"));
        let line = |mark: &str| format!("{mark} {kind} {name}{how}");
        text += &match action {
            Action::Add => colours.green(&line("+")),
            Action::Change => colours.yellow(&line("~")),
            Action::Remove => colours.red(&line("-")),
        };
        text += "\n";
        for field in fields {
            text += &field_lines(field, colours);
        }
    }
    if applied.dry_run && !applied.steps.is_empty() {
        text += "steps:\n";
        for (number, step) in (1..).zip(&applied.steps) {
            text += &format!("  {number}. {}\n", plain(step));
        }
    }
    for warning in &applied.warnings {
        text += &format!("{} {warning}\n", colours.yellow("warning:"));
    }
    text
}

fn field_lines(field: &FieldChange, colours: Colours) -> String {
    let FieldChange { path, before, after } = field;
    if let (Some(Value::String(old)), Some(Value::String(new))) = (before, after)
        && (old.contains('\n') || new.contains('\n'))
    {
        return format!("    {path}:\n{}", lines(old, new, colours));
    }
    let line = match (before, after) {
        (None, Some(after)) => colours.green(&format!("  + {path}: {}", short(after))),
        (Some(before), None) => colours.red(&format!("  - {path}: {}", short(before))),
        (before, after) => {
            let [before, after] = [before, after].map(|value| value.as_ref().map(whole));
            let (before, after) =
                around_difference(&before.unwrap_or_default(), &after.unwrap_or_default());
            format!("    {path}: {before} -> {after}")
        }
    };
    line + "\n"
}

/// Lines in which two texts differ.
fn lines(old: &str, new: &str, colours: Colours) -> String {
    let mut text = String::new();
    for (mark, line) in text_difference::difference(old, new) {
        let line = format!("      {mark} {}", plain(line));
        text += &if mark == '-' { colours.red(&line) } else { colours.green(&line) };
        text.push('\n');
    }
    text
}

/// A value in one line.
fn whole(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

/// Two values; long values are shown from shortly before their first difference.
fn around_difference(before: &str, after: &str) -> (String, String) {
    let longest = before.chars().count().max(after.chars().count());
    let same = before.chars().zip(after.chars()).take_while(|(a, b)| a == b).count();
    let skipped = if longest <= MOST_SHOWN { 0 } else { same.saturating_sub(SHOWN_BEFORE) };
    let part = |text: &str| {
        let part: String = text.chars().skip(skipped).take(MOST_SHOWN).collect();
        let is_cut = text.chars().count() > skipped + MOST_SHOWN;
        format!("{}{part}{}", if skipped > 0 { "…" } else { "" }, if is_cut { "…" } else { "" })
    };
    (part(before), part(after))
}

fn short(value: &Value) -> String {
    let text = whole(value);
    if text.chars().count() <= MOST_SHOWN {
        return text;
    }
    text.chars().take(MOST_SHOWN).collect::<String>() + "…"
}

fn counted(applied: &Applied) -> String {
    let count = |action| applied.changes.iter().filter(|change| change.action == action).count();
    let counts = format!(
        "{} added, {} changed, {} removed, {} unchanged",
        count(Action::Add),
        count(Action::Change),
        count(Action::Remove),
        applied.unchanged
    );
    if applied.dry_run { format!("dry run, nothing was changed: {counts}") } else { counts }
}

/// A spinner with the elapsed time, on a terminal, for a request that takes longer than a second.
pub(crate) struct Progress {
    done: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Progress {
        let (done, wait) = channel();
        let turn = move || {
            if wait.recv_timeout(SHOW_AFTER) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::new_spinner().with_message(what);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            let _ = wait.recv();
            bar.finish_and_clear();
        };
        let terminal = std::io::stderr().is_terminal();
        Progress { done, thread: terminal.then(|| thread::spawn(turn)) }
    }

    pub(crate) fn end(self) {
        drop(self.done);
        if let Some(thread) = self.thread {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let value = |hello: u32| {
            json!([{"path": "/etc/frr/ospfd.conf",
            "text": format!("hostname r1\nip ospf network point-to-point\nhello {hello}\nend")}])
        };
        let (before, after) = around_difference(&whole(&value(1)), &whole(&value(2)));
        assert_eq!(before, "…int-to-point\\nhello 1\\nend\"}]");
        assert_ne!(before, after);
        assert_eq!(around_difference("a", "b"), ("a".to_owned(), "b".to_owned()));
        let long = "x".repeat(100);
        let (before, after) = around_difference(&long, "");
        assert_eq!((before.chars().count(), after.as_str()), (MOST_SHOWN + 1, ""));
    }

    #[test]
    fn changes_as_they_are_shown() {
        let field = |path: &str, before: Option<Value>, after: Option<Value>| FieldChange {
            path: path.into(),
            before,
            after,
        };
        let applied = Applied {
            changes: vec![
                Change {
                    action: Action::Change,
                    kind: "router".into(),
                    name: "red/r1".into(),
                    how: Some("in place".into()),
                    fields: vec![
                        field(
                            "fast_path.routes[10.0.0.0/8].via",
                            Some(json!("a")),
                            Some(json!("b")),
                        ),
                        field("mtu", None, Some(json!(9000))),
                        field("click", Some(json!("x;\ny;\n")), Some(json!("x;\nz;\n"))),
                    ],
                },
                Change {
                    action: Action::Remove,
                    kind: "port".into(),
                    name: "left".into(),
                    how: None,
                    fields: Vec::new(),
                },
            ],
            unchanged: 2,
            ..Applied::default()
        };
        let wanted = "~ router red/r1 (in place)\n    \
                      fast_path.routes[10.0.0.0/8].via: a -> b\n  + mtu: 9000\n    click:\n      \
                      - y;\n      + z;\n- port left\n";
        assert_eq!(change_lines(&applied, Colours::none()), wanted);
        assert_eq!(counted(&applied), "0 added, 1 changed, 1 removed, 2 unchanged");
    }
}
