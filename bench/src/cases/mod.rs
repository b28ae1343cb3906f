//! The cases: what is run, and what its figures mean.

mod changes;
mod graph;
mod latency;
mod queues;
mod sweep;
mod tcp;
mod veth;

use crate::cli::{Case, Options};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::report::Outcome;
use crate::systems::{self, Arrangement, System};

/// Runs one case.
pub(crate) fn run(case: Case, options: &Options, progress: &Progress) -> Result<Outcome> {
    match case {
        Case::Veth | Case::All => veth::run(options, progress),
        Case::Latency => latency::run(options, progress),
        Case::Tcp => tcp::run(options, progress),
        Case::Graph => graph::run(options, progress),
        Case::Changes => changes::run(options, progress),
        Case::Queues => queues::run(options, progress),
    }
}

/// The systems that can be measured, and a note for each that cannot.
fn present(options: &Options) -> (Vec<Box<dyn System>>, Vec<Missing>) {
    let mut missing = Vec::new();
    let mut present = systems::all(options);
    present.retain(|system| options.wants(system.name()));
    present.retain(|system| match system.available() {
        Ok(()) => true,
        Err(reason) => {
            missing.push(Missing { system: system.name(), reason });
            false
        }
    });
    (present, missing)
}

/// The arrangement that nobody has to ask for.
fn plainest(system: &dyn System) -> Result<Arrangement> {
    let first = system.arrangements().into_iter().next();
    first.ok_or_else(|| Error::System {
        system: system.name(),
        message: "knows no arrangement".into(),
    })
}

/// A system that is not there, and why.
struct Missing {
    system: &'static str,
    reason: String,
}

impl Missing {
    fn note(&self) -> String {
        format!("{}: not available, {}.", self.system, self.reason)
    }
}
