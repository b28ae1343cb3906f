//! The simulated side of the contract test: the same documents and faults as on a real machine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use europa_control::witness::{Effect, Record, Witness, objects};
use europa_control::{Machine as _, Refusal};
use fastrand::Rng;

use crate::documents::{Choice, first, for_real, next, yaml};
use crate::faults::{Fault, meets};
use crate::history::History;

/// Keeps the records of effects.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Record>>>);

impl Witness for Heard {
    fn hear(&mut self, record: Record) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

/// A simulated machine with its engine. Faults happen only at requests of [`Simulated::apply`].
pub struct Simulated {
    history: History,
    heard: Heard,
    choice: Choice,
    rng: Rng,
}

impl Simulated {
    /// A machine without objects; the seed gives random documents.
    pub fn new(seed: u64) -> Self {
        let heard = Heard::default();
        let mut rng = Rng::with_seed(seed);
        let choice = for_real(first(&mut rng));
        let mut history = History::new(None);
        history.heard_by(heard.clone());
        Self { history, heard, choice, rng }
    }

    /// The next documents, as YAML.
    pub fn choose(&mut self) -> String {
        self.choice = for_real(next(&self.choice, &mut self.rng));
        yaml(&self.choice)
    }

    /// Applies the chosen documents. A fault happens at the first such effect. Returns whether they
    /// were accepted; `None` if the node was killed.
    ///
    /// # Errors
    /// A violated property of the simulation.
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

    /// Lets a minute pass without faults.
    ///
    /// # Errors
    /// A violated property of the simulation.
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

/// Whether histories have this fault at this effect.
pub fn knows(effect: Effect, fault: Fault) -> bool {
    meets(effect, fault)
}
