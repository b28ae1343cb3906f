//! Carries out moves: cordons a node, drains it, or takes it over. The head of the documents is the
//! commit point of each move: it contains the places, and the keys and epochs of links.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use etcd_client::Compare;
use europa_api::Key;

use crate::apply::{Options, Terms, await_node, await_nodes, commit};
use crate::change::{Wish, no_node, plan};
use crate::error::{ClusterError, Result};
use crate::etcd::Etcd;
use crate::member::{is_absent, members};
use crate::moves::{Cause, Leaving, Move, Moving, leaving, losses};
use crate::store::State;
use crate::whole::Whole;

/// Time in which the new node must run an object; after that the object returns to its old node.
const STARTING: Duration = Duration::from_secs(8);

/// The result for a router or host of a node that it should leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It moves, or has moved, to another node.
    Moves {
        /// The other node.
        to: String,
        /// Things that are lost.
        losses: String,
        /// Time from the commit until all nodes ran the change; `None` for a dry run.
        took: Option<Duration>,
    },
    /// It stays, with the reason.
    Stays(String),
}

/// Receives each finished step.
pub type Told<'t> = &'t mut dyn FnMut(&Key, &Fate);

/// Cordons a node, or ends its cordon. Returns false if nothing changes.
///
/// # Errors
/// The node does not exist, or etcd does not answer.
pub async fn cordon(etcd: &Etcd, node: &str, why: Option<&str>) -> Result<bool> {
    let before = State::read(etcd, &State::default()).await?.head.sequence;
    let cordon = BTreeMap::from([(node.to_owned(), why.map(str::to_owned))]);
    let wish = Wish { cordon, ..Wish::default() };
    Ok(commit(etcd, &wish, Options::default(), &Terms::default()).await?.sequence > before)
}

/// Cordons a running node, and moves its movable objects one after the other. Each object first
/// starts on its new node; then the other nodes change their links to that node. An object that
/// does not start returns. `tell` receives each object.
///
/// # Errors
/// The node does not exist, or etcd does not answer. Objects that have already moved are not moved
/// back.
pub async fn drain(etcd: &Etcd, node: &str, dry_run: bool, tell: Told<'_>) -> Result<()> {
    let state = State::read(etcd, &State::default()).await?;
    let whole = known(&state, node)?;
    let closed = absent(etcd, &whole).await?;
    if closed.contains(node) && !dry_run {
        return Err(ClusterError::Refused(format!(
            "node {node} has no lease, so it cannot hand anything over: `europa cluster takeover {node}` \
             starts its routers elsewhere"
        )));
    }
    let Leaving { moves, stays } = leaving(&whole, node, Cause::Planned);
    let wish = Wish { moves: moves.clone(), closed, ..Wish::default() };
    let planned = plan(&state, &wish)?.moving;
    if !dry_run {
        cordon(etcd, node, Some("drained")).await?;
    }
    for one in moves {
        let losses = losses(&whole.documents, &one.key);
        let fate = match planned.iter().find(|moving| moving.key == one.key) {
            None => Fate::Stays("no other node has room for it".to_owned()),
            Some(moving) if dry_run => Fate::Moves { to: moving.to.clone(), losses, took: None },
            Some(moving) => hand_over(etcd, moving, losses).await?,
        };
        tell(&one.key, &fate);
    }
    for (key, why) in stays {
        tell(&key, &Fate::Stays(why));
    }
    Ok(())
}

/// Moves one object; moves it back if its new node does not run it.
async fn hand_over(etcd: &Etcd, moving: &Moving, losses: String) -> Result<Fate> {
    let Moving { key, from, to } = moving;
    let start = Instant::now();
    let done =
        commit(etcd, &wish(key, from, Some(to)), Options::default(), &Terms::default()).await;
    let mut outcome = match done {
        Ok(outcome) if outcome.moving.iter().any(|one| one.key == *key) => outcome,
        Ok(_) => return Ok(Fate::Stays(format!("another change has moved it from {from}"))),
        Err(ClusterError::Refused(why) | ClusterError::Mistakes(why)) => {
            return Ok(Fate::Stays(why));
        }
        Err(error) => return Err(error),
    };
    if let Some(why) = await_node(etcd, to, outcome.sequence, STARTING).await? {
        let ask = Some(BTreeSet::from([from.clone()]));
        let terms = Terms { when: Vec::new(), ask };
        let options = Options { dry_run: false, allow_absent: true };
        let mut back = commit(etcd, &wish(key, to, Some(from)), options, &terms).await?;
        await_nodes(etcd, &mut back).await?;
        return Ok(Fate::Stays(format!("node {to} does not run it: {why}")));
    }
    await_nodes(etcd, &mut outcome).await?;
    Ok(Fate::Moves { to: to.clone(), losses, took: Some(start.elapsed()) })
}

fn wish(key: &Key, from: &str, to: Option<&str>) -> Wish {
    let to = to.map(str::to_owned);
    let one = Move { key: key.clone(), from: from.to_owned(), to, cause: Cause::Planned };
    Wish { moves: vec![one], ..Wish::default() }
}

