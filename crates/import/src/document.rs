//! Europa's documents, as text.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Notes;
use crate::command::{Meaning, read};
use crate::frr;
use crate::link::{End, Link, MACHINE};
use crate::names::{Names, interface};
use crate::node::{Kind, Node};

/// The largest that Europa knows.
const MOST_MTU: u32 = 9216;

/// An interface of a document.
#[derive(Debug, Default)]
struct Interface {
    link: String,
    mac: Option<String>,
    mtu: Option<u32>,
    addresses: Vec<String>,
}

/// Interfaces by the node's old name, in the order of the links.
type Interfaces = BTreeMap<String, Vec<(String, Interface)>>;

/// A text as YAML, in quotes: JSON is YAML.
pub(crate) fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// Writes everything.
pub(crate) fn write(
    name: &str,
    nodes: &[Node],
    links: &[Link],
    folder: &Path,
    notes: &mut Notes,
) -> String {
    let mut names = Names::default();
    let slice = Names::default().of(name);
    let mut interfaces = Interfaces::new();
    let mut link_names = Names::default();
    let mut cables = String::new();
    let known = |end: &End| end.node == MACHINE || nodes.iter().any(|node| node.name == end.node);
    for link in links {
        if let Some(missing) = link.ends.iter().find(|end| !known(end)) {
            notes
                .add(link.line, format!("a link to {} is left out, as that node is", missing.node));
            continue;
        }
        let mtu = link.mtu.map(|mtu| mtu.min(MOST_MTU));
        if mtu != link.mtu {
            notes.add(link.line, format!("an MTU is at most {MOST_MTU}"));
        }
        let [a, b] = &link.ends;
        let link_name = link_names.new_one(&format!("{}-{}", a.node, b.node));
        // What runs at its ends gives addresses.
        cables += &format!("---\nkind: link\nname: {link_name}\naddresses: none\n");
        for end in &link.ends {
            let name = interface(&end.interface);
            if name != end.interface {
                notes.add(
                    link.line,
                    format!("interface {} of {} is called {name}", end.interface, end.node),
                );
            }
            interfaces.entry(end.node.clone()).or_default().push((
                name,
                Interface {
                    link: link_name.clone(),
                    mac: end.mac.clone(),
                    mtu,
                    addresses: end.addresses.clone(),
                },
            ));
        }
    }
    let mut out = format!("# Made from the containerlab topology {name}.\n");
    if nodes.iter().any(|node| matches!(node.kind, Kind::Bridge | Kind::Frr)) {
        out += &format!("kind: slice\nname: {slice}\n");
    }
    out += &cables;
    if nodes.iter().any(|node| matches!(node.kind, Kind::Linux | Kind::Frr)) {
        let line = nodes.first().map_or(1, |node| node.line);
        notes.add(line, "images are not run: commands use this machine's programs and files");
    }
    for node in nodes {
        let new = names.of(&node.name);
        if new != node.name {
            notes.add(node.line, format!("node {} is called {new}", node.name));
        }
        let own = interfaces.remove(&node.name).unwrap_or_default();
        if own.is_empty() {
            notes.add(node.line, format!("node {}: no link ends here: left out", node.name));
            continue;
        }
        out += "---\n";
        out += &match node.kind {
            Kind::Bridge => bridge(&new, &slice, &own),
            Kind::Frr => router(node, &new, &slice, own, folder, notes),
            _ => host(node, &new, own, folder, notes),
        };
    }
    if let Some(own) = interfaces.remove(MACHINE) {
        out += &format!(
            "---\n# The machine itself.\nkind: host\nname: {}\nnamespace: /proc/1/ns/net\n",
            names.new_one("machine")
        );
        out += &written(&own);
    }
    out
}

/// A bridge is a router that bridges.
fn bridge(name: &str, slice: &str, own: &[(String, Interface)]) -> String {
    let mut out = format!("kind: router\nname: {name}\nslice: {slice}\ninterfaces:\n");
    for (name, interface) in own {
        let mtu = interface.mtu.map_or(String::new(), |mtu| format!(", mtu: {mtu}"));
        out += &format!("  {name}: {{link: {}{mtu}}}\n", interface.link);
    }
    out + "fast_path: {builtin: bridge}\n"
}

fn written(own: &[(String, Interface)]) -> String {
    let mut out = "interfaces:\n".to_owned();
    for (name, interface) in own {
        out += &format!("  {name}: {{link: {}", interface.link);
        if let Some(mac) = &interface.mac {
            out += &format!(", mac: {}", text(mac));
        }
        if let Some(mtu) = interface.mtu {
            out += &format!(", mtu: {mtu}");
        }
        if !interface.addresses.is_empty() {
            let all: Vec<String> = interface.addresses.iter().map(|a| text(a)).collect();
            out += &format!(", addresses: [{}]", all.join(", "));
        }
        out += "}\n";
    }
    out
}

/// What `exec` comes to beside addresses.
struct Commands {
    routes: Vec<String>,
    gateways: Vec<std::net::IpAddr>,
    /// What is run.
    lines: Vec<String>,
}

