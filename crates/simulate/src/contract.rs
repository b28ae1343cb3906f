//! The simulated side of the contract test, with the same documents and faults as on a real
//! machine.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use europa_control::witness::{Effect, Record, Witness, objects};
use europa_control::{Machine as _, Refusal};
use europa_plan::{Desired, Failure, diff};
use fastrand::Rng;

use crate::documents::{Choice, documents, first, for_real, next, yaml};
use crate::faults::{Fault, meets};
use crate::history::History;

/// Random documents that are tried, one after the other, until some have a wanted effect.
const TRIES: usize = 12;

/// Keeps the records of effects.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Record>>>);

impl Witness for Heard {
    fn hear(&mut self, record: Record) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

/// A simulated machine with its engine. Faults happen only if [`Simulated::apply`] requests them.
pub struct Simulated {
    history: History,
    heard: Heard,
    choice: Choice,
    rng: Rng,
}

impl Simulated {
    /// A machine without objects; the seed determines the random documents.
    pub fn new(seed: u64) -> Self {
        let heard = Heard::default();
        let mut rng = Rng::with_seed(seed);
        let choice = for_real(first(&mut rng));
        let mut history = History::new(None);
        history.heard_by(heard.clone());
        Self { history, heard, choice, rng }
    }

    /// The next documents, as YAML: such that a step of their plan has a wanted effect, if random
    /// documents with one are found.
    pub fn choose(&mut self, wanted: &BTreeSet<Effect>) -> String {
        let mut choice = for_real(next(&self.choice, &mut self.rng));
        for _ in 1..TRIES {
            if wanted.is_empty() || !self.effects(&choice).is_disjoint(wanted) {
                break;
            }
            choice = for_real(next(&self.choice, &mut self.rng));
        }
        self.choice = choice;
        yaml(&self.choice)
    }

    /// The effects of a change to these documents: those of its steps, and those of every change.
    fn effects(&self, choice: &Choice) -> BTreeSet<Effect> {
        let machine = &self.history.machine;
        let (documents, _) = documents(choice, &[]);
        let (actual, world) = (machine.actual(), &machine.world);
        let look = |port: &europa_api::Port| world.look(port).map_err(Failure::from);
        let desired = Desired::new(&machine.namespaces(), &Arc::new(documents), &actual, look);
        let mut all: BTreeSet<Effect> = diff(&desired, &actual).iter().map(Effect::of).collect();
        all.extend([Effect::Look, Effect::Settle, Effect::Commit]);
        if all.contains(&Effect::AddRouter) {
            all.insert(Effect::Check);
        }
        all
    }

    /// Applies the chosen documents. A fault happens at the first such effect. Returns whether they
    /// were accepted; `None` if the node was killed.
    ///
    /// # Errors
    /// A property of the simulation that was violated.
    pub fn apply(&mut self, fault: Option<(Effect, Fault)>) -> Result<Option<bool>, String> {
        self.history.machine.faulty = false;
        self.history.machine.script = fault;
        let choice = self.choice.clone();
        let outcome = self.history.submit_choice(&choice)?;
        self.history.machine.script = None;
        Ok(outcome.map(|outcome| match outcome {
            Ok(_) => true,
            Err(Refusal::Stale | Refusal::Problem(_)) => false,
        }))
    }

    /// Advances by a minute without faults.
    ///
    /// # Errors
    /// A property of the simulation that was violated.
    pub fn wait(&mut self) -> Result<(), String> {
        self.history.pass(Duration::from_secs(60))
    }

    /// Takes the records of effects so far.
    pub fn heard(&mut self) -> Vec<Record> {
        std::mem::take(&mut *self.heard.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The existing objects, sorted.
    pub fn objects(&self) -> Vec<String> {
        objects(&self.history.machine.actual())
    }
}

/// Whether the histories have this fault at this effect.
pub fn knows(effect: Effect, fault: Fault) -> bool {
    meets(effect, fault)
}
