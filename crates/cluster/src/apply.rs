//! Applies a requested change: plans it, stages it, asks the nodes concerned, commits it, and waits
//! for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use etcd_client::Compare;
use europa_api::Key;
use europa_api::rest::Action;
use tokio::time::{Instant, sleep};

use crate::change::{Wish, plan};
use crate::error::{ClusterError, Result};
use crate::etcd::Etcd;
use crate::member::{Answer, Asked, Member, asked_key, members, withdraw};
use crate::moves::Moving;
use crate::place::Place;
use crate::store::{State, Writer, parse, text};

/// Time limit for nodes to check their parts.
const CHECKING: Duration = Duration::from_secs(5);
/// Time limit for nodes to run their parts; then the command reports that they are not ready.
const RUNNING: Duration = Duration::from_secs(60);
/// Time between two looks for answers.
const LOOK: Duration = Duration::from_millis(50);
/// How often a change is planned again because other changes precede it.
const TRIES: usize = 16;

/// How a requested change is applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Check everything, and change nothing.
    pub dry_run: bool,
    /// Accept the change although some nodes concerned have no lease; they carry it out when they
    /// return.
    pub allow_absent: bool,
}

/// Conditions of a change that the cluster makes itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// Comparisons that hold until the change takes effect.
    pub(crate) when: Vec<Compare>,
    /// The nodes that are asked. Default: all nodes concerned.
    pub(crate) ask: Option<BTreeSet<String>>,
}

/// The result of a wish.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The sequence of the state after the change.
    pub sequence: u64,
    /// Documents that differ, with their nodes.
    pub changes: Vec<(Action, Key, Option<Place>)>,
    /// Routers and hosts that change their node.
    pub moving: Vec<Moving>,
    /// Number of objects without changes.
    pub unchanged: usize,
    /// Nodes whose part differs.
    pub concerned: Vec<String>,
    /// Nodes that run their part.
    pub ready: Vec<String>,
    /// Nodes that do not run their part yet, with the reason.
    pub waiting: BTreeMap<String, String>,
}

/// A name that is used only once: 16 hexadecimal digits.
fn request_id() -> Result<String> {
    let number = getrandom::u64()
        .map_err(|error| ClusterError::Refused(format!("no random numbers: {error}")))?;
    Ok(format!("{number:016x}"))
}

/// Applies a requested change, and waits until nodes run it. After a mistake, a refusal or a
/// timeout of a node, nothing changes.
///
/// # Errors
/// The reason for the failure, or that the outcome is unknown.
pub async fn apply(etcd: &Etcd, wish: &Wish, options: Options) -> Result<Outcome> {
    let mut outcome = commit(etcd, wish, options, &Terms::default()).await?;
    if !options.dry_run && !outcome.concerned.is_empty() {
        await_nodes(etcd, &mut outcome).await?;
    }
    Ok(outcome)
}

/// Makes a requested change effective, without waiting for nodes to run it.
pub(crate) async fn commit(
    etcd: &Etcd,
    wish: &Wish,
    options: Options,
    terms: &Terms,
) -> Result<Outcome> {
    let mut known = State::default();
    for _ in 0..TRIES {
        known = State::read(etcd, &known).await?;
        let planned = plan(&known, wish)?;
        let mut outcome = Outcome {
            sequence: known.head.sequence,
            unchanged: planned.after.kept.len(),
            changes: planned.changes,
            moving: planned.moving,
            concerned: planned.parts.keys().cloned().collect(),
            ..Outcome::default()
        };
        let new = outcome.changes.iter().filter(|(action, ..)| *action != Action::Remove).count();
        outcome.unchanged -= new;
        if planned.change.is_empty() {
            return Ok(outcome);
        }
        let present = match &terms.ask {
            None => present(etcd, &outcome.concerned, options).await?,
            Some(ask) => outcome.concerned.iter().filter(|n| ask.contains(*n)).cloned().collect(),
        };
        let mut writer = Writer::new(&known, &planned.change, &request_id()?)?;
        writer.stage_all(etcd).await?;
        let agreed = ask(etcd, &writer, &present).await;
        if agreed.is_err() || options.dry_run {
            // If this fails, the leader removes the stage.
            let _ = writer.give_up(etcd).await;
            return agreed.map(|()| outcome);
        }
        match writer.commit_while(etcd, &terms.when).await {
            Err(ClusterError::Conflict) => drop(writer.give_up(etcd).await),
            Err(error @ ClusterError::Outdated) => {
                let _ = writer.give_up(etcd).await;
                return Err(error);
            }
            Err(error) => return Err(error),
            Ok(sequence) => {
                outcome.sequence = sequence;
                return Ok(outcome);
            }
        }
    }
    Err(ClusterError::Conflict)
}