/// Reads `exec`; addresses become those of the node's interfaces.
fn commands(node: &Node, own: &mut [(String, Interface)], notes: &mut Notes) -> Commands {
    let mut lines = Vec::new();
    let (mut routes, mut gateways) = (Vec::new(), Vec::new());
    for (line, command) in &node.exec {
        match read(command) {
            Meaning::Address { interface: on, address } => {
                match own.iter_mut().find(|(name, _)| *name == interface(&on)) {
                    Some((_, interface)) => interface.addresses.push(address.to_string()),
                    // `lo`, a bridge or a VLAN that another command makes.
                    None => lines.push(command.clone()),
                }
            }
            Meaning::Route { to, via, interface: on } => {
                let on = on.map(|on| interface(&on));
                let known = on.as_ref().is_none_or(|on| own.iter().any(|(name, _)| name == on));
                if !known {
                    lines.push(command.clone());
                    continue;
                }
                let via =
                    via.map_or(String::new(), |via| format!(", via: {}", text(&via.to_string())));
                let on = on.map_or(String::new(), |on| format!(", interface: {on}"));
                routes.push(format!("{{to: {}{via}{on}}}", text(&to.to_string())));
            }
            Meaning::Gateway(via)
                if gateways.iter().all(|g: &std::net::IpAddr| g.is_ipv4() != via.is_ipv4()) =>
            {
                gateways.push(via);
            }
            Meaning::Gateway(_) | Meaning::Run(_) => lines.push(command.clone()),
            Meaning::Nothing => {}
            Meaning::Management => not_needed(node, *line, command, notes),
        }
    }
    Commands { routes, gateways, lines }
}

/// A router that runs FRR in its slow path.
fn router(
    node: &Node,
    name: &str,
    slice: &str,
    mut own: Vec<(String, Interface)>,
    folder: &Path,
    notes: &mut Notes,
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (setting, (line, value)) in &node.sysctls {
        if setting.starts_with("net.") {
            lines.push(format!("sysctl -w {}", frr::quoted(&format!("{setting}={value}"))));
        } else {
            let message = format!("node {}: {setting} belongs to the whole machine", node.name);
            notes.add(*line, message);
        }
    }
    for (variable, (_, value)) in &node.env {
        lines.push(format!("export {variable}={}", frr::quoted(value)));
    }
    for (line, command) in &node.exec {
        match read(command) {
            Meaning::Address { interface: on, address }
                if own.iter().any(|(name, _)| *name == interface(&on)) =>
            {
                let found = own.iter_mut().find(|(name, _)| *name == interface(&on));
                found.into_iter().for_each(|(_, own)| own.addresses.push(address.to_string()));
            }
            Meaning::Management => not_needed(node, *line, command, notes),
            Meaning::Nothing => {}
            // Routes are Linux's, where FRR may have more to say of them.
            _ => lines.push(command.clone()),
        }
    }
    let mut out = format!("kind: router\nname: {name}\nslice: {slice}\n");
    out += &written(&own);
    out += "fast_path: {builtin: ipv4, routes: kernel}\n";
    out + &frr::slow_path(node, folder, &lines, notes)
}

/// Says that a command about the management network is left out.
fn not_needed(node: &Node, line: u64, command: &str, notes: &mut Notes) {
    let name = &node.name;
    let message = format!("node {name}: {command:?} is not needed: there is no management network");
    notes.add(line, message);
}

fn host(
    node: &Node,
    new: &str,
    mut own: Vec<(String, Interface)>,
    folder: &Path,
    notes: &mut Notes,
) -> String {
    let Commands { routes, gateways, lines } = commands(node, &mut own, notes);
    let mut run = binds(node, folder, notes);
    run.extend(lines);
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
        if !run.is_empty() || !node.sysctls.is_empty() || !node.env.is_empty() {
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
    out += &sysctls(node, notes);
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

/// Files of the topology that a host sees in other places.
fn binds(node: &Node, folder: &Path, notes: &mut Notes) -> Vec<String> {
    let mut commands = Vec::new();
    for (line, bind) in &node.binds {
        let line = *line;
        let mut parts = bind.split(':');
        let (Some(from), Some(to)) = (parts.next(), parts.next()) else {
            notes.add(line, format!("node {}: the bind {bind:?} is none", node.name));
            continue;
        };
        notes.add(
            line,
            format!("node {}: {to} is bound only where it is there on this machine", node.name),
        );
        let (from, to) = (frr::quoted(&frr::absolute(folder, from)), frr::quoted(to));
        commands.push(format!("[ ! -e {to} ] || mount --bind {from} {to}"));
    }
    commands
}

fn sysctls(node: &Node, notes: &mut Notes) -> String {
    let mut all = BTreeMap::new();
    for (name, (line, value)) in &node.sysctls {
        if name.starts_with("net.") {
            all.insert(name.clone(), value.clone());
        } else {
            notes.add(*line, format!("node {}: {name} belongs to the whole machine", node.name));
        }
    }
    if all.is_empty() {
        return String::new();
    }
    let all: Vec<String> =
        all.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
    format!("sysctls: {{{}}}\n", all.join(", "))
}
