//! A program with additional elements: it is a `click` program, and becomes a router's process if a
//! node executes it.

use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use europa_router::More;
use europa_router::extended::{AS_ROUTER, run_extended};
use signal_hook::consts::SIGTERM;
use signal_hook::flag::register_conditional_shutdown;

use crate::{Parsed, parse, registry, run_with};

/// The whole `main` of such a program; `more` adds its elements to those of Europa.
///
/// With the arguments of the `click` program it runs a configuration. A router's document names the
/// program in `elements:` next to its `click:`. Then the node executes it in the router's sandbox.
pub fn main(more: More) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, control] = arguments.as_slice()
        && first == AS_ROUTER
    {
        return as_router(control, more);
    }
    match parse(&arguments) {
        Parsed::Run(options) => {
            let mut registry = registry();
            more(&mut registry);
            ExitCode::from(run_with(*options, registry, |costs| {
                for cost in costs {
                    eprintln!("{} :: {}: {} ns", cost.name, cost.class, cost.spent_ns);
                }
            }))
        }
        Parsed::Print(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Parsed::Wrong(text) => {
            eprint!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a router's process, which receives its orders from the descriptor `control`.
fn as_router(control: &str, more: More) -> ExitCode {
    let run = || -> Result<(), String> {
        let number: i32 = control.parse().map_err(|_| format!("{control} is no descriptor"))?;
        // Process 1 of a pid namespace ends only by a signal with a handler.
        register_conditional_shutdown(SIGTERM, 128 + SIGTERM, Arc::new(AtomicBool::new(true)))
            .map_err(|error| error.to_string())?;
        // SAFETY: the node's process has left the descriptor open for this program, and no other
        // code here uses it.
        #[allow(unsafe_code)]
        let control = unsafe { OwnedFd::from_raw_fd(number) };
        run_extended(control, more).map_err(|error| error.to_string())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
