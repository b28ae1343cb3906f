//! One history: operations and faults that follow from a seed, and checks of the properties after
//! each operation.

mod holds;
mod random;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use europa_api::Kept;
use europa_control::witness::Witness;
use europa_control::{Accepted, Engine, Machine, Outcome, Refusal, Submission, Ticket, Time};
use europa_plan::{Desired, Failure, SliceId, list};
use fastrand::Rng;
use holds::{Compared, sorted};
use random::What;
pub use random::{Operation, operations};

use crate::contract::Heard;
use crate::documents::{Choice, documents, restore};
use crate::faults::Coverage;
use crate::machine::{Event, SimMachine};
use crate::plant::Plant;

/// Interval at which the node compares actual and desired state.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The longest time to wait for an answer to a submission.
const MOST: Duration = Duration::from_secs(600);
/// The maximum number of turns of the engine without progress of time.
const MOST_TURNS: usize = 10_000;

/// The result of a history.
pub struct Report {
    /// The violated property, and the number of operations before it.
    pub broken: Option<(usize, String)>,
    /// Faults that effects have met.
    pub coverage: Coverage,
}

/// Runs operations, and returns the violated property.
pub fn run(operations: &[Operation], plant: Option<Plant>) -> Report {
    let mut history = History::new(plant);
    let mut broken = None;
    for (at, operation) in operations.iter().enumerate() {
        if let Err(why) = history.operate(operation) {
            broken = Some((at + 1, why));
            break;
        }
    }
    if broken.is_none() {
        broken = history.end().err().map(|why| (operations.len(), why));
    }
    Report { broken, coverage: history.machine.coverage }
}

pub(crate) struct History {
    pub(crate) machine: SimMachine,
    engine: Engine,
    looked: Time,
    plant: Option<Plant>,
    /// Whether everything existed when the last change was submitted.
    was_whole: bool,
    /// The devices at that time.
    generations: Vec<u64>,
    /// Records the effects of all engines.
    heard: Option<Heard>,
    /// The last comparison.
    compared: Option<Compared>,
}

type Held = Result<(), String>;
type Answer = Arc<Mutex<Option<Outcome>>>;

impl History {
    /// A machine without objects.
    pub(crate) fn new(plant: Option<Plant>) -> Self {
        Self {
            machine: SimMachine::new(plant),
            engine: Engine::default(),
            looked: Duration::ZERO,
            plant,
            was_whole: false,
            generations: Vec::new(),
            heard: None,
            compared: None,
        }
    }

    /// Connects a listener that records all effects.
    pub(crate) fn heard_by(&mut self, heard: Heard) {
        self.heard = Some(heard);
        let engine = std::mem::take(&mut self.engine);
        self.engine = self.watched(engine);
    }

    fn watched(&self, engine: Engine) -> Engine {
        let witness = self.heard.clone();
        engine.watched(witness.map(|heard| Box::new(heard) as Box<dyn Witness>))
    }

    /// Applies documents, and waits for the answer. `None` if the node was killed.
    pub(crate) fn submit_choice(&mut self, choice: &Choice) -> Result<Option<Outcome>, String> {
        let (submission, _) = self.submission(choice, false);
        let answer = self.submit(submission);
        self.wait_for(&answer)
    }

    fn operate(&mut self, operation: &Operation) -> Held {
        self.machine.trace(|| format!("{operation:?}"));
        self.machine.seed(operation.seed);
        self.machine.faulty = operation.faulty;
        match &operation.what {
            What::Apply(choice) => self.apply(choice, None),
            What::Meanwhile(choice) => {
                self.apply(choice, Some(&mut Rng::with_seed(operation.seed)))
            }
            What::DryRun(choice) => self.dry_run(choice),
            What::Two(one, other) => self.two(one, other),
            What::Kill => {
                self.machine.killed = true;
                self.pass(Duration::from_millis(1))
            }
            What::KillSwitch => {
                self.machine.kill_switch();
                self.pass(Duration::from_secs(3))
            }
            What::KillRouter => {
                let name = self.machine.world.routers.keys().next().cloned();
                if let Some(name) = name {
                    self.machine.end_process(&name);
                }
                self.pass(Duration::from_millis(100))
            }
            What::DeviceGoes(number, seconds) => {
                self.machine.lose_device(*number, Duration::from_secs((*seconds).into()));
                self.pass(Duration::from_secs(5))
            }
            What::ByHand => {
                let mut rng = Rng::with_seed(operation.seed);
                self.machine.by_hand(&mut rng);
                self.pass(LOOK_EVERY * 2)
            }
            What::Number(slice) => {
                self.number(&format!("s{slice}"));
                Ok(())
            }
            What::Wait => self.pass(Duration::from_secs(60)),
        }
    }