/// The objects of a node without a lease that start elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All that may move.
    All,
    /// Those whose packets leave by links only: ports of the others may not be fenced yet.
    OnLinks,
}

/// Starts the movable objects of a node without a lease on other nodes, if the comparison `when`
/// holds. It does not wait for the nodes. `tell` receives each object.
///
/// # Errors
/// The node has a lease or does not exist, or etcd does not answer.
pub async fn take_over(
    etcd: &Etcd,
    node: &str,
    scope: Scope,
    when: &[Compare],
    tell: Told<'_>,
) -> Result<()> {
    let state = State::read(etcd, &State::default()).await?;
    let whole = known(&state, node)?;
    let closed = absent(etcd, &whole).await?;
    if !closed.contains(node) {
        return Err(ClusterError::Refused(format!(
            "node {node} has a lease: `europa cluster drain {node}` moves its routers, and loses less"
        )));
    }
    let Leaving { mut moves, stays } = leaving(&whole, node, Cause::Takeover);
    moves.retain(|one| scope == Scope::All || !whole.stops_without_lease(&one.key));
    let when = [when, &[is_absent(etcd, node)]].concat();
    let fate = |to: &str, key: &Key| Fate::Moves {
        to: to.to_owned(),
        losses: losses(&whole.documents, key),
        took: None,
    };
    let wish = Wish { moves: moves.clone(), closed: closed.clone(), ..Wish::default() };
    let planned = plan(&state, &wish)?.moving;
    let together = match planned.is_empty() {
        true => Ok(Vec::new()),
        false => start(etcd, &wish, &planned, &when).await,
    };
    match together {
        Ok(moved) => {
            moves.iter().for_each(|one| match moved.iter().find(|moving| moving.key == one.key) {
                Some(moving) => tell(&one.key, &fate(&moving.to, &one.key)),
                None => tell(&one.key, &Fate::Stays("no other node has room for it".to_owned())),
            })
        }
        // An object that a node refuses does not stop the others.
        Err(ClusterError::Refused(why)) => {
            for one in moves {
                let mut fate_of = Fate::Stays(why.clone());
                for to in candidates(&whole, &closed, &planned, &one) {
                    let moving = Moving { key: one.key.clone(), from: one.from.clone(), to };
                    let to = Some(moving.to.clone());
                    let wish = Wish { moves: vec![Move { to, ..one.clone() }], ..Wish::default() };
                    match start(etcd, &wish, std::slice::from_ref(&moving), &when).await {
                        Ok(_) => {
                            fate_of = fate(&moving.to, &one.key);
                            break;
                        }
                        Err(ClusterError::Refused(why)) => fate_of = Fate::Stays(why),
                        Err(error) => return Err(error),
                    }
                }
                tell(&one.key, &fate_of);
            }
        }
        Err(error) => return Err(error),
    }
    for (key, why) in stays {
        tell(&key, &Fate::Stays(why));
    }
    Ok(())
}

/// Commits moves to nodes that agree; returns them.
async fn start(
    etcd: &Etcd,
    wish: &Wish,
    planned: &[Moving],
    when: &[Compare],
) -> Result<Vec<Moving>> {
    // Other nodes only change their links, so their agreement is not needed.
    let ask = Some(planned.iter().map(|moving| moving.to.clone()).collect());
    let options = Options { dry_run: false, allow_absent: true };
    Ok(commit(etcd, wish, options, &Terms { when: when.to_vec(), ask }).await?.moving)
}

/// Candidate nodes for an object: the planned one, then all others that accept objects.
fn candidates(
    whole: &Whole,
    closed: &BTreeSet<String>,
    planned: &[Moving],
    one: &Move,
) -> Vec<String> {
    let first = planned.iter().find(|moving| moving.key == one.key);
    let Some(first) = first.map(|moving| moving.to.clone()) else { return Vec::new() };
    let is_open = |node: &String| !closed.contains(node) && !whole.cordons.contains_key(node);
    let homes = whole.homes(&one.key);
    let fits = |node: &String| homes.as_ref().is_none_or(|homes| homes.has(node));
    let others = whole.nodes().map(str::to_owned);
    let others = others.filter(|node| is_open(node) && *node != first && fits(node));
    let others: Vec<String> = others.collect();
    [vec![first], others].concat()
}

/// All documents, if the node exists.
fn known(state: &State, node: &str) -> Result<Whole> {
    let whole = Whole::of(state)?;
    if whole.nodes().any(|one| one == node) {
        return Ok(whole);
    }
    Err(no_node(&whole.documents, node))
}

/// Nodes without a lease.
async fn absent(etcd: &Etcd, whole: &Whole) -> Result<BTreeSet<String>> {
    let members = members(etcd).await?;
    let nodes = whole.nodes().filter(|node| !members.contains_key(*node));
    Ok(nodes.map(str::to_owned).collect())
}
