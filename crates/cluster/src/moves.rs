//! Moves of routers and hosts to other nodes: which objects may move, and what each loses. Pure.
//!
//! A packet of a link carries the link's key and epoch; a change that moves an end replaces both.
//! So a router whose packets leave only by links needs no other fence: peers drop packets from its
//! former node. Packets that leave by a port or uplink are not checked.

use std::collections::{BTreeMap, BTreeSet};

use europa_api::{Documents, Host, Key, Problem, Router};

use crate::place::{Before, Moved, Place, Places, homes};
use crate::whole::Whole;

/// Why objects leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The node is alive, and hands its objects over.
    Planned,
    /// The node has ended.
    Takeover,
}

/// A router or host that must leave a node. The move has no effect once the object is on another
/// node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Kind and name.
    pub key: Key,
    /// Its present node.
    pub from: String,
    /// Its new node; `None` for any node.
    pub to: Option<String>,
    /// Why.
    pub cause: Cause,
}

/// An object that changes its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// Kind and name.
    pub key: Key,
    /// Its present node.
    pub from: String,
    /// Its new node.
    pub to: String,
}

/// Routers and hosts of a node that must leave it.
#[derive(Clone, Debug, Default)]
pub struct Leaving {
    /// Objects that move.
    pub moves: Vec<Move>,
    /// Objects that stay, each with the reason.
    pub stays: Vec<(Key, String)>,
}

/// A reason why a router or host cannot leave its machine, such as a device.
fn tie(documents: &Documents, key: &Key) -> Option<String> {
    let router = |router: &Router| {
        let of_machine = |thing: String| format!("{thing} is of its machine");
        let mut ports = router.interfaces.0.iter().filter_map(|(_, i)| i.port.as_ref());
        let pin = router.node.as_ref().map(|node| format!("its document says `node: {node}`"));
        let mut port = || {
            let port = ports.next().filter(|_| homes(documents, router).is_none())?;
            let standby = router.interfaces.0.iter().any(|(_, i)| i.standby.is_some());
            let why = if standby {
                ", and not all its ports have a standby on one other node"
            } else {
                ""
            };
            Some(of_machine(format!("port {port}")) + why)
        };
        let grant = || {
            router
                .grants
                .first()
                .map(|one| of_machine(format!("grant {:?}", one.value.0.to_string())))
        };
        let flow = || {
            let flow = documents.flows.iter().find(|flow| {
                let named =
                    flow.path.iter().chain([&flow.to]).any(|one| *one.value == **router.name);
                *flow.slice.value == **router.slice && (named || *flow.from.value == **router.name)
            });
            flow.map(|flow| format!("flow {} needs its routers on one node", &**flow.name))
        };
        pin.or_else(&mut port).or_else(grant).or_else(flow)
    };
    let host = |host: &Host| {
        let pin = host.node.as_ref().map(|node| format!("its document says `node: {node}`"));
        let existing = host.namespace.is_some() || host.pid.is_some() || host.container.is_some();
        let device = host.interfaces.0.iter().any(|(_, i)| i.port.is_some() || i.device.is_some());
        let other = match (existing, device, host.binds.is_empty()) {
            (true, ..) => Some("it is a namespace of its machine"),
            (_, true, _) => Some("it has a port or device of its machine"),
            (.., false) => Some("its `binds` are files of its machine"),
            _ => None,
        };
        pin.or_else(|| other.map(str::to_owned))
    };
    match key.kind.as_str() {
        "router" => documents.routers.iter().find(|r| r.full_name() == key.name).and_then(router),
        "host" => documents.hosts.iter().find(|h| *h.name.value == *key.name).and_then(host),
        _ => Some("only routers and hosts move".to_owned()),
    }
}

/// The reason why a router or host stays although other objects leave its node.
fn stays(documents: &Documents, key: &Key, cause: Cause) -> Option<String> {
    tie(documents, key).or_else(|| {
        let find = |router: &&Router| key.kind == "router" && router.full_name() == key.name;
        let router = documents.routers.iter().find(find)?;
        if cause == Cause::Planned {
            return None;
        }
        if router.takeover.is_some_and(|takeover| !takeover.value) {
            return Some("its document says `takeover: false`".to_owned());
        }
        let on_port = router.interfaces.0.iter().any(|(_, i)| i.port.is_some());
        if on_port && !router.stops_without_lease() {
            return Some("its document says `without_lease: keep`".to_owned());
        }
        let uplink = router.slow_path.as_ref().is_some_and(|slow| slow.value.has_uplink());
        uplink.then(|| "no peer checks the packets that leave by its uplink".to_owned())
    })
}

