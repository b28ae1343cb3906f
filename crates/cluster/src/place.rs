//! Placement: decides which node runs which router, host and port. Pure.

mod assign;
mod standby;

use std::collections::{BTreeMap, BTreeSet};

use europa_api::{Documents, Key, Problem};
use serde::{Deserialize, Serialize};

use self::assign::{Case, assign};
pub(crate) use self::standby::{Homes, homes};

/// A node, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The node.
    pub node: String,
    /// The reason for the place: `node`, `port left`, `near router red/r1`, `room`, `moved from
    /// n2`.
    pub why: String,
    /// Number of the change that decided the place; 0 if its document or a port decides it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: u64,
    /// The object's last move, if that change moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

/// A move to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The former node.
    pub from: String,
    /// Whether the former node is alive: then other nodes wait until the new one runs the object.
    pub planned: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Places of routers, hosts and ports, by kind and name.
pub type Places = BTreeMap<Key, Place>;

impl Place {
    pub(crate) fn new(node: &str, why: &str) -> Place {
        Place { node: node.to_owned(), why: why.to_owned(), epoch: 0, moved: None }
    }
}

/// A router or host, the reason of its place, and its links.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) key: Key,
    pub(crate) pin: Option<Place>,
    /// The two nodes of its ports, if it has standby ports.
    pub(crate) homes: Option<Homes>,
    pub(crate) links: Vec<String>,
    /// The place of the object's name in the document.
    pub(crate) at: europa_api::Place,
}

/// Routers and hosts in the order of the documents; places of ports.
pub(crate) fn units(documents: &Documents) -> (Vec<Unit>, Places) {
    let because = |node: &str, why: &str| Place::new(node, why);
    let mut ports = Places::new();
    for port in &documents.ports {
        let key = Key::new("port", port.name.to_string());
        ports.extend(port.node.as_ref().map(|node| (key, because(node, "node"))));
    }
    for host in &documents.hosts {
        let Some(node) = &host.node else { continue };
        let made = host.interfaces.0.iter().filter_map(|(_, i)| i.port.as_ref());
        let why = format!("host {}", &**host.name);
        ports.extend(made.map(|p| (Key::new("port", p.to_string()), because(node, &why))));
    }
    let routers = documents.routers.iter().map(|router| {
        let of_port = |port: &str| {
            let place = ports.get(&Key::new("port", port))?;
            Some(because(&place.node, &format!("port {port}")))
        };
        let own = router.node.as_ref().map(|node| because(node, "node"));
        let mut used = router.interfaces.0.iter().filter_map(|(_, i)| i.port.as_ref());
        let homes = if own.is_some() { None } else { homes(documents, router) };
        let by_port = || if homes.is_some() { None } else { used.find_map(|port| of_port(port)) };
        Unit {
            key: Key::new("router", router.full_name()),
            pin: own.or_else(by_port),
            homes,
            links: router
                .interfaces
                .0
                .iter()
                .filter_map(|(_, i)| Some(i.link.as_ref()?.to_string()))
                .collect(),
            at: router.name.place,
        }
    });
    let hosts = documents.hosts.iter().map(|host| Unit {
        key: Key::new("host", host.name.to_string()),
        pin: host.node.as_ref().map(|node| because(node, "node")),
        homes: None,
        links: host
            .interfaces
            .0
            .iter()
            .filter_map(|(_, i)| Some(i.link.as_ref()?.to_string()))
            .collect(),
        at: host.name.place,
    });
    (routers.chain(hosts).collect(), ports)
}

/// Places that documents set, and places that were decided before.
pub(crate) fn known(documents: &Documents, decided: &BTreeMap<String, Place>) -> Places {
    let (units, mut places) = units(documents);
    for unit in units {
        let fits = |place: &&Place| unit.homes.as_ref().is_none_or(|homes| homes.has(&place.node));
        let before = || decided.get(&unit.key.to_string()).filter(fits).cloned();
        let place = unit.pin.clone().or_else(before);
        places.extend(place.map(|place| (unit.key, place)));
    }
    places
}

/// Decisions that a placement begins with.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// Places that were decided before, by kind and name. They stay as long as their node exists.
    pub(crate) decided: BTreeMap<String, Place>,
    /// Objects that leave, with their present places. They keep these if no other node has room.
    pub(crate) leaving: BTreeMap<Key, Place>,
    /// Nodes that get nothing new.
    pub(crate) closed: BTreeSet<String>,
}

