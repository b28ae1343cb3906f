//! The cases: each one measures systems and explains its figures.

mod changes;
mod clicks;
mod fib_update;
mod filter_changes;
mod filters;
mod flows;
mod graph;
mod instructions;
mod interference;
mod latency;
mod many;
mod policing;
mod pool;
mod pool_size;
pub(crate) mod preemption;
mod queues;
mod scale;
mod shares;
mod substrate;
mod sweep;
mod tcp;
mod veth;

use std::path::PathBuf;

use crate::cli::{Case, Options};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::report::Outcome;
use crate::shell;
use crate::systems::{self, Arrangement, System};

/// Runs one case in its own thread: a case may pin its thread to a core, and the systems of the
/// next case must not inherit that.
pub(crate) fn run(case: Case, options: &Options, progress: &Progress) -> Result<Outcome> {
    let outcome =
        std::thread::scope(|scope| scope.spawn(|| run_here(case, options, progress)).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_here(case: Case, options: &Options, progress: &Progress) -> Result<Outcome> {
    match case {
        Case::Veth | Case::All => veth::run(options, progress),
        Case::Xdp => veth::run_xdp(options, progress),
        Case::Latency => latency::run(options, progress),
        Case::Tcp => tcp::run(options, progress),
        Case::Graph => graph::run(options, progress),
        Case::FibUpdate => fib_update::run(options, progress),
        Case::Changes => changes::run(options, progress),
        Case::Queues => queues::run(options, progress),
        Case::Shares => shares::run(options, progress),
        Case::Policing => policing::run(options, progress),
        Case::Substrate => substrate::run(options, progress),
        Case::Preemption => preemption::run(options, progress),
        Case::Filters => filters::run(options, progress),
        Case::Flows => flows::run(options, progress),
        Case::Interference => interference::run(options, progress),
        Case::Scale => scale::run(options, progress),
        Case::PoolSize => pool_size::run(options, progress),
        Case::Pool => pool::run(options, progress),
        Case::Instructions => instructions::run(options, progress),
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

/// The path of the program of a crate's example; builds it if necessary.
fn example(package: &str, name: &str) -> std::result::Result<PathBuf, String> {
    let beside = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = beside.with_file_name("examples").join(name);
    if shell::exists("cargo") {
        shell::run(&format!("cargo build --quiet --release -p {package} --example {name}"))
            .map_err(|error| error.to_string())?;
    }
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("the example `{name}` of {package} is not beside this program.")),
    }
}

/// The default arrangement.
fn plainest(system: &dyn System) -> Result<Arrangement> {
    let first = system.arrangements().into_iter().next();
    first.ok_or_else(|| Error::System {
        system: system.name(),
        message: "knows no arrangement".into(),
    })
}

/// A missing system, and the reason.
struct Missing {
    system: &'static str,
    reason: String,
}

impl Missing {
    fn note(&self) -> String {
        format!("{}: not available, {}.", self.system, self.reason)
    }
}
