//! Checks names: each is unique within its kind, and defined if it is used.

use std::collections::HashMap;

use crate::decode::nearest;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::problem::Problem;
use crate::source::{At, Place};

/// Names that are given twice.
pub(super) fn duplicates(documents: &Documents, problems: &mut Vec<Problem>) {
    let mut seen = HashMap::new();
    let mut once = |what: &str, key: String, shown: &str, place: Place| {
        if let Some(first) = seen.insert((what.to_owned(), key), place) {
            problems.push(
                Problem::new(place, format!("there are two {what}s {shown:?}"))
                    .label("the second")
                    .also(first, "the first"),
            );
        }
    };
    for port in &documents.ports {
        once("port", port.name.to_string(), &port.name, port.name.place);
    }
    for slice in &documents.slices {
        once("slice", slice.name.to_string(), &slice.name, slice.name.place);
    }
    for link in &documents.links {
        once("link", link.name.to_string(), &link.name, link.name.place);
    }
    for host in &documents.hosts {
        once("host", host.name.to_string(), &host.name, host.name.place);
        for (_, interface) in &host.interfaces.0 {
            if let Some(port) = &interface.port {
                once("port", port.to_string(), port, port.place);
            }
        }
    }
    for filters in &documents.filters {
        once("filters document", filters.name.to_string(), &filters.name, filters.name.place);
    }
    for flow in &documents.flows {
        once("flow", flow.name.to_string(), &flow.name, flow.name.place);
    }
    for user in &documents.users {
        once("user", user.name.to_string(), &user.name, user.name.place);
    }
    for node in &documents.nodes {
        once("node", node.name.to_string(), &node.name, node.name.place);
    }
    for router in &documents.routers {
        let name = router.full_name();
        once("router", name.clone(), &name, router.name.place);
    }
}

/// Reports SSH keys that two users have: a login could not be assigned to one user.
pub(super) fn ssh_keys(documents: &Documents, problems: &mut Vec<Problem>) {
    let mut seen = HashMap::new();
    for user in &documents.users {
        for key in &user.ssh_keys {
            let Some((first, name)) = seen.insert(key.key(), (key.place, &*user.name)) else {
                continue;
            };
            let message = match *name == *user.name {
                true => format!("this SSH key of user {name} stands there twice"),
                false => "this SSH key has two users".to_owned(),
            };
            problems.push(
                Problem::new(key.place, message).label("the second").also(first, "the first"),
            );
        }
    }
}

/// Reports a device that two objects use: ports, or hosts, which take devices from the node's
/// namespace.
pub(super) fn devices(documents: &Documents, problems: &mut Vec<Problem>) {
    let of_ports = documents.ports.iter().map(|port| {
        let namespace = port.namespace.as_ref().map_or("", |name| name.as_str());
        (port.node.as_deref(), namespace, &port.device)
    });
    let of_hosts = documents.hosts.iter().flat_map(|host| {
        let interfaces = host.interfaces.0.iter();
        let node = host.node.as_deref();
        interfaces.filter_map(move |(_, interface)| Some((node, "", interface.device.as_ref()?)))
    });
    let mut users = HashMap::new();
    for (node, namespace, device) in of_ports.chain(of_hosts) {
        if let Some(first) = users.insert((node, namespace, &device.value), device.place) {
            problems.push(
                Problem::new(device.place, format!("device {:?} has two users", device.value))
                    .label("the second")
                    .also(first, "the first"),
            );
        }
    }
}

/// Reports names of slices and ports that no document defines.
pub(super) fn references(draft: &Draft, problems: &mut Vec<Problem>) {
    let mut known = |kind: &'static str, name: &At<crate::values::Name>| {
        let declared = draft.declared.contains(&(kind.to_owned(), name.to_string()));
        if declared || draft.nameless.contains(kind) {
            return;
        }
        let names = draft.declared.iter().filter(|(k, _)| k == kind).map(|(_, n)| n.as_str());
        let problem =
            Problem::new(name.place, format!("there is no {kind} {:?}", name.to_string()))
                .label(format!("unknown {kind}"));
        problems.push(match nearest(name, names) {
            Some(near) => problem.help(format!("did you mean {near:?}?")),
            None => problem.help(format!("add a document: kind: {kind}, name: {name}")),
        });
    };
    for slice in &draft.documents.slices {
        let parts = slice.reservation.iter().flat_map(|reservation| &reservation.ports.0);
        parts.for_each(|(port, _)| known("port", port));
    }
    for filters in &draft.documents.filters {
        known("slice", &filters.slice);
    }
    for flow in &draft.documents.flows {
        known("slice", &flow.slice);
    }
    for user in &draft.documents.users {
        user.roles.0.iter().for_each(|(slice, _)| known("slice", slice));
    }
    for router in &draft.documents.routers {
        known("slice", &router.slice);
        for (_, interface) in &router.interfaces.0 {
            for port in interface.port.iter().chain(&interface.standby) {
                known("port", port);
            }
        }
    }
}
