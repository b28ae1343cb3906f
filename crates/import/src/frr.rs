//! Runs a node's FRR in a slow path: that of the image or of Debian, with the node's files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::Notes;
use crate::interface::text;
use crate::node::Node;

const FOLDER: &str = "/etc/frr";
/// The folder of FRR's daemons.
const PROGRAMS: &str = "/usr/lib/frr";
/// All daemons that a file may enable.
const DAEMONS: [&str; 17] = [
    "bgpd", "ospfd", "ospf6d", "ripd", "ripngd", "isisd", "pimd", "pim6d", "ldpd", "nhrpd",
    "eigrpd", "babeld", "pbrd", "vrrpd", "fabricd", "pathd", "bfdd",
];

/// Starts the daemons that `daemons` enables, and loads `frr.conf`. It runs as long as FRR's own
/// supervisor, and prints the log of the daemons, which have no terminal.
const START: &str = "install -o frr -m 640 /dev/null /run/frr/log && \
     export frr_global_options='--log file:/run/frr/log' && \
     /usr/lib/frr/frrinit.sh start && touch /run/frr/started && \
     exec tail --pid=$(cat /run/frr/watchfrr.pid) -n +1 -f /run/frr/log";
/// The same for an image, whose programs may differ from this machine's: BusyBox has no `tail
/// --pid`.
const START_IN_IMAGE: &str = "install -o frr -m 640 /dev/null /run/frr/log && \
     export frr_global_options='--log file:/run/frr/log' && \
     /usr/lib/frr/frrinit.sh start && touch /run/frr/started && \
     { tail -n +1 -f /run/frr/log & \
     while [ -d /proc/$(cat /run/frr/watchfrr.pid) ]; do sleep 1; done; kill $!; exit 1; }";
/// Waits until FRR runs, because `vtysh` finds no daemon before.
const WAIT: &str = "n=0; until [ -e /run/frr/started ] || [ $n -ge 600 ]; do sleep 0.1; \
     n=$((n+1)); done";
/// Reloads FRR's daemons from `daemons` and `frr.conf`, in place.
const RELOAD: &str = "[/usr/lib/frr/frrinit.sh, reload]";

/// The slow path of a node that runs FRR, as YAML. `devices` are shell commands that make devices
/// before FRR starts; `lines` are commands to run afterwards.
pub(crate) fn slow_path(
    node: &Node,
    folder: &Path,
    (devices, lines): (&[String], &[String]),
    notes: &mut Notes,
) -> String {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut add = |from: String, to: String| {
        // A later bind hides the files of an earlier one.
        files.retain(|(_, other)| *other != to);
        files.push((from, to));
    };
    for (line, bind) in &node.binds {
        let mut parts = bind.split(':');
        let (Some(from), Some(to)) = (parts.next(), parts.next()) else {
            notes.add(*line, format!("node {}: the bind {bind:?} is none", node.name));
            continue;
        };
        let (from, to) = (absolute(folder, from), to.trim_end_matches('/'));
        match fs::read_dir(&from) {
            Ok(entries) => {
                let mut names: Vec<String> = entries
                    .flatten()
                    .filter(|entry| entry.path().is_file())
                    .filter_map(|entry| entry.file_name().into_string().ok())
                    .collect();
                names.sort();
                for name in names {
                    add(format!("{from}/{name}"), format!("{to}/{name}"));
                }
            }
            Err(_) if to == FOLDER => {
                let message = format!("node {}: the files of {from} cannot be listed", node.name);
                notes.add(*line, message);
            }
            Err(_) => add(from, to.to_owned()),
        }
    }
    if let Some((_, file)) = &node.startup_config {
        add(absolute(folder, file), format!("{FOLDER}/frr.conf"));
    }
    let has = |name: &str| files.iter().any(|(_, to)| *to == format!("{FOLDER}/{name}"));
    if !files.iter().any(|(_, to)| to.starts_with(FOLDER) && to.ends_with(".conf")) {
        notes.add(node.line, format!("node {}: FRR without a configuration", node.name));
    }
    let root = node.root.as_deref().unwrap_or(Path::new("/"));
    let mut out = format!("slow_path:\n  root: {}\n", text(&root.display().to_string()));
    out += "  files:\n    - {path: /run/frr/, owner: frr}\n";
    out += &format!("    - {{path: {FOLDER}/, owner: frr}}\n");
    for (from, to) in &files {
        let owner = if to.starts_with(FOLDER) { ", owner: frr" } else { "" };
        let mode = if is_program(from) { ", mode: \"0755\"" } else { "" };
        out += &format!("    - {{path: {}, from: {}{owner}{mode}}}\n", text(to), text(from));
    }
    if !has("daemons") {
        let wanted =
            |daemon: &&str| node.daemons.is_empty() || node.daemons.iter().any(|d| d == daemon);
        // A daemon that this machine's FRR lacks prevents the start of the others.
        let programs = Path::new(PROGRAMS);
        let is_unknown = node.root.is_some() || !programs.exists();
        let is_there = |daemon: &&&str| is_unknown || programs.join(daemon).exists();
        let all = DAEMONS.iter().filter(|daemon| wanted(daemon)).filter(is_there);
        let lines: String = all.map(|daemon| format!("{daemon}=yes\n")).collect();
        out += &format!("    - {{path: {FOLDER}/daemons, text: {}, owner: frr}}\n", text(&lines));
    }
    if !has("vtysh.conf") {
        out += &format!("    - {{path: {FOLDER}/vtysh.conf, owner: frr}}\n");
    }
    out += &format!(
        "  run:\n    - name: frr\n      command: [sh, -c, {}]\n      reload: {RELOAD}\n      \
         capabilities: [sys_admin]\n",
        text(
            &devices
                .iter()
                .map(|line| format!("{line}\n"))
                .chain([if node.root.is_some() { START_IN_IMAGE } else { START }.to_owned()])
                .collect::<String>()
        )
    );
    if !lines.is_empty() {
        out += &format!(
            "    - name: exec\n      command: [sh, -c, {}]\n      needs: [frr]\n      restart: never\n",
            text(&script(lines))
        );
    }
    out
}

/// Joins lines into one shell script, which continues after a failed line. The script's exit code
/// is the last one that is not 0. It becomes an event; the log names the line.
fn script(lines: &[String]) -> String {
    let mut script = format!("{WAIT}\nfailed=0\n");
    for line in lines {
        script += &format!("command eval {}\n", quoted(line));
        script += &format!(
            "code=$?; if [ $code -ne 0 ]; then failed=$code; printf '%s (code %s)\\n' {} $code >&2; fi\n",
            quoted(&format!("failed: {line}"))
        );
    }
    script + "echo $failed > /run/frr/lines\nexit $failed"
}

/// Whether a file can be executed.
fn is_program(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The absolute path of a file of the topology, so that the configuration can be used in any
/// folder.
pub(crate) fn absolute(folder: &Path, file: &str) -> String {
    if let (Some(rest), Some(home)) = (file.strip_prefix("~/"), std::env::var_os("HOME")) {
        return Path::new(&home).join(rest).display().to_string();
    }
    folder.join(file).display().to_string()
}

/// A word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ':');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
