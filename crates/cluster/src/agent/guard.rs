//! The leader's guard: it starts the routers of nodes without a lease on other nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_client::{Compare, EventType, WatchResponse};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::apply::{Options, Terms, commit};
use crate::change::Wish;
use crate::error::{ClusterError, Result};
use crate::etcd::{Etcd, revokes_early};
use crate::member::members;
use crate::relocate::{Fate, Scope, take_over};
use crate::store::State;
use crate::takeover::{Guard, Verdict};
use crate::whole::decided_cordons;

/// Time between two checks, independent of watches.
const LOOK: Duration = Duration::from_secs(10);
/// Time before a takeover that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Guards while this node leads; returns at the first error.
pub(super) async fn run(etcd: &Etcd, mut leads: watch::Receiver<Option<Compare>>) -> Result<()> {
    loop {
        let now = leads.borrow_and_update().clone();
        if let Some(leader) = now {
            lead(etcd, &mut leads, leader).await?;
        } else if leads.changed().await.is_err() {
            // The session has ended.
            return std::future::pending().await;
        }
    }
}

/// Guards until the leadership changes.
async fn lead(
    etcd: &Etcd,
    leads: &mut watch::Receiver<Option<Compare>>,
    leader: Compare,
) -> Result<()> {
    let start = Instant::now();
    let early = revokes_early(&etcd.service().await?.version);
    let (guard, known) = (Guard::default(), State::default());
    let mut work = Work { etcd, leader, start, early, guard, known, told: None };
    let mut watch = etcd.watch("control/nodes/", 0).await?;
    loop {
        let again = work.look().await?;
        loop {
            tokio::select! {
                changed = leads.changed() => {
                    // If the sender is gone, the session is about to end.
                    return changed.map_err(|_| ClusterError::Outdated);
                }
                told = watch.message() => {
                    let lost = |error: String| ClusterError::Etcd { what: "watching".into(), error };
                    let told = told.map_err(|error| lost(error.to_string()))?;
                    let told = told.ok_or_else(|| lost("the connection ended".into()))?;
                    if told.canceled() {
                        watch = etcd.watch("control/nodes/", 0).await?;
                        break;
                    }
                    if comes_or_goes(&told) {
                        break;
                    }
                }
                () = sleep_until(again) => break,
            }
        }
    }
}

/// Whether a node has taken or lost its lease; other events are only reports.
fn comes_or_goes(told: &WatchResponse) -> bool {
    told.events().iter().any(|event| {
        let is_new = event.kv().is_some_and(|kv| kv.version() == 1);
        event.event_type() == EventType::Delete || is_new
    })
}

struct Work<'e> {
    etcd: &'e Etcd,
    /// Holds while this node leads.
    leader: Compare,
    start: Instant,
    /// etcd may revoke living leases.
    early: bool,
    guard: Guard,
    known: State,
    /// The last message, which is not repeated.
    told: Option<String>,
}

impl Work<'_> {
    /// Checks the nodes, and acts. Returns the latest time for the next check.
    async fn look(&mut self) -> Result<Instant> {
        let term = self.etcd.term().await?;
        self.known = State::read(self.etcd, &self.known).await?;
        let present: BTreeSet<String> = members(self.etcd).await?.into_keys().collect();
        let nodes: BTreeSet<String> = self
            .known
            .items
            .keys()
            .filter_map(|key| key.strip_prefix("node ").map(str::to_owned))
            .collect();
        let now = Instant::now();
        let verdict = self.guard.look(now - self.start, term, &nodes, &present);
        self.cordon(&present).await?;
        match verdict {
            Verdict::Rest => self.told = None,
            Verdict::Wait(until) => {
                self.tell("a node has no lease; takeovers wait until nodes could renew".to_owned());
                return Ok((self.start + until).min(now + LOOK));
            }
            Verdict::TooMany(absent) => self.tell(format!(
                "{} of {} nodes have no lease: none is taken over",
                absent.len(),
                nodes.len()
            )),
            Verdict::TakeOver(absent) => {
                let mut again = now + LOOK;
                for node in absent {
                    let fenced_at = self.guard.fenced_at(&node).filter(|_| self.early);
                    let fenced_at = fenced_at.map_or(now, |fenced_at| self.start + fenced_at);
                    let scope = if now < fenced_at { Scope::OnLinks } else { Scope::All };
                    if !self.take_over(&node, scope).await? {
                        return Ok(now + AGAIN);
                    }
                    if scope == Scope::OnLinks {
                        again = again.min(fenced_at);
                    }
                }
                return Ok(again);
            }
        }
        Ok(now + LOOK)
    }

    /// Starts the movable routers of a node elsewhere; false if it must be tried again.
    async fn take_over(&mut self, node: &str, scope: Scope) -> Result<bool> {
        let mut moved = Vec::new();
        let mut tell = |key: &europa_api::Key, fate: &Fate| {
            if let Fate::Moves { to, .. } = fate {
                moved.push(format!("{key} to {to}"));
            }
        };
        let when = [self.leader.clone()];
        let done = take_over(self.etcd, node, scope, &when, &mut tell).await;
        if !moved.is_empty() {
            tracing::warn!("node {node} has no lease: took over {}", moved.join(", "));
        }
        match done {
            Ok(()) => Ok(true),
            Err(error @ (ClusterError::Silent { .. } | ClusterError::Etcd { .. })) => Err(error),
            Err(error) => {
                self.tell(format!("node {node} has no lease: {error}"));
                Ok(false)
            }
        }
    }

    /// Cordons nodes whose leases end repeatedly.
    async fn cordon(&mut self, present: &BTreeSet<String>) -> Result<()> {
        let cordons = decided_cordons(&self.known)?;
        let failing: Vec<String> = self
            .guard
            .failing()
            .filter(|node| present.contains(*node) && !cordons.contains_key(*node))
            .map(str::to_owned)
            .collect();
        for node in failing {
            let why = "it has lost its lease three times in ten minutes";
            let cordon = [(node.clone(), Some(why.to_owned()))].into();
            let wish = Wish { cordon, ..Wish::default() };
            let terms = Terms { when: vec![self.leader.clone()], ask: None };
            match commit(self.etcd, &wish, Options::default(), &terms).await {
                Ok(_) => tracing::warn!("node {node} gets a cordon: {why}"),
                Err(error) => self.tell(format!("node {node} gets no cordon: {error}")),
            }
        }
        Ok(())
    }

    fn tell(&mut self, message: String) {
        if self.told.as_ref() != Some(&message) {
            tracing::warn!("{message}");
            self.told = Some(message);
        }
    }
}