/// A place for every router, host and port. Former places stay while their node exists. Other
/// places are chosen so that little traffic passes between nodes; each link counts as one unit of
/// traffic. Each node takes up to 120 % of its share of the routers, or the number in its document.
/// Closed nodes have no share.
///
/// # Errors
/// Objects without a place.
pub(crate) fn place(documents: &Documents, before: &Before) -> Result<Places, Vec<Problem>> {
    let nodes: Vec<&str> = documents.nodes.iter().map(|node| &*node.name.value).collect();
    let stay = before.decided.iter().filter(|(_, place)| nodes.contains(&&*place.node));
    let stay: BTreeMap<String, Place> = stay.map(|(key, at)| (key.clone(), at.clone())).collect();
    let mut places = known(documents, &stay);
    let mut problems: Vec<Problem> = documents
        .ports
        .iter()
        .filter(|p| p.node.is_none())
        .map(|port| {
            let message = format!("port {} is on no node", &**port.name);
            Problem::new(port.name.place, message)
                .label("whose device is it?")
                .help("add `node:` with the name of the machine that has the device")
        })
        .collect();
    problems.extend(documents.hosts.iter().filter(|host| host.node.is_none()).filter_map(|host| {
        let port = host.interfaces.0.iter().find_map(|(_, i)| i.port.as_ref())?;
        let message = format!("host {} makes port {port} on no node", &**host.name);
        let problem = Problem::new(host.name.place, message).label("on which node?");
        Some(problem.help("add `node:`: routers with this port are on the same node"))
    }));
    let (units, _) = units(documents);
    for unit in &units {
        let Some(homes) = unit.homes.as_ref().filter(|_| !places.contains_key(&unit.key)) else {
            continue;
        };
        let old = before.leaving.get(&unit.key);
        if let Some(place) = homes.choose(old, &before.closed).or_else(|| old.cloned()) {
            places.insert(unit.key.clone(), place);
        }
    }
    let number = |node: &str| nodes.iter().position(|one| *one == node);
    let chosen = assign(&case(documents, &units, &places, &before.closed, &number));
    for (unit, at) in units.iter().zip(&chosen) {
        if places.contains_key(&unit.key) {
            continue;
        }
        match at.and_then(|node| nodes.get(node)) {
            Some(node) => {
                let why = why(unit, &units, &chosen_names(&chosen, &nodes), node);
                places.insert(unit.key.clone(), Place::new(node, &why));
            }
            None => match before.leaving.get(&unit.key) {
                Some(old) => drop(places.insert(unit.key.clone(), old.clone())),
                None => problems.push(nowhere(unit, nodes.is_empty())),
            },
        }
    }
    if problems.is_empty() { Ok(places) } else { Err(problems) }
}

fn nowhere(unit: &Unit, no_nodes: bool) -> Problem {
    let problem = Problem::new(unit.at, format!("{} has no place", unit.key));
    match no_nodes {
        true => problem.label("the cluster has no nodes").help("add documents `kind: node`"),
        false => problem
            .label("no node has room for it")
            .help("raise `routers` of a `kind: node`, add or uncordon a node, or say `node:` here"),
    }
}

/// Units and nodes as numbers.
fn case(
    documents: &Documents,
    units: &[Unit],
    places: &Places,
    closed: &BTreeSet<String>,
    number: &impl Fn(&str) -> Option<usize>,
) -> Case {
    let routers = units.iter().filter(|unit| unit.key.kind == "router").count();
    let open = documents.nodes.iter().map(|node| !closed.contains(&*node.name.value));
    let open: Vec<bool> = open.collect();
    let share = (routers * 6).div_ceil(open.iter().filter(|open| **open).count().max(1) * 5);
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    let room = documents.nodes.iter().map(|node| node.routers.map_or(share, |most| most.value));
    let unit = |unit: &Unit| {
        let size = u32::from(unit.key.kind == "router");
        (size, places.get(&unit.key).and_then(|place| number(&place.node)))
    };
    let mut ends: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, unit) in units.iter().enumerate() {
        for link in &unit.links {
            ends.entry(link).or_default().push(index);
        }
    }
    let pairs = ends.values().filter_map(|ends| match ends.as_slice() {
        [one, other] if one != other => Some((*one, *other, 1)),
        _ => None,
    });
    Case {
        room: room.collect(),
        open,
        units: units.iter().map(unit).collect(),
        traffic: pairs.collect(),
    }
}

fn chosen_names<'n>(chosen: &[Option<usize>], nodes: &[&'n str]) -> Vec<Option<&'n str>> {
    chosen.iter().map(|node| node.and_then(|node| nodes.get(node)).copied()).collect()
}

/// The reason for a place: a neighbour on the same node, or the node's room.
fn why(unit: &Unit, units: &[Unit], at: &[Option<&str>], node: &str) -> String {
    let near = units.iter().zip(at).find(|(other, at)| {
        let joined = other.links.iter().any(|link| unit.links.contains(link));
        **at == Some(node) && other.key != unit.key && joined
    });
    near.map_or_else(|| "room".to_owned(), |(other, _)| format!("near {}", other.key))
}