/// The nodes concerned that have a lease.
async fn present(etcd: &Etcd, concerned: &[String], options: Options) -> Result<Vec<String>> {
    let members = members(etcd).await?;
    let (present, absent): (Vec<_>, Vec<_>) =
        concerned.iter().cloned().partition(|node| members.contains_key(node));
    if absent.is_empty() || options.allow_absent {
        return Ok(present);
    }
    Err(ClusterError::Refused(format!(
        "{} concerned and has no lease: its agent does not run, or does not reach etcd. Nothing was \
         changed. Start `europa cluster agent` there, or say --allow-absent: its part then waits for it",
        named(&absent)
    )))
}

/// `node a is`, `nodes a, b are`.
fn named(nodes: &[String]) -> String {
    match nodes {
        [one] => format!("node {one} is"),
        all => format!("nodes {} are", all.join(", ")),
    }
}

/// Asks nodes to check their parts.
async fn ask(etcd: &Etcd, writer: &Writer, nodes: &[String]) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let request = writer.stage();
    let asked = Asked { nodes: nodes.to_vec(), head: writer.head().clone() };
    let put = etcd_client::TxnOp::put(etcd.key(&asked_key(request)), text(&asked)?, None);
    etcd.transact("asking nodes", &[], vec![put], Vec::new()).await?;
    let answers = answers(etcd, request, nodes).await;
    // The leader removes remaining keys.
    let _ = etcd.transact("withdrawing a question", &[], withdraw(etcd, request), Vec::new()).await;
    let answers = answers?;
    let silent: Vec<String> =
        nodes.iter().filter(|node| !answers.contains_key(*node)).cloned().collect();
    let refused = answers.iter().filter_map(|(node, answer)| {
        answer.refused.as_ref().map(|why| format!("node {node} refuses: {why}"))
    });
    let mut reasons: Vec<String> = refused.collect();
    if !silent.is_empty() {
        let seconds = CHECKING.as_secs();
        reasons.push(format!("{} silent for {seconds} s", named(&silent)));
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(ClusterError::Refused(format!("nothing was changed: {}", reasons.join("\n"))))
}

/// Answers that arrive before the deadline.
async fn answers(etcd: &Etcd, request: &str, nodes: &[String]) -> Result<BTreeMap<String, Answer>> {
    let start = Instant::now();
    loop {
        let (found, _) = etcd.list(&format!("control/answers/{request}/"), None, false).await?;
        let mut answers = BTreeMap::new();
        for (key, one) in &found {
            let node = key.rsplit('/').next().unwrap_or_default();
            answers.insert(node.to_owned(), parse::<Answer>(key, &one.value)?);
        }
        if nodes.iter().all(|node| answers.contains_key(node)) || start.elapsed() > CHECKING {
            return Ok(answers);
        }
        sleep(LOOK).await;
    }
}

/// Waits until the nodes concerned run the change.
pub(crate) async fn await_nodes(etcd: &Etcd, outcome: &mut Outcome) -> Result<()> {
    let start = Instant::now();
    let mut left: BTreeSet<String> = outcome.concerned.iter().cloned().collect();
    loop {
        let members = members(etcd).await?;
        outcome.waiting.clear();
        let has_passed = |member: &Member| member.passed >= outcome.sequence;
        let mut pending = false;
        for node in left.clone() {
            let why = match members.get(&node) {
                None => "it has no lease".to_owned(),
                Some(member) if !has_passed(member) => {
                    pending = true;
                    "it has not run the change yet".to_owned()
                }
                Some(Member { error: Some(error), .. }) => error.clone(),
                Some(_) => {
                    left.remove(&node);
                    outcome.ready.push(node);
                    continue;
                }
            };
            outcome.waiting.insert(node, why);
        }
        if !pending || start.elapsed() > RUNNING {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

/// Waits until a node runs a change; returns the reason if it does not.
pub(crate) async fn await_node(
    etcd: &Etcd,
    node: &str,
    sequence: u64,
    patience: Duration,
) -> Result<Option<String>> {
    let start = Instant::now();
    loop {
        match members(etcd).await?.remove(node) {
            None => return Ok(Some("it has lost its lease".to_owned())),
            Some(member) if member.passed >= sequence => return Ok(member.error),
            Some(_) if start.elapsed() > patience => {
                return Ok(Some(format!("it is not ready within {} s", patience.as_secs())));
            }
            Some(_) => sleep(LOOK).await,
        }
    }
}