    /// The program of a slice makes a numbered rule.
    fn number(&mut self, slice: &str) {
        let slices = &self.engine.accepted().documents.slices;
        if self.engine.is_settled() && slices.iter().any(|other| **other.name == *slice) {
            self.machine.world.numbered.insert(SliceId::new(slice));
            self.machine.world.store.numbered.insert(SliceId::new(slice));
            self.machine.remember();
        }
    }

    fn submission(&self, choice: &Choice, dry_run: bool) -> (Submission, Vec<Kept>) {
        let before: Vec<Kept> =
            self.engine.accepted().stored.iter().map(|stored| stored.kept()).collect();
        let (documents, kept) = documents(choice, &before);
        let base = self.engine.accepted().revision;
        let at = "2026-01-01T00:00:00Z".to_owned();
        (Submission { base, documents, kept: kept.clone(), dry_run, at }, kept)
    }

    fn submit(&mut self, submission: Submission) -> Answer {
        let answer = Answer::default();
        let told = answer.clone();
        self.engine.submit(
            submission,
            Box::new(move |outcome| {
                told.lock().unwrap_or_else(PoisonError::into_inner).replace(outcome);
            }),
        );
        answer
    }

    /// Waits for an answer. `None` if the node was killed before it answered.
    fn wait_for(&mut self, answer: &Answer) -> Result<Option<Outcome>, String> {
        let until = self.machine.now + MOST;
        loop {
            let was_killed = self.go_on()?;
            let outcome = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
            if was_killed || outcome.is_some() {
                return Ok(outcome.filter(|_| !was_killed));
            }
            if self.machine.now > until {
                return Err(format!("no answer within {} s", MOST.as_secs()));
            }
            self.advance();
        }
    }

    /// Applies documents. With `meanwhile`, another program changes objects while the plan is
    /// computed, and the node notices this.
    fn apply(&mut self, choice: &Choice, meanwhile: Option<&mut Rng>) -> Held {
        let (submission, kept) = self.submission(choice, false);
        let before = self.machine.world.store.kept();
        // A missing device may return meanwhile: then more objects are missing than before.
        let all = self.machine.world.devices.values().all(|device| device.there);
        self.was_whole = all && self.difference().is_empty();
        self.machine.taken.clear();
        self.generations = self.machine.generations();
        if self.plant == Some(Plant::CommitBeforeEffect) {
            self.commit_at_once(&submission, &kept);
        }
        let is_settled = self.engine.is_settled();
        let answer = self.submit(submission);
        if let Some(rng) = meanwhile.filter(|_| is_settled) {
            self.go_on()?;
            self.machine.by_hand(rng);
            self.machine.remember();
        }
        let outcome = self.wait_for(&answer)?;
        self.holds(outcome, &before, &kept)
    }

    fn commit_at_once(&mut self, submission: &Submission, kept: &[Kept]) {
        let documents = Arc::new(submission.documents.clone());
        let (_, mut commit) = self.engine.accepted().next(documents, kept, &submission.at);
        commit.revision = commit.base;
        let _ = self.machine.world.store.change(&commit);
    }

    fn dry_run(&mut self, choice: &Choice) -> Held {
        self.machine.faulty = false;
        self.pass(Duration::from_secs(90))?;
        let (submission, kept) = self.submission(choice, true);
        let before = self.machine.world.store.kept();
        let world = self.machine.world.actual();
        let answer = self.submit(submission);
        let Some(told) = self.wait_for(&answer)? else { return Ok(()) };
        if world != self.machine.world.actual() {
            return Err("a dry run has changed something".into());
        }
        let Ok(mut told) = told else { return Ok(()) };
        if self.plant == Some(Plant::DryRunOfDocuments) {
            let named = |step: &String| {
                told.changes.iter().any(|c| step.contains(&*c.name) && !c.fields.is_empty())
            };
            told.steps = told.steps.iter().filter(|step| named(step)).cloned().collect();
        }
        self.machine.taken.clear();
        let actual = self.machine.actual();
        let (submission, _) = self.submission(choice, false);
        let answer = self.submit(submission);
        let outcome = self.wait_for(&answer)?;
        if let Some(Ok(applied)) = &outcome {
            self.told_all(&told, applied, &list(&self.machine.taken, &actual))?;
        }
        self.holds(outcome, &before, &kept)
    }

