//! Nodes with inherited settings. The node's own setting has precedence; then follow those of its
//! group, its kind, and the defaults. Mappings are merged, lists are concatenated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::yaml::{Node as Yaml, Value};
use crate::{ImportError, Notes, container, stages};

/// The object that a node becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A container with the machine's programs: a host.
    Linux,
    /// FRR: a router that runs FRR in its slow path.
    Frr,
    /// A Linux or Open vSwitch bridge: a router that bridges.
    Bridge,
    /// An existing container.
    External,
    /// The machine itself.
    Machine,
}

/// A text and its line.
pub(crate) type Lined = (u64, String);

/// A node of the topology.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) line: u64,
    pub(crate) kind: Kind,
    /// The kind's name, and the image.
    pub(crate) said: (String, String),
    /// The file or folder of its image; `None` for this machine's programs.
    pub(crate) root: Option<PathBuf>,
    /// The node whose network this node shares: `network-mode: container:NODE`.
    pub(crate) shares: Option<Lined>,
    /// Its container's command, in place of the image's: `entrypoint`, `cmd` and `user`.
    pub(crate) entrypoint: Vec<String>,
    pub(crate) command: Vec<String>,
    pub(crate) user: Option<String>,
    /// Shell lines that write names of other machines: `extra-hosts` and `dns`.
    pub(crate) names: Vec<String>,
    pub(crate) exec: Vec<Lined>,
    pub(crate) binds: Vec<Lined>,
    pub(crate) env: BTreeMap<String, Lined>,
    pub(crate) sysctls: BTreeMap<String, Lined>,
    pub(crate) startup_config: Option<Lined>,
    /// Daemons of FRR that are requested by name.
    pub(crate) daemons: Vec<String>,
}

/// Fields without a counterpart, and their treatment.
const WITHOUT: [(&str, &str); 14] = [
    ("ports", "a host has no published ports: reach it through a router"),
    ("cpu", "a host's CPU time is not limited"),
    ("cpu-set", "a host's CPUs are not limited"),
    ("memory", "a host's memory is not limited"),
    ("license", "no counterpart"),
    ("type", "no counterpart"),
    ("network-mode", "a host has a network of its own"),
    ("wait-for", "hosts are made in one step"),
    ("startup-delay", "hosts are made in one step"),
    ("healthcheck", "no counterpart"),
    ("devices", "a host sees the machine's devices"),
    ("cap-add", "commands run with all rights"),
    ("enforce-startup-config", "no counterpart"),
    ("config", "containerlab's templates are not filled in"),
];

/// Fields that mean nothing without images and a management network.
const SILENT: [&str; 24] = [
    "kind",
    "group",
    "image",
    "image-pull-policy",
    "restart-policy",
    "mgmt-ipv4",
    "mgmt-ipv6",
    "mgmt_ipv4",
    "mgmt_ipv6",
    "labels",
    "exec",
    "stages",
    "binds",
    "cmd",
    "dns",
    "entrypoint",
    "env",
    "env-files",
    "extra-hosts",
    "sysctls",
    "user",
    "startup-config",
    "extras",
    "runtime",
];

/// Reads all nodes. `folders` are the topology's, and containerlab's own one of the lab.
pub(crate) fn read(
    topology: &Yaml,
    folders: (&Path, &str),
    notes: &mut Notes,
) -> Result<Vec<Node>, ImportError> {
    for (key, value) in topology.entries() {
        if !matches!(key, "nodes" | "links" | "kinds" | "groups" | "defaults") {
            notes.add(value.line, format!("`{key}` has no counterpart"));
        }
    }
    let nodes = topology.get("nodes").ok_or_else(|| ImportError {
        line: topology.line,
        message: "the topology has no `nodes`".to_owned(),
    })?;
    if !nodes.is_map() {
        let message = "`nodes` is a mapping from names to nodes".to_owned();
        return Err(ImportError { line: nodes.line, message });
    }
    let read =
        nodes.entries().filter_map(|(name, node)| one(name, node, (topology, folders), notes));
    Ok(read.collect())
}

/// Whether the folder of FRR's files has a bind.
fn binds_frr(sources: &[&Yaml]) -> bool {
    let binds = sources.iter().filter_map(|source| source.get("binds")).flat_map(Yaml::items);
    binds.filter_map(Yaml::text).any(|bind| {
        let to = bind.split(':').nth(1).unwrap_or_default();
        Path::new(to).starts_with("/etc/frr")
    })
}

