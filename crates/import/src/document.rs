//! Europa's documents, as text.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

use crate::command::{Meaning, read};
use crate::frr;
use crate::interface::{Interface, alone, stub, text, written};
use crate::link::{Dummy, Links};
use crate::link::{End, MACHINE};
use crate::names::{Names, interface};
use crate::node::{Kind, Node};
use crate::{LabNode, Notes, Object};

/// The largest MTU of Europa.
const MOST_MTU: u32 = 9216;

/// Interfaces by the node's old name, in the order of the links.
type Interfaces = BTreeMap<String, Vec<(String, Interface)>>;

/// The text, the slice's name, and the lab's nodes that are objects in it.
type Written = (String, String, Vec<LabNode>);

/// Writes the documents.
pub(crate) fn write(
    name: &str,
    nodes: &[Node],
    links: &Links,
    folder: &Path,
    notes: &mut Notes,
) -> Written {
    let mut names = Names::default();
    let mut known_nodes = Vec::new();
    let slice = Names::default().of(name);
    let mut interfaces = Interfaces::new();
    let mut link_names = Names::default();
    let mut cables = String::new();
    let known = |end: &End| end.node == MACHINE || nodes.iter().any(|node| node.name == end.node);
    for link in &links.pairs {
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
        // The programs at the link's ends set addresses.
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
    for dummy in &links.dummies {
        if !nodes.iter().any(|node| node.name == dummy.end.node) {
            let message = format!("a link to {} is left out, as that node is", dummy.end.node);
            notes.add(dummy.line, message);
        }
    }
    let mut out = format!("# Made from the containerlab topology {name}.\n");
    if nodes.iter().any(|node| matches!(node.kind, Kind::Bridge | Kind::Frr)) {
        out += &format!("kind: slice\nname: {slice}\n");
    }
    out += &cables;
    let mut without: Vec<&Node> = nodes.iter().filter(|node| node.root.is_none()).collect();
    without.retain(|node| matches!(node.kind, Kind::Linux | Kind::Frr));
    if let Some(first) = without.first() {
        let mut images: Vec<&str> = without.iter().map(|node| &*node.said.1).collect();
        images.retain(|image| !image.is_empty());
        images.sort_unstable();
        images.dedup();
        let names = images.join(", ");
        let help = "commands use this machine's programs and files; an archive of `docker save` is \
                    given by --image NAME=PATH";
        notes.add(first.line, format!("no file is given for images ({names}): {help}"));
    }
    for node in nodes {
        let new = names.of(&node.name);
        if new != node.name {
            notes.add(node.line, format!("node {} is called {new}", node.name));
        }
        let own = interfaces.remove(&node.name).unwrap_or_default();
        let mut dummies: Vec<&Dummy> =
            links.dummies.iter().filter(|dummy| dummy.end.node == node.name).collect();
        let mut own = own;
        let mut far_end = String::new();
        if own.is_empty() && node.kind == Kind::Frr {
            let first = (!dummies.is_empty()).then(|| dummies.remove(0));
            let link = link_names.new_one(&format!("{}-unused", node.name));
            own.push(alone(first, &link));
            far_end = stub(&names.new_one(&format!("{new}-unused")), &link);
        }
        if own.is_empty() && !matches!(node.kind, Kind::Linux | Kind::Frr) {
            notes.add(node.line, format!("node {}: no link ends here: left out", node.name));
            continue;
        }
        let before = out.len();
        out += "---\n";
        out += &match node.kind {
            Kind::Bridge => bridge(&new, &slice, &own),
            Kind::Frr => router(node, &new, &slice, (own, &dummies), folder, notes),
            _ => host(node, &new, (own, &dummies), folder, notes),
        };
        out += &far_end;
        known_nodes.push(LabNode {
            name: node.name.clone(),
            kind: node.said.0.clone(),
            image: node.said.1.clone(),
            runs: out[before..].contains("\nrun:\n") || out[before..].contains("- name: exec\n"),
            env: node.env.iter().map(|(name, (_, value))| (name.clone(), value.clone())).collect(),
            object: match node.kind {
                Kind::Frr => Object::Router(format!("{slice}/{new}")),
                Kind::Linux => Object::Host(new),
                _ => Object::None,
            },
        });
    }
    if let Some(own) = interfaces.remove(MACHINE) {
        out += &format!(
            "---\n# The machine itself.\nkind: host\nname: {}\nnamespace: /proc/1/ns/net\n",
            names.new_one("machine")
        );
        out += &written(&own);
    }
    (out, slice, known_nodes)
}

/// A bridge becomes a router that bridges.
fn bridge(name: &str, slice: &str, own: &[(String, Interface)]) -> String {
    let mut out = format!("kind: router\nname: {name}\nslice: {slice}\ninterfaces:\n");
    for (name, interface) in own {
        let mtu = interface.mtu.map_or(String::new(), |mtu| format!(", mtu: {mtu}"));
        out += &format!("  {name}: {{link: {}{mtu}}}\n", interface.link);
    }
    out + "fast_path: {builtin: bridge}\n"
}

/// The results of `exec` without addresses.
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
            not_needed(node, *line, command, notes);
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

/// Whether a next hop is in the subnet of an interface. If a command adds that address, the route
/// must be set after the command.
fn is_near(own: &[(String, Interface)], via: Option<IpAddr>) -> bool {
    let Some(via) = via else { return true };
    let link_local = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
    let addresses = own.iter().flat_map(|(_, interface)| &interface.addresses);
    let mut subnets = addresses.filter_map(|address| address.parse::<IpNet>().ok());
    link_local || subnets.any(|subnet| subnet.contains(&via))
}

impl Commands {
    /// Takes the fields that a host's document also has. Returns whether the whole command was
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

/// A router that runs FRR in its slow path.
fn router(
    node: &Node,
    name: &str,
    slice: &str,
    (mut own, dummies): (Vec<(String, Interface)>, &[&Dummy]),
    folder: &Path,
    notes: &mut Notes,
) -> String {
    let devices: Vec<String> = dummies.iter().map(|one| one.command()).collect();
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
            Meaning::Up(on) if own.iter().any(|(name, _)| *name == interface(&on)) => {}
            // The routes belong to Linux, where FRR may also set routes.
            _ => lines.push(command.clone()),
        }
    }
    let mut out = format!("kind: router\nname: {name}\nslice: {slice}\n");
    out += &written(&own);
    out += "fast_path: {builtin: ipv4, routes: kernel}\n";
    out + &frr::slow_path(node, folder, (&devices, &lines), notes)
}

/// Notes that a command about the management network is omitted.
fn not_needed(node: &Node, line: u64, command: &str, notes: &mut Notes) {
    let name = &node.name;
    let message = format!("node {name}: {command:?} is not needed: there is no management network");
    notes.add(line, message);
}

fn host(
    node: &Node,
    new: &str,
    (mut own, dummies): (Vec<(String, Interface)>, &[&Dummy]),
    folder: &Path,
    notes: &mut Notes,
) -> String {
    let Commands { routes, gateways, lines } = commands(node, &mut own, notes);
    let run: Vec<String> = dummies.iter().map(|one| one.command()).chain(lines).collect();
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

/// Files of the topology that a host sees at other paths.
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
