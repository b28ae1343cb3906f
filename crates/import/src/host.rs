//! The document of a host, as text.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

use crate::Notes;
use crate::command::{Meaning, read};
use crate::frr;
use crate::interface::{Interface, text, written};
use crate::link::Dummy;
use crate::names::interface;
use crate::node::{Kind, Node};

/// The document of a host.
pub(crate) fn document(
    node: &Node,
    new: &str,
    (mut own, dummies): (Vec<(String, Interface)>, &[&Dummy]),
    folder: &Path,
    notes: &mut Notes,
) -> String {
    let Commands { routes, gateways, lines } = commands(node, &mut own, notes);
    let devices = dummies.iter().map(|one| one.command());
    let run: Vec<String> = node.names.iter().cloned().chain(devices).chain(lines).collect();
    let binds = binds(node, folder, notes);
    let mut out = format!("kind: host\nname: {new}\n");
    match node.kind {
        Kind::External => out += &format!("container: {}\n", text(&node.name)),
        Kind::Machine => out += "namespace: /proc/1/ns/net\n",
        _ => {}
    }
    out += &written(&own);
    if !gateways.is_empty() {
        let all: Vec<String> = gateways.iter().map(|gateway| text(&gateway.to_string())).collect();
        out += &format!("gateway: [{}]\n", all.join(", "));
    }
    if !routes.is_empty() {
        out += &format!("routes:\n  - {}\n", routes.join("\n  - "));
    }
    if node.kind != Kind::Linux {
        if !run.is_empty() || !binds.is_empty() || !node.sysctls.is_empty() || !node.env.is_empty()
        {
            notes.add(
                node.line,
                format!(
                    "node {}: `exec`, `binds`, `env` and `sysctls` need a host of Europa's own",
                    node.name
                ),
            );
        }
        return out;
    }
    if let Some(root) = &node.root {
        out += &format!("root: {}\n", text(&root.display().to_string()));
    }
    out += &command(node, notes);
    out += &sysctls(node, notes);
    if !binds.is_empty() {
        let all: Vec<String> = binds.iter().map(|bind| text(bind)).collect();
        out += &format!("binds:\n  - {}\n", all.join("\n  - "));
    }
    if !node.env.is_empty() {
        let all: Vec<String> = node
            .env
            .iter()
            .map(|(name, (_, value))| format!("{}: {}", text(name), text(value)))
            .collect();
        out += &format!("env: {{{}}}\n", all.join(", "));
    }
    if !run.is_empty() {
        let all: Vec<String> = run.iter().map(|line| text(line)).collect();
        out += &format!("run:\n  - {}\n", all.join("\n  - "));
    }
    out
}

/// The command of a host's container, in place of that of its image. Without the image's files, words
/// that begin with an option are for an entry point that is not there.
fn command(node: &Node, notes: &mut Notes) -> String {
    let first = node.entrypoint.first().or(node.command.first());
    if node.root.is_none() && first.is_some_and(|word| word.starts_with('-')) {
        let message = "`cmd` has options for the program of an image that is not given: left out";
        notes.add(node.line, format!("node {}: {message}", node.name));
        return String::new();
    }
    let list = |words: &[String]| {
        let words: Vec<String> = words.iter().map(|word| text(word)).collect();
        format!("[{}]", words.join(", "))
    };
    let mut out = String::new();
    for (field, words) in [("entrypoint", &node.entrypoint), ("command", &node.command)] {
        if !words.is_empty() {
            out += &format!("{field}: {}\n", list(words));
        }
    }
    // Without a command there is nothing that a user could run, but in an image.
    let user = node.user.as_ref().filter(|_| node.root.is_some() || first.is_some());
    out + &user.map_or(String::new(), |user| format!("user: {}\n", text(user)))
}

/// Files of the topology that a host has at other paths.
fn binds(node: &Node, folder: &Path, notes: &mut Notes) -> Vec<String> {
    let mut binds = Vec::new();
    for (line, bind) in &node.binds {
        let mut parts = bind.split(':');
        let (Some(from), Some(to)) = (parts.next(), parts.next()) else {
            notes.add(*line, format!("node {}: the bind {bind:?} is none", node.name));
            continue;
        };
        // Further options, such as `z`, are for Docker.
        let read_only =
            parts.next().is_some_and(|options| options.split(',').any(|one| one == "ro"));
        let suffix = if read_only { ":ro" } else { "" };
        let is_own = ["/dev", "/proc", "/sys"].iter().any(|own| Path::new(to).starts_with(own));
        if is_own || !to.starts_with('/') || to == "/" || to.split('/').any(|one| one == "..") {
            notes.add(*line, format!("node {}: nothing can be bound to {to} in a host", node.name));
            continue;
        }
        binds.push(format!("{}:{to}{suffix}", frr::absolute(folder, from)));
    }
    binds
}

