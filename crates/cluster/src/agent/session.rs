//! A session: one connection, one lease, one watch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::{Compare, EventType, TxnOp, WatchResponse};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Settings;
use super::deadline::Deadlines;
use super::follow::Follower;
use super::guard;
use super::hold::holds;
use super::lease::Lease;
use crate::error::{ClusterError, Result};
use crate::etcd::Etcd;
use crate::member::{Answer, Asked, LEADER, Member, answer_key, members, withdraw};
use crate::store::{Cleaner, HEAD, State, parse, text};

/// Time between two linearisable reads of the head, independent of watches.
const COMPARE: Duration = Duration::from_secs(10);
/// The time after a failure of the node.
const RETRY: Duration = Duration::from_secs(2);
/// Time between two checks of the awaited nodes, independent of watches.
const HELD: Duration = Duration::from_millis(500);
/// The longest wait for other nodes. After it the node follows in any case, because the change is
/// accepted.
const MOST_HELD: Duration = Duration::from_secs(10);
/// Time between two clean-ups by the leader.
const CLEAN: Duration = Duration::from_secs(30);

/// Runs until the first error.
pub(super) async fn run(
    settings: &Settings,
    follower: &mut Follower,
    deadlines: &Deadlines,
) -> Result<()> {
    let etcd = Etcd::connect(&settings.access).await?;
    let error = begin(&etcd, follower).await?;
    let lease = Lease::grant(&etcd, deadlines).await?;
    let at = format!("{}:{}", machine(), settings.socket.display());
    let member = Member {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at,
        passed: follower.state.head.sequence,
        error,
    };
    let (leads, led) = watch::channel(None);
    let work = async {
        lease.register(&etcd, &settings.name, &member).await?;
        tracing::info!("node {} is in the cluster {}", settings.name, settings.access.cluster);
        let mut session = Session {
            etcd: &etcd,
            name: &settings.name,
            lease,
            member,
            follower,
            held: None,
            leads,
            cleaner: Cleaner::default(),
            cleaned: None,
        };
        session.work().await
    };
    tokio::select! {
        ended = lease.keep(&etcd, deadlines) => ended,
        ended = work => ended,
        ended = guard::run(&etcd, led) => ended,
    }
}

/// Makes the node run its part before it takes a lease, so that routers that now run elsewhere end.
/// Returns the reason if the node does not run its part.
async fn begin(etcd: &Etcd, follower: &mut Follower) -> Result<Option<String>> {
    follower.state = Arc::new(State::read(etcd, &follower.state).await?);
    let Err(error) = follower.follow().await else { return Ok(None) };
    tracing::warn!("change {} of the cluster: {error}", follower.state.head.sequence);
    follower.end_copies().await?;
    Ok(Some(error.to_string()))
}

/// The name of this machine.
fn machine() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    id.trim().to_owned()
}

struct Session<'s> {
    etcd: &'s Etcd,
    name: &'s str,
    lease: Lease,
    member: Member,
    follower: &'s mut Follower,
    /// The time since when it waits for other nodes before it follows a move.
    held: Option<Instant>,
    /// Holds while this node leads.
    leads: watch::Sender<Option<Compare>>,
    cleaner: Cleaner,
    /// Time and sequence of the leader's last clean-up.
    cleaned: Option<(Instant, u64)>,
}

