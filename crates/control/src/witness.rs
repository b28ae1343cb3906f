//! A witness of effects: it receives a record before and after each effect, and a record of each
//! later answer.
//!
//! The contract test gives a witness to the engine of a real node and another one to that of a
//! simulated machine, and compares the records. Without a witness nothing is recorded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use europa_api::Documents;
use europa_plan::{Actual, Desired, Failure, Namespaces, RouterPlan, Step, Subject};
use serde::{Deserialize, Serialize};

use crate::accepted::Commit;
use crate::machine::{Machine, Note, Stop, Taken, Ticket, Verdict};
use crate::question::Question;

/// An effect of the engine on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // The steps of the plan, by their names, and four other effects.
pub enum Effect {
    RemoveRouter,
    RemoveRelay,
    ClosePort,
    TrimHosts,
    MakeHosts,
    ChangeSlowPaths,
    OpenPort,
    ChangePort,
    AdaptPort,
    StartSwitch,
    ChangeFilters,
    ImpairRelay,
    AddRouter,
    UpdateRouter,
    MakeRelay,
    StartSlowPaths,
    Look,
    Check,
    Settle,
    Commit,
}

/// The result of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ending {
    /// It is complete, or has begun.
    Well,
    /// It can be tried again.
    NotNow,
    /// The effect failed, and the known state is unchanged.
    Refused,
    /// The effect failed, and the known state has changed.
    Half,
    /// A later answer is a refusal.
    RefusedLater,
}

/// An effect with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The effect.
    pub effect: Effect,
    /// The object; empty if it concerns many.
    pub object: String,
    /// The result; `None` before the effect.
    pub ending: Option<Ending>,
    /// The error.
    pub why: String,
    /// The objects that exist afterwards, sorted: a kind and a name each.
    pub objects: Vec<String>,
}

/// Receives records of effects.
pub trait Witness: Send {
    /// Receives the record of an effect that begins, has ended, or has been answered. The engine
    /// continues when this returns.
    fn hear(&mut self, record: Record);
}

impl Effect {
    /// The effect of a step.
    pub fn of(step: &Step) -> Self {
        match step {
            Step::RemoveRouter(_) => Effect::RemoveRouter,
            Step::RemoveRelay(_) => Effect::RemoveRelay,
            Step::ClosePort(_) => Effect::ClosePort,
            Step::TrimHosts { .. } => Effect::TrimHosts,
            Step::MakeHosts { .. } => Effect::MakeHosts,
            Step::ChangeSlowPaths { .. } => Effect::ChangeSlowPaths,
            Step::OpenPort(_) => Effect::OpenPort,
            Step::ChangePort { .. } => Effect::ChangePort,
            Step::AdaptPort { .. } => Effect::AdaptPort,
            Step::StartSwitch => Effect::StartSwitch,
            Step::ChangeFilters { .. } => Effect::ChangeFilters,
            Step::ImpairRelay { .. } => Effect::ImpairRelay,
            Step::AddRouter(_) => Effect::AddRouter,
            Step::UpdateRouter { .. } => Effect::UpdateRouter,
            Step::MakeRelay(_) => Effect::MakeRelay,
            Step::StartSlowPaths => Effect::StartSlowPaths,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// The objects of a state, sorted: a kind and a name each.
pub fn objects(actual: &Actual) -> Vec<String> {
    let mut all = Vec::new();
    for port in &actual.ports {
        let stale = if port.stale { ", without its device" } else { "" };
        all.push(format!("port {}{stale}", port.document.name.value));
    }
    for host in actual.hosts.iter() {
        let interfaces = host.interfaces.0.iter().map(|(name, _)| name.value.to_string());
        let interfaces = interfaces.collect::<Vec<_>>().join(" ");
        all.push(format!("host {} of {interfaces}", host.name));
    }
    for (name, made) in &actual.slow_paths {
        let uplink = made.slow_path.as_ref().is_some_and(|one| one.has_uplink());
        all.push(format!("slow path {name}{}", if uplink { " with an uplink" } else { "" }));
    }
    all.extend(actual.relays.iter().map(|relay| format!("relay {}", relay.port)));
    for router in &actual.routers {
        let astray = if router.astray { ", astray" } else { "" };
        let half = if router.half { ", half removed" } else { "" };
        all.push(format!("router {}{astray}{half}", router.plan.name));
    }
    all.extend(actual.filters.iter().map(|filters| format!("filters {}", filters.name)));
    all.sort();
    all
}

/// A machine with a witness of its effects.
pub(crate) struct Watched<'a, M> {
    pub(crate) machine: &'a mut M,
    pub(crate) witness: &'a mut Option<Box<dyn Witness>>,
}

impl<M: Machine> Watched<'_, M> {
    /// Devices have been examined for a plan; `failed` is the first failure.
    pub(crate) fn looked(&mut self, failed: Option<&Failure>) {
        let Some(witness) = self.witness else { return };
        witness.hear(Record {
            ending: Some(if failed.is_none() { Ending::Well } else { Ending::Refused }),
            why: failed.map_or(String::new(), |why| why.text.clone()),
            objects: objects(&self.machine.actual()),
            ..Record::before(Effect::Look, String::new())
        });
    }

    /// Runs an effect on the machine, and reports it to the witness.
    fn watch<T, E>(
        &mut self,
        (effect, object): (Effect, String),
        act: impl FnOnce(&mut M) -> Result<T, E>,
        error: impl FnOnce(&E) -> (bool, &Failure),
    ) -> Result<T, E> {
        let Some(witness) = self.witness else { return act(self.machine) };
        let before = self.machine.actual();
        let record =
            Record { effect, object, ending: None, why: String::new(), objects: objects(&before) };
        witness.hear(record.clone());
        let result = act(self.machine);
        let after = self.machine.actual();
        let (ending, why) = match &result {
            Ok(_) => (Ending::Well, String::new()),
            Err(failed) => match error(failed) {
                (true, why) => (Ending::NotNow, why.text.clone()),
                (false, why) if before == after => (Ending::Refused, why.text.clone()),
                (false, why) => (Ending::Half, why.text.clone()),
            },
        };
        witness.hear(Record { ending: Some(ending), why, objects: objects(&after), ..record });
        result
    }
}

/// Whether an effect can be tried again, and why it has failed.
fn is_not_now(stop: &Stop) -> (bool, &Failure) {
    match stop {
        Stop::NotNow(why) => (true, why),
        Stop::Failed(why) => (false, why),
    }
}

/// The object of a step.
fn object(step: &Step) -> String {
    match (step, step.makes().as_slice()) {
        (Step::AdaptPort { port, .. }, _) => port.to_string(),
        (Step::ImpairRelay { to, .. }, _) => to.port.to_string(),
        (_, [Subject::Router(name)]) => name.to_string(),
        (_, [Subject::Port(name)]) => name.to_string(),
        _ => String::new(),
    }
}

impl<M: Machine> Machine for Watched<'_, M> {
    fn namespaces(&self) -> Namespaces {
        self.machine.namespaces()
    }

