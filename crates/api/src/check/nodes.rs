//! Checks machines of a cluster, and the objects that name one.

use std::collections::HashMap;

use crate::decode::nearest;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::problem::Problem;
use crate::source::At;
use crate::values::Name;

/// Nodes must have different addresses, `node` must name one of them, and a router's ports must be
/// on its node.
pub(super) fn all(draft: &Draft, problems: &mut Vec<Problem>) {
    let documents = &draft.documents;
    let mut addresses = HashMap::new();
    for node in &documents.nodes {
        if let Some(first) = addresses.insert(node.address.value, node.address.place) {
            let message = format!("two nodes have the address {}", node.address);
            let problem = Problem::new(node.address.place, message).label("the second");
            problems.push(problem.also(first, "the first"));
        }
    }
    // A node without a cluster has only its own name, and checks it itself.
    if !documents.nodes.is_empty() && !draft.nameless.contains("node") {
        problems.extend(documents.pins().filter_map(|pin| unknown(pin, draft)));
    }
    routers(documents, problems);
}

fn unknown(pin: &At<Name>, draft: &Draft) -> Option<Problem> {
    if draft.declared.contains(&("node".to_owned(), pin.to_string())) {
        return None;
    }
    let names = draft.declared.iter().filter(|(kind, _)| kind == "node").map(|(_, n)| n.as_str());
    let problem = Problem::new(pin.place, format!("there is no node {:?}", pin.to_string()))
        .label("unknown node");
    Some(match nearest(pin, names) {
        Some(near) => problem.help(format!("did you mean {near:?}?")),
        None => problem.help(format!("add a document: kind: node, name: {pin}")),
    })
}

/// Checks routers and their ports, if both name a node.
fn routers(documents: &Documents, problems: &mut Vec<Problem>) {
    let ports = documents.ports.iter().filter_map(|port| Some((&**port.name, port.node.as_ref()?)));
    let of_hosts = documents.hosts.iter().flat_map(|host| {
        let ports = host.interfaces.0.iter().filter_map(|(_, i)| i.port.as_ref());
        ports.filter_map(|port| Some((&***port, host.node.as_ref()?)))
    });
    let ports: HashMap<&str, &At<Name>> = ports.chain(of_hosts).collect();
    for router in &documents.routers {
        let Some(own) = &router.node else { continue };
        for (_, interface) in &router.interfaces.0 {
            let Some(port) = &interface.port else { continue };
            let Some(at) = ports.get(&***port).filter(|at| at.value != own.value) else { continue };
            let message =
                format!("router {} is on node {own}, its port {port} on {at}", router.full_name());
            problems.push(
                Problem::new(port.place, message)
                    .label(format!("a port of node {at}"))
                    .also(own.place, "the router's node")
                    .help("join them by a link, which may lead from one node to another"),
            );
        }
    }
}
