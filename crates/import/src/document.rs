//! Europa's documents, as text.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::{Meaning, read};
use crate::frr;
use crate::host;
use crate::interface::{Interface, alone, stub, written};
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
            _ => host::document(node, &new, (own, &dummies), folder, notes),
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
    lines.extend(node.names.iter().cloned());
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
            Meaning::Management => notes.not_needed(&node.name, *line, command),
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
