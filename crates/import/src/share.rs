//! Nodes that share the network of another node: `network-mode: container:NODE`. They become part
//! of that node's object, and their lines run there.

use crate::node::{Kind, Node};
use crate::{LabNode, Notes};

/// The lab's node with a network, by its own name or that of its container.
fn target<'a>(nodes: &'a mut [Node], lab: &str, name: &str) -> Option<&'a mut Node> {
    let own = name.strip_prefix(&format!("clab-{lab}-")).unwrap_or(name);
    nodes.iter_mut().find(|node| {
        let runs = matches!(node.kind, Kind::Linux | Kind::Frr);
        runs && node.shares.is_none() && (node.name == name || node.name == own)
    })
}

/// Removes the nodes that share a network from `nodes`, and adds their lines, binds and variables
/// to the nodes with these networks. Returns each removed node with the name of the node that it
/// joins.
pub(crate) fn join(nodes: &mut Vec<Node>, lab: &str, notes: &mut Notes) -> Vec<(Node, String)> {
    let (sharing, mut others): (Vec<Node>, Vec<Node>) =
        std::mem::take(nodes).into_iter().partition(|node| node.shares.is_some());
    let mut joined = Vec::new();
    for mut node in sharing {
        let Some((line, name)) = node.shares.take() else { continue };
        match target(&mut others, lab, &name) {
            Some(into) => {
                let message = format!(
                    "node {} shares the network of {}: its commands run there, with the files of both",
                    node.name, into.name
                );
                notes.add(line, message);
                into.exec.extend(node.exec.iter().cloned());
                into.binds.extend(node.binds.iter().cloned());
                for (variable, value) in &node.env {
                    into.env.entry(variable.clone()).or_insert_with(|| value.clone());
                }
                joined.push((node, into.name.clone()));
            }
            None => {
                let message = format!(
                    "node {}: the lab has no node {name} to share a network with",
                    node.name
                );
                notes.add(line, message);
                others.push(node);
            }
        }
    }
    *nodes = others;
    joined
}

/// Adds the nodes that share a network to the nodes that are objects.
pub(crate) fn add(known: &mut Vec<LabNode>, joined: &[(Node, String)]) {
    for (node, name) in joined {
        let Some(into) = known.iter().find(|one| one.name == *name) else { continue };
        let (kind, image) = node.said.clone();
        known.push(LabNode { name: node.name.clone(), kind, image, ..into.clone() });
    }
}