    fn probe(&mut self) {
        self.machine.probe();
    }

    fn actual(&self) -> Actual {
        self.machine.actual()
    }

    fn plan(&mut self, question: Question) {
        if let Some(witness) = self.witness {
            let objects = objects(&self.machine.actual());
            witness.hear(Record { objects, ..Record::before(Effect::Look, String::new()) });
        }
        self.machine.plan(question);
    }

    fn discard(&mut self, what: Box<dyn Send>) {
        self.machine.discard(what);
    }

    fn admit(&mut self, desired: &Desired) -> Result<(), Failure> {
        self.machine.admit(desired)
    }

    fn check(&mut self, plans: &[Arc<RouterPlan>]) -> Result<(), Failure> {
        let what = (Effect::Check, String::new());
        self.watch(what, |machine| machine.check(plans), |why| (false, why))
    }

    fn verdict(&mut self) -> Verdict {
        let verdict = self.machine.verdict();
        if let (Some(witness), Verdict::Wrong(why) | Verdict::Failed(why)) =
            (&mut self.witness, &verdict)
        {
            witness.hear(Record::later(Effect::Check, "", why));
        }
        verdict
    }

    fn may_start(&self) -> bool {
        self.machine.may_start()
    }

    fn want(&mut self, documents: &Arc<Documents>) {
        self.machine.want(documents);
    }

    fn take(&mut self, step: &Step, ahead: &VecDeque<Step>, ticket: Ticket) -> Result<Taken, Stop> {
        self.watch(
            (Effect::of(step), object(step)),
            |machine| machine.take(step, ahead, ticket),
            is_not_now,
        )
    }

    fn settle(&mut self) -> Result<(), Stop> {
        let what = (Effect::Settle, String::new());
        self.watch(what, |machine| machine.settle(), is_not_now)
    }

    fn warnings(&self) -> Vec<String> {
        self.machine.warnings()
    }

    fn commit(&mut self, commit: Commit) {
        let what = (Effect::Commit, String::new());
        let commit = |machine: &mut M| {
            machine.commit(commit);
            Ok::<(), Failure>(())
        };
        // The effect's answer follows later.
        let _ = self.watch(what, commit, |why| (false, why));
    }

    fn note(&mut self, note: Note<'_>) {
        self.machine.note(note);
    }
}

impl Record {
    /// An effect that is about to be tried.
    fn before(effect: Effect, object: String) -> Self {
        Self { effect, object, ending: None, why: String::new(), objects: Vec::new() }
    }

    /// A refusal that arrives later.
    pub(crate) fn later(effect: Effect, object: &str, why: &str) -> Self {
        Self {
            effect,
            object: object.to_owned(),
            ending: Some(Ending::RefusedLater),
            why: why.to_owned(),
            objects: Vec::new(),
        }
    }
}