fn one(
    name: &str,
    node: &Yaml,
    (topology, (folder, lab_folder)): (&Yaml, (&Path, &str)),
    notes: &mut Notes,
) -> Option<Node> {
    let defaults = topology.get("defaults");
    let group_name = node.get("group").or_else(|| defaults?.get("group")).and_then(Yaml::text);
    let group = group_name.and_then(|name| topology.get("groups")?.get(name));
    let kind = [Some(node), group, defaults].into_iter().flatten().find_map(|at| at.get("kind"));
    let kind_name = kind.and_then(Yaml::text);
    let of_kind = kind_name.and_then(|name| topology.get("kinds")?.get(name));
    let sources: Vec<&Yaml> =
        [Some(node), group, of_kind, defaults].into_iter().flatten().collect();
    let first = |field: &str| sources.iter().find_map(|source| source.get(field));
    let image = first("image").and_then(Yaml::text).unwrap_or_default();
    let line = node.line;
    let kind = match kind_name {
        Some("frr") => Kind::Frr,
        // The usual form from before containerlab had the kind.
        Some("linux") if image.contains("frrouting") || image.contains("/frr") => Kind::Frr,
        // A custom image with FRR inside.
        Some("linux") if binds_frr(&sources) => Kind::Frr,
        Some("linux") => Kind::Linux,
        Some("bridge" | "ovs-bridge") => Kind::Bridge,
        Some("ext-container") => Kind::External,
        Some("host") => Kind::Machine,
        Some(other) => {
            notes.add(line, format!("node {name}: the kind {other} has no counterpart: left out"));
            return None;
        }
        None => {
            notes.add(line, format!("node {name} has no kind: left out"));
            return None;
        }
    };
    for source in &sources {
        for (field, value) in source.entries() {
            if let Some((_, why)) = WITHOUT.iter().find(|(without, _)| *without == field) {
                // Without a network, `none` has no effect.
                let mode = value.text().filter(|_| field == "network-mode");
                if !mode.is_some_and(|mode| mode == "none" || mode.starts_with("container:")) {
                    notes.add(value.line, format!("node {name}: `{field}`: {why}"));
                }
            } else if !SILENT.contains(&field) {
                notes.add(value.line, format!("node {name}: `{field}` has no counterpart"));
            }
        }
    }
    // The most general settings come first, because later ones override them.
    let list = |field: &str| -> Vec<Lined> {
        let lists = sources.iter().rev().filter_map(|source| source.get(field));
        lists
            .flat_map(Yaml::items)
            .filter_map(|item| Some((item.line, item.text()?.to_owned())))
            .collect()
    };
    let map = |field: &str| -> BTreeMap<String, Lined> {
        let maps = sources.iter().rev().filter_map(|source| source.get(field));
        let entries = maps.flat_map(Yaml::entries);
        entries
            .filter_map(|(key, value)| {
                Some((key.to_owned(), (value.line, value.text()?.to_owned())))
            })
            .collect()
    };
    let daemons = sources
        .iter()
        .find_map(|source| source.get("extras")?.get("frr")?.get("daemons"))
        .map_or(&[][..], Yaml::items);
    if let Some(extras) = first("extras") {
        for (key, value) in extras.entries().filter(|(key, _)| *key != "frr") {
            notes.add(value.line, format!("node {name}: `extras: {key}` has no counterpart"));
        }
    }
    let of_stages = first("stages").map(|stages| stages::lines(name, stages, notes));
    let of_stages = of_stages.unwrap_or_default();
    if matches!(node.value, Value::Text(_) | Value::List(_)) {
        notes.add(line, format!("node {name} is no mapping: taken as empty"));
    }
    // The folder of containerlab's own files for a lab lies next to the topology.
    let fill = |text: String| {
        text.replace("__clabNodeName__", name)
            .replace("__clabNodeDir__", &format!("{lab_folder}/{name}"))
            .replace("__clabDir__", lab_folder)
    };
    let expand = |lined: Lined| (lined.0, fill(lined.1));
    let filled = |map: BTreeMap<String, Lined>| -> BTreeMap<String, Lined> {
        map.into_iter().map(|(key, lined)| (key, expand(lined))).collect()
    };
    let mut env: BTreeMap<String, Lined> =
        container::variables(name, &list("env-files"), folder, notes).into_iter().collect();
    env.extend(map("env"));
    Some(Node {
        name: name.to_owned(),
        line,
        kind,
        said: (kind_name.unwrap_or_default().to_owned(), image.to_owned()),
        root: None,
        shares: first("network-mode").and_then(|mode| {
            Some((mode.line, mode.text()?.strip_prefix("container:")?.to_owned()))
        }),
        entrypoint: container::words(name, "entrypoint", first("entrypoint"), notes),
        command: container::words(name, "cmd", first("cmd"), notes),
        user: first("user").and_then(Yaml::text).map(str::to_owned),
        names: container::names(name, &list("extra-hosts"), first("dns"), notes),
        exec: of_stages.into_iter().chain(list("exec")).map(expand).collect(),
        binds: list("binds").into_iter().map(expand).collect(),
        env: filled(env),
        sysctls: map("sysctls"),
        startup_config: first("startup-config")
            .and_then(|value| Some((value.line, value.text()?.to_owned())))
            .map(expand),
        daemons: daemons.iter().filter_map(|item| item.text().map(str::to_owned)).collect(),
    })
}
