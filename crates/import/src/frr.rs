//! How a node's FRR is run: Debian's, in a slow path, with the node's files.

use std::fs;
use std::path::Path;

use crate::Notes;
use crate::document::text;
use crate::node::Node;

const FOLDER: &str = "/etc/frr";
/// All that an FRR may be asked for, but for those that need more than a namespace.
const DAEMONS: [&str; 14] = [
    "bgpd", "ospfd", "ospf6d", "ripd", "ripngd", "isisd", "pimd", "pim6d", "nhrpd", "eigrpd",
    "babeld", "vrrpd", "pathd", "bfdd",
];

/// Starts what `daemons` asks for and gives it `frr.conf`; stays as long as FRR's own keeper.
const START: &str = "/usr/lib/frr/frrinit.sh start && \
     exec tail --pid=$(cat /run/frr/watchfrr.pid) -f /dev/null";

/// The slow path of a node that runs FRR, as YAML. `lines` are commands for a shell, which run
/// once FRR does.
pub(crate) fn slow_path(node: &Node, folder: &Path, lines: &[String], notes: &mut Notes) -> String {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut add = |from: String, to: String| {
        // What is bound later hides what was there before.
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
        if !to.starts_with(FOLDER) {
            let message =
                format!("node {}: {to} is bound only where it is there on this machine", node.name);
            notes.add(*line, message);
        }
    }
    if let Some((_, file)) = &node.startup_config {
        add(absolute(folder, file), format!("{FOLDER}/frr.conf"));
    }
    let has = |name: &str| files.iter().any(|(_, to)| *to == format!("{FOLDER}/{name}"));
    if !files.iter().any(|(_, to)| to.starts_with(FOLDER) && to.ends_with(".conf")) {
        notes.add(node.line, format!("node {}: FRR without a configuration", node.name));
    }
    let mut out = "slow_path:\n  files:\n    - {path: /run/frr/, owner: frr}\n".to_owned();
    for (from, to) in &files {
        let owner = if to.starts_with(FOLDER) { ", owner: frr" } else { "" };
        out += &format!("    - {{path: {}, from: {}{owner}}}\n", text(to), text(from));
    }
    if !has("daemons") {
        let wanted =
            |daemon: &&str| node.daemons.is_empty() || node.daemons.iter().any(|d| d == daemon);
        let lines: String =
            DAEMONS.iter().filter(|d| wanted(d)).map(|daemon| format!("{daemon}=yes\n")).collect();
        out += &format!("    - {{path: {FOLDER}/daemons, text: {}, owner: frr}}\n", text(&lines));
    }
    if !has("vtysh.conf") {
        out += &format!("    - {{path: {FOLDER}/vtysh.conf, owner: frr}}\n");
    }
    out += &format!(
        "  run:\n    - name: frr\n      command: [sh, -c, {}]\n      capabilities: [sys_admin]\n",
        text(START)
    );
    if !lines.is_empty() {
        out += &format!(
            "    - name: exec\n      command: [sh, -c, {}]\n      restart: never\n",
            text(&lines.join("\n"))
        );
    }
    out
}

/// A file of the topology, wherever the configuration is used.
pub(crate) fn absolute(folder: &Path, file: &str) -> String {
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
