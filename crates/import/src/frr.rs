//! How a node's FRR is started: Debian's, in the host's namespaces, with the node's files.

use std::path::Path;

use crate::Notes;
use crate::node::{Kind, Lined, Node};

const FOLDER: &str = "/etc/frr";
/// All that an FRR may be asked for, but for those that need more than a namespace.
const DAEMONS: [&str; 14] = [
    "bgpd", "ospfd", "ospf6d", "ripd", "ripngd", "isisd", "pimd", "pim6d", "nhrpd", "eigrpd",
    "babeld", "vrrpd", "pathd", "bfdd",
];

/// Commands that put the node's files in place, for this host alone, and start FRR; none
/// for other nodes. What else is bound is left in `others`.
pub(crate) fn commands(
    node: &Node,
    folder: &Path,
    others: &mut Vec<Lined>,
    notes: &mut Notes,
) -> Vec<String> {
    let mut files = Vec::new();
    for (line, bind) in &node.binds {
        let mut parts = bind.split(':');
        match (parts.next(), parts.next()) {
            (Some(from), Some(to)) if node.kind == Kind::Frr && to.starts_with(FOLDER) => {
                files.push((absolute(folder, from), to.to_owned()));
            }
            _ => others.push((*line, bind.clone())),
        }
    }
    if node.kind != Kind::Frr {
        return Vec::new();
    }
    if let Some((_, file)) = &node.startup_config {
        files.push((absolute(folder, file), format!("{FOLDER}/frr.conf")));
    }
    let has = |name: &str| files.iter().any(|(_, to)| to == name);
    let whole = has(FOLDER) || has(&format!("{FOLDER}/"));
    if !whole && !files.iter().any(|(_, to)| to.ends_with(".conf")) {
        notes.add(node.line, format!("node {}: FRR without a configuration", node.name));
    }
    let mut commands = vec![
        // Mounts of a host's commands are its own: nobody else's FRR sees these.
        format!(
            "mount -t tmpfs tmpfs {FOLDER} && mkdir -p /run/frr && mount -t tmpfs tmpfs /run/frr"
        ),
    ];
    for (from, to) in &files {
        let to = to.trim_end_matches('/');
        let dots = if to == FOLDER { "/." } else { "" };
        commands.push(format!("cp -r {}{dots} {to}", quoted(from)));
    }
    if !whole && !has(&format!("{FOLDER}/daemons")) {
        let wanted =
            |daemon: &&str| node.daemons.is_empty() || node.daemons.iter().any(|d| d == daemon);
        let lines: Vec<String> =
            DAEMONS.iter().filter(|d| wanted(d)).map(|daemon| format!("{daemon}=yes")).collect();
        commands.push(format!("printf '%s\\n' {} > {FOLDER}/daemons", lines.join(" ")));
    }
    commands.push(format!("touch {FOLDER}/vtysh.conf"));
    commands.push(format!("chown -R frr:frr {FOLDER} /run/frr"));
    commands.push("/usr/lib/frr/frrinit.sh start".to_owned());
    commands
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
