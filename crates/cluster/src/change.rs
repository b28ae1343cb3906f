//! Turns a request into a change of the store: merges and checks documents, places objects, and
//! assigns tunnels to links.

use std::collections::{BTreeMap, BTreeSet};

use europa_api::rest::Action;
use europa_api::{Bundle, Documents, Kept, Key, Problem, Problems, Source};

use crate::error::{ClusterError, Result};
use crate::moves::{self, Move, Moving};
use crate::part::{Part, part};
use crate::place::{self, Place, Places};
use crate::store::{Change, State, text};
use crate::tunnels::tunnels;
use crate::whole::{
    Cordon, Whole, cordon_key, decided_cordons, decided_places, decided_tunnels, kept, place_key,
    record, tunnel_key,
};

/// The wish of a user.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Texts of documents, and the files that they name.
    pub bundle: Bundle,
    /// Remove the objects that the texts do not name.
    pub prune: bool,
    /// Remove these.
    pub delete: Vec<Key>,
    /// Nodes to cordon, each with the reason; `None` ends a cordon.
    pub cordon: BTreeMap<String, Option<String>>,
    /// Move these.
    pub moves: Vec<Move>,
    /// Nodes that get no new objects, in addition to cordoned nodes.
    pub closed: BTreeSet<String>,
    /// Draw mistakes with colours.
    pub colour: bool,
}

/// A change that has passed all checks for which no node is needed.
#[derive(Clone, Debug)]
pub struct Planned {
    /// New contents.
    pub change: Change,
    /// The documents, places and tunnels after the change.
    pub after: Whole,
    /// Documents that differ, with their nodes.
    pub changes: Vec<(Action, Key, Option<Place>)>,
    /// Routers and hosts that change their node.
    pub moving: Vec<Moving>,
    /// New parts of the nodes whose part differs.
    pub parts: BTreeMap<String, Part>,
}

/// Plans a requested change of a state.
///
/// # Errors
/// Mistakes as a report, or objects that other objects need.
pub fn plan(state: &State, wish: &Wish) -> Result<Planned> {
    let mut before = kept(state)?;
    let drawn = |problems: Problems| ClusterError::Mistakes(problems.render(wish.colour));
    if !wish.delete.is_empty() {
        remove(&mut before, &wish.delete)?;
    }
    let documents = match wish.prune {
        true => wish.bundle.replace(&before, |_, _| ()),
        false => wish.bundle.merge(&before),
    };
    let mut documents = documents.map_err(drawn)?;
    let decided = decided_places(state)?;
    let cordons = cordons(&documents, state, wish)?;
    let closed = cordons.keys().chain(&wish.closed).cloned().collect();
    let begin = moves::before(&documents, &decided, &wish.moves, closed);
    let checked = check(&documents).and_then(|()| place::place(&documents, &begin));
    let checked = checked.and_then(|places| match flows(&documents, &places) {
        problems if problems.is_empty() => Ok(places),
        problems => Err(problems),
    });
    let mut places = checked.map_err(|problems| drawn(located(problems, wish, &before)))?;
    // The sequence only grows, so epochs grow too, even those of a link that is made again.
    let epoch = state.head.sequence + 1;
    let pinned = place::known(&documents, &BTreeMap::new());
    let (said, mut chosen): (Places, Places) =
        places.into_iter().partition(|(key, _)| pinned.contains_key(key));
    moves::number(&mut chosen, &decided, &wish.moves, epoch);
    let moving = moves::moving(&chosen, &decided);
    places = said.into_iter().chain(chosen).collect();
    let stored: Vec<Kept> = documents
        .iter()
        .map(|document| Kept::of(&document))
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| ClusterError::Refused(error.to_string()))?;
    documents.complete();
    let known = decided_tunnels(state)?;
    let tunnels = tunnels(&documents, &places, &known, epoch)?;
    let after = Whole { tunnels, kept: stored, documents, places, cordons };
    let change = difference(state, &after)?;
    let changes = changes(&change, state, &after.places);
    let parts = parts(state, &after)?;
    Ok(Planned { change, after, changes, moving, parts })
}

/// Cordons of existing nodes after a requested change.
fn cordons(documents: &Documents, state: &State, wish: &Wish) -> Result<BTreeMap<String, Cordon>> {
    let names: BTreeSet<&str> = documents.nodes.iter().map(|node| &*node.name.value).collect();
    let mut cordons = decided_cordons(state)?;
    cordons.retain(|node, _| names.contains(node.as_str()));
    for (node, why) in &wish.cordon {
        if !names.contains(node.as_str()) {
            return Err(no_node(documents, node));
        }
        match why {
            Some(why) => drop(cordons.insert(node.clone(), Cordon { why: why.clone() })),
            None => drop(cordons.remove(node)),
        }
    }
    Ok(cordons)
}

/// An error about the name of a node.
pub(crate) fn no_node(documents: &Documents, node: &str) -> ClusterError {
    let names: Vec<&str> = documents.nodes.iter().map(|node| &*node.name.value).collect();
    ClusterError::Refused(match names.is_empty() {
        true => format!("there is no node {node:?}: the cluster has none yet"),
        false => format!("there is no node {node:?} in the cluster: it has {}", names.join(", ")),
    })
}

