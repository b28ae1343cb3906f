//! Signallers: a process for each slice that has a router with `signalling`.
//!
//! | file      | concern                                            |
//! |-----------|----------------------------------------------------|
//! | `plan`    | the plan of each                                   |
//! | `process` | one of them: start, adoption, orders, messages     |
//!
//! In each round of the loop, the node compares each signaller's plan with the documents, as for
//! queues and meters.

mod plan;
mod process;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_api::Documents;
use europa_api::rest::Status;
use europa_plan::RouterPlan;
use europa_sandbox::Child;
use europa_sandbox::cgroup::Group;
use europa_signaller::orders::{Said, Shown};
use serde::{Deserialize, Serialize};

use self::plan::{Signalling, SlicePlan, plans};
use self::process::Process;
use crate::NodeError;
use crate::backoff::Backoff;
use crate::control::Reply;
use crate::events::Events;
use crate::kept::{Found, Kept};
use crate::routers::{Router, Routers};

/// The prefix of the names of records.
pub(crate) const KIND: &str = "signaller.";
/// Most messages that are read from one signaller in a round.
const MOST_MESSAGES: usize = 64;

/// The facts about a signaller that the next node needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignallerRecord {
    slice: String,
    number: u32,
}

/// The control group of a slice's signaller. No router has it: names have no `_`.
pub(crate) fn group(slice: &str) -> String {
    format!("slice_{slice}/_signaller")
}

/// A slice's signaller, or the time of its next start.
struct Slice {
    process: Option<Process>,
    backoff: Backoff,
    due: Option<Instant>,
    restarts: u64,
}

/// The last known state of a flow.
#[derive(Clone, Debug, Default)]
struct FlowNews {
    is_up: bool,
    message: Option<String>,
}

/// All signallers.
#[derive(Default)]
pub(crate) struct Signallers {
    slices: BTreeMap<String, Slice>,
    wanted: BTreeMap<String, SlicePlan>,
    /// The sources of `wanted`.
    seen: Option<(Arc<Documents>, Vec<Arc<RouterPlan>>)>,
    news: BTreeMap<String, FlowNews>,
}

/// Makes the log and the control group of a new signaller.
pub(crate) type Equip<'a> = dyn FnMut(&str) -> Result<(File, Option<Group>), NodeError> + 'a;

impl Signallers {
    /// Takes over a signaller that a former node has started, if it still runs.
    pub(crate) fn adopt(
        &mut self,
        found: &Found<SignallerRecord>,
        kept: &Kept,
    ) -> Result<(), String> {
        let process = Process::adopt(found, kept)?;
        let slice = process.slice().to_owned();
        if self.slices.contains_key(&slice) {
            return Err("the slice has another one".into());
        }
        self.slices.insert(slice, Slice::of(Some(process)));
        Ok(())
    }