/// Routers with `takeover: true` or `without_lease: stop` for which no fence exists.
pub(crate) fn unfenced(documents: &Documents) -> Vec<Problem> {
    let wants = |router: &&Router| router.takeover.is_some_and(|takeover| takeover.value);
    let routers = documents.routers.iter().filter(wants);
    let problems = routers.filter_map(|router| {
        let key = Key::new("router", router.full_name());
        let why = stays(documents, &key, Cause::Takeover)?;
        let place = router.takeover.as_ref().map_or(router.name.place, |takeover| takeover.place);
        let problem = Problem::new(place, format!("{key} cannot be taken over: {why}"));
        Some(problem.label("by another node?").help(
            "leave `takeover` out, or have all packets of the router leave by links, whose peers \
             check the epoch, or by ports with a `standby`",
        ))
    });
    let problems = problems.chain(documents.routers.iter().filter_map(|router| {
        let uplink = &router.slow_path.as_ref().filter(|slow| slow.value.has_uplink())?;
        let said = router.without_lease.as_ref().map(|said| said.place);
        let place = said.unwrap_or(uplink.place);
        router.stops_without_lease().then(|| {
            let name = router.full_name();
            let message = format!("router {name} has an uplink and stops without a lease");
            Problem::new(place, message)
                .label("no fence stops packets that leave by an uplink")
                .help("remove the uplink, or say `without_lease: keep`")
        })
    }));
    problems.collect()
}

/// Routers and hosts of a node that may leave it.
pub fn leaving(whole: &Whole, node: &str, cause: Cause) -> Leaving {
    let mut leaving = Leaving::default();
    let routers = whole.documents.routers.iter().map(|r| Key::new("router", r.full_name()));
    let hosts = whole.documents.hosts.iter().map(|h| Key::new("host", h.name.to_string()));
    let is_here = |key: &Key| whole.places.get(key).is_some_and(|place| place.node == node);
    for key in routers.chain(hosts).filter(is_here) {
        match stays(&whole.documents, &key, cause) {
            Some(why) => leaving.stays.push((key, why)),
            None => leaving.moves.push(Move { key, from: node.to_owned(), to: None, cause }),
        }
    }
    leaving
}

/// The losses in a move: the object starts again on the other node.
pub fn losses(documents: &Documents, key: &Key) -> String {
    let router =
        documents.routers.iter().find(|r| key.kind == "router" && r.full_name() == key.name);
    let Some(router) = router else {
        return "its processes, their connections and the files that they have written".to_owned();
    };
    let mut lost = vec!["counters, queued packets and the state of its elements"];
    if let Some(slow_path) = &router.slow_path {
        lost.push("Linux's routes and connections, and the files that its programs have written");
        if slow_path.value.has_uplink() {
            lost.push("connections by its uplink");
        }
    }
    lost.join("; ")
}

/// The decisions that a placement begins with: former places, without the objects that leave.
pub(crate) fn before(
    documents: &Documents,
    decided: &BTreeMap<String, Place>,
    moves: &[Move],
    closed: BTreeSet<String>,
) -> Before {
    let mut before = Before { decided: decided.clone(), leaving: BTreeMap::new(), closed };
    let is_node = |name: &str| documents.nodes.iter().any(|node| *node.name.value == *name);
    for one in moves {
        let name = one.key.to_string();
        // Another change came first.
        let Some(old) = decided.get(&name).filter(|old| old.node == one.from) else { continue };
        if tie(documents, &one.key).is_some() {
            continue;
        }
        match one.to.as_ref().filter(|to| is_node(to)) {
            Some(to) => drop(before.decided.insert(name, Place::new(to, "moved"))),
            None => {
                before.decided.remove(&name);
                before.closed.insert(one.from.clone());
                before.leaving.insert(one.key.clone(), old.clone());
            }
        }
    }
    before
}

/// Sets the epoch of new places, and the reason of each move.
pub(crate) fn number(
    places: &mut Places,
    decided: &BTreeMap<String, Place>,
    moves: &[Move],
    epoch: u64,
) {
    for (key, place) in places.iter_mut() {
        let old = decided.get(&key.to_string());
        if let Some(old) = old.filter(|old| old.node == place.node) {
            place.clone_from(old);
            continue;
        }
        place.epoch = epoch;
        let Some(one) = moves.iter().find(|one| one.key == *key) else { continue };
        let planned = one.cause == Cause::Planned;
        let how = if planned { "moved" } else { "taken over" };
        place.why = format!("{how} from {}", one.from);
        place.moved = Some(Moved { from: one.from.clone(), planned });
    }
}

/// Objects whose node differs.
pub(crate) fn moving(places: &Places, decided: &BTreeMap<String, Place>) -> Vec<Moving> {
    let moved = places.iter().filter_map(|(key, place)| {
        let old = decided.get(&key.to_string()).filter(|old| old.node != place.node)?;
        Some(Moving { key: key.clone(), from: old.node.clone(), to: place.node.clone() })
    });
    moved.collect()
}