fn sysctls(node: &Node, notes: &mut Notes) -> String {
    // Docker's containers forward IPv4.
    let mut all = BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]);
    for (name, (line, value)) in &node.sysctls {
        if name.starts_with("net.") {
            all.insert(name.clone(), value.clone());
        } else {
            notes.add(*line, format!("node {}: {name} belongs to the whole machine", node.name));
        }
    }
    let all: Vec<String> =
        all.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
    format!("sysctls: {{{}}}\n", all.join(", "))
}

/// The results of `exec` apart from addresses.
struct Commands {
    routes: Vec<String>,
    gateways: Vec<std::net::IpAddr>,
    /// The commands.
    lines: Vec<String>,
}

/// Reads `exec`; addresses become those of the node's interfaces. From the first line that may
/// change the network in another way, all lines are run unchanged, in their order.
fn commands(node: &Node, own: &mut [(String, Interface)], notes: &mut Notes) -> Commands {
    let mut all = Commands { routes: Vec::new(), gateways: Vec::new(), lines: Vec::new() };
    let mut in_order = false;
    for (line, command) in &node.exec {
        let meaning = read(command);
        if meaning == Meaning::Management {
            notes.not_needed(&node.name, *line, command);
        } else if in_order || !all.takes(own, &meaning) {
            in_order |= changes_network(command);
            all.lines.push(command.clone());
        }
    }
    all
}

/// Whether a command that is run may change addresses, routes or devices.
fn changes_network(command: &str) -> bool {
    let harmless = ["sysctl", "echo", "sleep", "ethtool", "iperf", "ping", "tc", "touch", "mkdir"];
    let first = command.split_whitespace().next().unwrap_or_default();
    let several = command.contains(['|', ';', '&', '`', '\'', '"']) || command.contains("$(");
    several || !harmless.iter().any(|name| first.starts_with(name))
}

/// Whether a next hop is in the subnet of an interface; a route whose next hop needs an address
/// from a command must be set after that command.
fn is_near(own: &[(String, Interface)], via: Option<IpAddr>) -> bool {
    let Some(via) = via else { return true };
    let link_local = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
    let addresses = own.iter().flat_map(|(_, interface)| &interface.addresses);
    let mut subnets = addresses.filter_map(|address| address.parse::<IpNet>().ok());
    link_local || subnets.any(|subnet| subnet.contains(&via))
}

impl Commands {
    /// Takes the fields that a host's document also has. Returns whether all of the command was
    /// taken.
    fn takes(&mut self, own: &mut [(String, Interface)], meaning: &Meaning) -> bool {
        let has = |own: &[(String, Interface)], on: &Option<String>| {
            on.as_ref().is_none_or(|on| own.iter().any(|(name, _)| *name == interface(on)))
        };
        match meaning {
            Meaning::Address { interface: on, address } => {
                // `lo`, a bridge or a VLAN is made by another command.
                let found = own.iter_mut().find(|(name, _)| *name == interface(on));
                let is_own = found.is_some();
                found.into_iter().for_each(|(_, own)| own.addresses.push(address.to_string()));
                is_own
            }
            Meaning::Route { to, via, interface: on } if has(own, on) && is_near(own, *via) => {
                let via =
                    via.map_or(String::new(), |via| format!(", via: {}", text(&via.to_string())));
                let on = on
                    .as_ref()
                    .map_or(String::new(), |on| format!(", interface: {}", interface(on)));
                self.routes.push(format!("{{to: {}{via}{on}}}", text(&to.to_string())));
                true
            }
            Meaning::Gateway { via, interface: on } if has(own, on) && is_near(own, Some(*via)) => {
                let first = self.gateways.iter().all(|one| one.is_ipv4() != via.is_ipv4());
                if first {
                    self.gateways.push(*via);
                }
                first
            }
            Meaning::Up(on) => has(own, &Some(on.clone())),
            _ => false,
        }
    }
}