    fn two(&mut self, one: &Choice, other: &Choice) -> Held {
        let (first, kept) = self.submission(one, false);
        let (second, _) = self.submission(other, false);
        let before = self.machine.world.store.kept();
        let first = self.submit(first);
        let second = self.submit(second);
        let Some(outcome) = self.wait_for(&first)? else { return Ok(()) };
        let changed = outcome.is_ok() && sorted(&before) != sorted(&kept);
        let Some(late) = self.wait_for(&second)? else { return Ok(()) };
        match late {
            Err(Refusal::Stale) => Ok(()),
            _ if changed => Err("a change was carried out that had not seen the one before".into()),
            _ => Ok(()),
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) -> Held {
        let until = self.machine.now + time;
        while self.machine.now < until {
            self.go_on()?;
            self.advance();
        }
        self.go_on().map(drop)
    }

    /// Lets the engine do all work that is possible now. Returns whether the node was killed and
    /// started again.
    fn go_on(&mut self) -> Result<bool, String> {
        let mut was_killed = false;
        for _ in 0..MOST_TURNS {
            let now = self.machine.now;
            let more = self.engine.turn(&mut self.machine, now);
            if self.machine.killed {
                was_killed = true;
                self.begin_again()?;
                continue;
            }
            if let Some(rule) = self.machine.world.broken.take() {
                return Err(rule);
            }
            if !more {
                return Ok(was_killed);
            }
        }
        Err("the engine turns and turns".into())
    }

    /// A new node starts and finds the state of its predecessor.
    fn begin_again(&mut self) -> Held {
        let documents = Arc::new(restore(&self.machine.world.store.kept()));
        let store = &self.machine.world.store;
        let accepted = Accepted {
            revision: store.revision,
            stored: Arc::new(store.documents.clone()),
            documents: documents.clone(),
        };
        self.engine = self.watched(Engine::new(accepted));
        let actual = self.machine.world.actual();
        let world = &self.machine.world;
        let look = |port: &europa_api::Port| world.look(port).map_err(Failure::from);
        let desired = Desired::new(&self.machine.namespaces(), &documents, &actual, look);
        self.machine.adopt(&desired);
        self.engine.reconcile(&mut self.machine);
        Ok(())
    }

    /// Advances to the time of the next event.
    fn advance(&mut self) {
        let look = self.looked + LOOK_EVERY;
        let due = self.engine.due().filter(|due| *due > self.machine.now);
        let next = self.machine.next().into_iter().chain(due).chain([look]).min().unwrap_or(look);
        self.machine.now = next.max(self.machine.now);
        if self.machine.now >= look {
            self.looked = self.machine.now;
            self.look();
        }
        while let Some(event) = self.machine.happens() {
            self.hear(event);
        }
    }

    /// Compares the desired with the actual state.
    fn look(&mut self) {
        if self.plant != Some(Plant::UnchangedMeansDone) {
            self.engine.reconcile(&mut self.machine);
        }
    }

    fn hear(&mut self, event: Event) {
        self.machine.trace(|| format!("{event:?}"));
        match event {
            Event::Started(name, run, outcome) => {
                if !self.machine.started(&name, run, &outcome) {
                    return;
                }
                match outcome {
                    Err(_) if self.plant == Some(Plant::EndCountsAsReady) => {
                        self.engine.ready(&name);
                    }
                    Ok(()) => self.engine.ready(&name),
                    Err(why) => self.engine.failed(&name, &why),
                }
            }
            Event::Updated(name, run, ticket, outcome) => {
                // A router that has ended meanwhile restarts with the settings of the update.
                let is_news = self.machine.updated(&name, run, &outcome);
                let outcome = if is_news { outcome } else { Ok(()) };
                let outcome = outcome.as_ref().map(drop).map_err(String::as_str);
                self.engine.updated(Ticket(ticket), &name, outcome);
            }
            Event::Reloaded(name, ticket, outcome) => {
                self.machine.reloaded(&name, &outcome);
                let outcome = outcome.as_ref().map(drop).map_err(String::as_str);
                self.engine.reloaded(Ticket(ticket), &name, outcome);
            }
            Event::Restart(name, run) => self.machine.restart(&name, run),
            Event::Checked(outcome) => self.machine.checked(outcome),
            Event::Committed(outcome) => self.engine.committed(outcome),
            Event::SwitchBack => self.machine.switch_back(),
            Event::DeviceBack(number) => self.machine.device_back(number),
            Event::Planned(ticket) => {
                if let Some(plan) = self.machine.planned(ticket) {
                    self.engine.planned(plan);
                }
            }
        }
    }
}