/// Removes documents that no other document needs.
fn remove(kept: &mut Vec<Kept>, gone: &[Key]) -> Result<()> {
    for key in gone {
        let all = Bundle::default().merge(kept).ok();
        if let Some(why) = all.and_then(|all| all.needed(key)) {
            return Err(ClusterError::Refused(why));
        }
        let before = kept.len();
        kept.retain(|one| one.key != *key);
        if kept.len() == before {
            return Err(ClusterError::Refused(format!("there is no {key} in the cluster")));
        }
    }
    Ok(())
}

/// Checks rules that apply only to documents of a cluster.
fn check(documents: &Documents) -> std::result::Result<(), Vec<Problem>> {
    let known: BTreeSet<&str> = documents.nodes.iter().map(|node| &*node.name.value).collect();
    // If nodes are declared, the check has already reported unknown ones.
    let unknown = documents.pins().filter(|pin| !known.contains(&*pin.value)).map(|pin| {
        Problem::new(pin.place, format!("there is no node {:?}", pin.to_string()))
            .label("unknown node")
            .help(format!("add a document: kind: node, name: {pin}, address: ADDRESS"))
    });
    let mut problems: Vec<Problem> = unknown.collect();
    let first = documents.nodes.first();
    for node in &documents.nodes {
        let Some(first) = first.filter(|f| f.address.is_ipv4() != node.address.is_ipv4()) else {
            continue;
        };
        problems.push(
            Problem::new(node.address.place, "the addresses of nodes are of both families")
                .label("of the other family")
                .also(first.address.place, "the first node's")
                .help("a tunnel has two ends of one family: give all nodes IPv4 or all IPv6"),
        );
    }
    problems.extend(documents.links.iter().filter_map(|link| {
        let tunnel = link.tunnel.as_ref()?;
        let problem = Problem::new(tunnel.place, "a cluster makes the tunnels of its links itself");
        Some(problem.label("decided by the cluster").help("leave `tunnel` out"))
    }));
    problems.extend(moves::unfenced(documents));
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Refuses flows whose routers are on several nodes: a signaller handles only the routers of its
/// node.
fn flows(documents: &Documents, places: &Places) -> Vec<Problem> {
    let node_of = |slice: &str, router: &str| {
        places.get(&Key::new("router", format!("{slice}/{router}"))).map(|place| &place.node)
    };
    let mut problems = Vec::new();
    for flow in &documents.flows {
        let own = node_of(&flow.slice, &flow.from);
        for other in flow.path.iter().chain([&flow.to]) {
            let there = node_of(&flow.slice, &other.value);
            if there.is_none() || there == own {
                continue;
            }
            let message = format!("flow {} leads from one node to another", &**flow.name);
            problems.push(
                Problem::new(other.place, message)
                    .label("a router of another node")
                    .help("put its routers on one node, or name their addresses instead"),
            );
        }
    }
    problems
}

/// Adds to problems the places in the request's texts.
fn located(problems: Vec<Problem>, wish: &Wish, before: &[Kept]) -> Problems {
    let own = wish.bundle.keys();
    let stay = before.iter().filter(|kept| !wish.prune && !own.contains(&kept.key));
    let stored = stay.map(|kept| Source {
        path: format!("{} (in the cluster's state)", kept.key).into(),
        text: kept.document.clone(),
    });
    let sources: Vec<Source> = wish.bundle.sources.iter().cloned().chain(stored).collect();
    Problems::new(problems, &sources)
}

/// Contents that differ from those of a state.
fn difference(state: &State, after: &Whole) -> Result<Change> {
    let mut wanted: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for kept in &after.kept {
        wanted.insert(kept.key.to_string(), record(kept)?);
    }
    let pinned = place::known(&after.documents, &BTreeMap::new());
    for (key, place) in after.places.iter().filter(|(key, _)| !pinned.contains_key(key)) {
        wanted.insert(place_key(key), text(place)?);
    }
    for (link, tunnel) in &after.tunnels {
        wanted.insert(tunnel_key(link), text(tunnel)?);
    }
    for (node, cordon) in &after.cordons {
        wanted.insert(cordon_key(node), text(cordon)?);
    }
    let mut change = Change::new();
    for key in state.items.keys().filter(|key| !wanted.contains_key(*key)) {
        change.insert(key.clone(), None);
    }
    for (key, content) in wanted {
        let same = state.items.get(&key).is_some_and(|item| *item.content == content);
        if !same {
            change.insert(key, Some(content));
        }
    }
    Ok(change)
}

fn changes(change: &Change, state: &State, places: &Places) -> Vec<(Action, Key, Option<Place>)> {
    let documents = change.iter().filter_map(|(key, content)| {
        let (kind, name) = key.split_once(' ').filter(|(kind, _)| !kind.contains(':'))?;
        let key = Key::new(kind, name);
        let action = match (content, state.items.contains_key(&key.to_string())) {
            (None, _) => Action::Remove,
            (Some(_), true) => Action::Change,
            (Some(_), false) => Action::Add,
        };
        let place = places.get(&key).cloned();
        Some((action, key, place))
    });
    documents.collect()
}

/// New parts of nodes whose part differs, including nodes that are no longer in the documents.
fn parts(state: &State, after: &Whole) -> Result<BTreeMap<String, Part>> {
    // If this version cannot read a state, all parts count as new.
    let before = Whole::of(state).unwrap_or_default();
    let nodes: BTreeSet<&str> = before.nodes().chain(after.nodes()).collect();
    let mut differing = BTreeMap::new();
    for node in nodes {
        let new = part(after, node)?;
        if part(&before, node).ok().as_ref() != Some(&new) {
            differing.insert(node.to_owned(), new);
        }
    }
    Ok(differing)
}