impl Session<'_> {
    async fn work(&mut self) -> Result<()> {
        loop {
            self.read().await?;
            let from = self.follower.state.revision + 1;
            let (asked, _) =
                self.etcd.list("control/asked/", Some(self.follower.state.revision), false).await?;
            let mut watch = self.etcd.watch("control/", from).await?;
            for (key, found) in asked {
                self.answer(&key, &found.value, found.changed).await?;
            }
            self.campaign().await?;
            let mut compare = interval(COMPARE);
            compare.set_missed_tick_behavior(MissedTickBehavior::Delay);
            compare.tick().await;
            let mut retry = interval(RETRY);
            retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut look = interval(HELD);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let (failed, held) = (self.member.error.is_some(), self.held.is_some());
                tokio::select! {
                    told = watch.message() => {
                        let lost = |error: String| ClusterError::Etcd { what: "watching".into(), error };
                        let told = told.map_err(|error| lost(error.to_string()))?;
                        let told = told.ok_or_else(|| lost("the connection ended".into()))?;
                        // After a compaction, the agent reads everything again.
                        if told.canceled() { break }
                        self.heard(&told).await?;
                    }
                    _ = compare.tick() => {
                        self.read().await?;
                        self.campaign().await?;
                        self.clean().await?;
                    }
                    _ = retry.tick(), if failed => self.read().await?,
                    _ = look.tick(), if held => self.follow().await?,
                }
            }
        }
    }

    /// Reads the state (linearisable), and makes the node follow it.
    async fn read(&mut self) -> Result<()> {
        let state = State::read(self.etcd, &self.follower.state).await?;
        self.follower.state = Arc::new(state);
        self.follow().await
    }

    /// Makes the node follow the state that was read, unless it must wait for other nodes.
    async fn follow(&mut self) -> Result<()> {
        if self.waits().await? {
            return Ok(());
        }
        self.held = None;
        let error = match self.follower.follow().await {
            Ok(()) => None,
            Err(error) => Some(error.to_string()),
        };
        let passed = self.follower.state.head.sequence;
        if self.member.passed == passed && self.member.error == error {
            return Ok(());
        }
        if let Some(error) = &error {
            tracing::warn!("change {passed} of the cluster: {error}");
        }
        self.member = Member { passed, error, ..self.member.clone() };
        self.lease.report(self.etcd, self.name, &self.member).await
    }

    /// Whether the node must wait for other nodes before it follows a planned move.
    async fn waits(&mut self) -> Result<bool> {
        // If the part cannot be computed, the attempt to follow reports it.
        let pending = self.follower.pending(self.member.passed).await.unwrap_or_default();
        if pending.is_empty() || !holds(self.name, &pending, &members(self.etcd).await?) {
            return Ok(false);
        }
        let since = *self.held.get_or_insert_with(Instant::now);
        Ok(since.elapsed() < MOST_HELD)
    }

    async fn heard(&mut self, told: &WatchResponse) -> Result<()> {
        let (mut head, mut nodes) = (false, false);
        for event in told.events() {
            let Some(kv) = event.kv() else { continue };
            let key = String::from_utf8_lossy(kv.key()).into_owned();
            let prefix = self.etcd.key("");
            let key = key.strip_prefix(&prefix).unwrap_or_default();
            match (key, event.event_type()) {
                (HEAD, _) => head = true,
                (LEADER, EventType::Delete) => {
                    self.leads.send_replace(None);
                    self.campaign().await?;
                }
                (key, _) if key.starts_with("control/nodes/") => nodes = true,
                (key, EventType::Put) if key.starts_with("control/asked/") => {
                    self.answer(key, kv.value(), kv.mod_revision()).await?;
                }
                _ => {}
            }
        }
        if head {
            self.read().await
        } else if nodes && self.held.is_some() {
            self.follow().await
        } else {
            Ok(())
        }
    }

    /// Answers a question, if it is addressed to this node.
    async fn answer(&mut self, key: &str, value: &[u8], revision: i64) -> Result<()> {
        let asked: Asked = parse(key, value)?;
        if !asked.nodes.iter().any(|node| node == self.name) {
            return Ok(());
        }
        let request = key.rsplit('/').next().unwrap_or_default();
        let known = self.follower.state.clone();
        let refused = match State::of(self.etcd, asked.head, 0, revision, &known).await {
            Ok(state) => match self.follower.check(state).await {
                Ok(refused) => refused,
                Err(error) => Some(error.to_string()),
            },
            // The question was withdrawn long ago.
            Err(ClusterError::Compacted(_) | ClusterError::Damaged { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let answer = text(&Answer { refused })?;
        let put = TxnOp::put(
            self.etcd.key(&answer_key(request, self.name)),
            answer,
            self.lease.options(),
        );
        let when = [self.etcd.is_there(key)];
        self.etcd.transact("answering", &when, vec![put], Vec::new()).await.map(drop)
    }

    /// Becomes the leader, if there is none.
    async fn campaign(&mut self) -> Result<()> {
        let leads = self.leads.borrow().is_some();
        if !leads && self.etcd.get(LEADER).await?.0.is_none() {
            let leads = self.lease.lead(self.etcd, self.name).await?;
            self.leads.send_replace(leads);
        }
        Ok(())
    }

    /// If this node leads, removes unnecessary keys once all live nodes have passed the state.
    async fn clean(&mut self) -> Result<()> {
        let Some(leads) = self.leads.borrow().clone() else { return Ok(()) };
        let sequence = self.follower.state.head.sequence;
        let now = Instant::now();
        let early = self.cleaned.is_some_and(|(at, _)| now.duration_since(at) < CLEAN);
        if early || !members(self.etcd).await?.values().all(|one| one.passed >= sequence) {
            return Ok(());
        }
        self.cleaned = Some((now, sequence));
        let state = self.follower.state.clone();
        let leads = [leads];
        let cleaned = self.cleaner.turn(self.etcd, &state, &leads, now).await?;
        if cleaned.keys > 0 {
            tracing::info!("removed {} old keys and {} stages", cleaned.keys, cleaned.stages);
        }
        // Questions of commands that were killed are removed.
        let (asked, _) = self.etcd.list("control/asked/", None, true).await?;
        for (key, _) in asked {
            let request = key.rsplit('/').next().unwrap_or_default();
            if self.etcd.get(&format!("stages/{request}/begin")).await?.0.is_none() {
                let gone = withdraw(self.etcd, request);
                self.etcd.transact("removing an old question", &leads, gone, Vec::new()).await?;
            }
        }
        Ok(())
    }
}