    /// Their processes' numbers.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.slices.values().filter_map(|slice| Some(slice.process.as_ref()?.pid()))
    }

    /// Names of control groups that are theirs.
    pub(crate) fn groups(&self) -> impl Iterator<Item = String> {
        self.slices.keys().map(|slice| group(slice))
    }

    /// Descriptors that the loop waits for.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.slices.values().filter_map(|slice| slice.process.as_ref()).flat_map(Process::fds)
    }

    /// The time of the next start.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.slices.values().filter_map(|slice| slice.due).min()
    }

    /// Changes signallers to the documents. Costs little without a change.
    pub(crate) fn follow(
        &mut self,
        kept: &Kept,
        documents: &Arc<Documents>,
        routers: &mut Routers,
        events: &Events,
        equip: &mut Equip<'_>,
    ) {
        if self.slices.is_empty() && !routers.iter().any(|router| signals(&router.wanted)) {
            return;
        }
        self.plan(documents, routers);
        let now = Instant::now();
        let gone: Vec<String> =
            self.slices.keys().filter(|slice| !self.wanted.contains_key(*slice)).cloned().collect();
        for slice in gone {
            if let Some(process) = self.slices.remove(&slice).and_then(|slice| slice.process) {
                process.end(kept);
                events.note("slice", &slice, "SignallerEnded", "no router signals any more");
            }
        }
        for (name, wanted) in &self.wanted {
            let slice = self.slices.entry(name.clone()).or_insert_with(|| Slice::of(None));
            slice.bury(name, kept, events, now);
            if slice.process.is_none() && slice.due.is_none_or(|due| due <= now) {
                let number = self.wanted.keys().position(|other| other == name).unwrap_or(0) as u32;
                match equip(name)
                    .and_then(|(log, group)| Process::start(name, number, kept, &log, group))
                {
                    Ok(process) => {
                        let message = format!("process {}", process.pid());
                        events.note("slice", name, "SignallerStarted", message);
                        (slice.process, slice.due) = (Some(process), None);
                    }
                    Err(error) => {
                        tracing::error!("starting the signaller of slice {name}: {error}");
                        slice.due = Some(slice.backoff.failed(Duration::ZERO, now));
                    }
                }
            }
            if let Some(process) = &mut slice.process {
                let told =
                    process.tell(wanted).and_then(|()| process.attach(name, wanted, routers));
                if let Err(error) = told {
                    // An ended signaller is reaped in the next round.
                    tracing::warn!("the signaller of slice {name}: {error}");
                }
            }
        }
    }

    /// Plans again if documents or routers have changed.
    fn plan(&mut self, documents: &Arc<Documents>, routers: &[Router]) {
        let plans_of = || routers.iter().map(|router| &router.wanted).filter(|plan| signals(plan));
        if let Some((seen, plans)) = &self.seen
            && Arc::ptr_eq(seen, documents)
            && plans.len() == plans_of().count()
            && plans.iter().zip(plans_of()).all(|(one, other)| Arc::ptr_eq(one, other))
        {
            return;
        }
        let signalling = plans_of().filter_map(|plan| {
            let document =
                documents.routers.iter().find(|document| plan.name == document.full_name())?;
            Some(Signalling { plan: plan.clone(), document })
        });
        let signalling: Vec<_> = signalling.collect();
        self.wanted = plans(documents, &signalling);
        self.seen = Some((documents.clone(), plans_of().cloned().collect()));
        let flows = self.wanted.values().flat_map(|slice| &slice.flows);
        let names: HashSet<&str> = flows.map(|flow| flow.name.as_str()).collect();
        self.news.retain(|name, _| names.contains(name.as_str()));
    }

    /// Reads the messages of all signallers.
    pub(crate) fn hear(&mut self, events: &Events) {
        for (name, slice) in &mut self.slices {
            let Some(process) = &mut slice.process else { continue };
            for said in process.hear(MOST_MESSAGES) {
                match said {
                    Said::Shown(shown) => {
                        for flow in &shown.flows {
                            let news = self.news.entry(flow.name.clone()).or_default();
                            news.is_up = flow.is_up;
                        }
                        process.shown(*shown);
                    }
                    Said::Detached(router) => process.detached(&router),
                    Said::Happened { flow, is_warning, reason, message } => {
                        // A slice reports only its own flows.
                        let own = self.wanted.get(name).is_some_and(|wanted| {
                            wanted.flows.iter().any(|known| known.name == flow)
                        });
                        if !own || !process.may_note() {
                            continue;
                        }
                        let news = self.news.entry(flow.clone()).or_default();
                        match reason.as_str() {
                            "Up" | "Rerouted" => (news.is_up, news.message) = (true, None),
                            "Down" => news.is_up = false,
                            _ => {}
                        }
                        if is_warning {
                            news.message = Some(message.clone());
                            events.warn("flow", &flow, &reason, message);
                        } else {
                            events.note("flow", &flow, &reason, message);
                        }
                    }
                }
            }
        }
    }

    /// The last known state of a flow, for users.
    pub(crate) fn status(&self, name: &str) -> Status {
        let news = self.news(name);
        let state = if news.is_up { "up" } else { "down" };
        Status { state: state.into(), message: news.message, ..Status::default() }
    }

    /// The last known state of a flow.
    fn news(&self, flow: &str) -> FlowNews {
        self.news.get(flow).cloned().unwrap_or_default()
    }

    /// Slices that have a signaller.
    pub(crate) fn names(&self) -> Vec<String> {
        self.slices.keys().cloned().collect()
    }

    /// Asks a slice's signaller for its present state.
    pub(crate) fn show(&mut self, slice: &str, reply: Reply<Result<Shown, String>>) {
        match self.slices.get_mut(slice).and_then(|slice| slice.process.as_mut()) {
            Some(process) => process.show(reply),
            None => {
                let _ = reply.send(Err(format!("the signaller of slice {slice} does not run")));
            }
        }
    }

    /// Ends them all; their processes are still to be waited for.
    pub(crate) fn take_down(&mut self) -> Vec<Child> {
        self.wanted.clear();
        self.seen = None;
        let slices = std::mem::take(&mut self.slices).into_values();
        slices.filter_map(|slice| Some(slice.process?.into_child())).collect()
    }
}

/// Whether a router has a label table.
fn signals(plan: &RouterPlan) -> bool {
    plan.description.as_ref().is_some_and(|description| description.labels.is_some())
}

impl Slice {
    fn of(process: Option<Process>) -> Self {
        Self { process, backoff: Backoff::new(), due: None, restarts: 0 }
    }

    /// Notes that its process has ended, and when to start another one.
    fn bury(&mut self, name: &str, kept: &Kept, events: &Events, now: Instant) {
        let Some(process) = &mut self.process else { return };
        let Some(exit) = process.ended() else { return };
        let due = self.backoff.failed(now.duration_since(process.started), now);
        let wait = due.saturating_duration_since(now).as_millis();
        let message = format!("{exit}; it is started again in {wait} ms");
        events.warn("slice", name, "SignallerEnded", message);
        if let Some(process) = self.process.take() {
            process.end(kept);
        }
        self.restarts += 1;
        self.due = Some(due);
    }
}
