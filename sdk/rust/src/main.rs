//! `my-click`: `europa click` with elements of this crate.
//!
//! An element is a type with two traits: [`europa_engine::Class`] gives its name and ports,
//! [`europa_engine::Element`] what it does. [`registry`] adds it to those of Europa; from then
//! on configurations use it like any other:
//!
//! ```sh
//! my-click -e 'InfiniteSource(LIMIT 100, STOP true) -> Every(10) -> c :: Counter -> Discard' -h c.count
//! ```

mod every;

use std::process::ExitCode;

use europa_driver::{Parsed, parse, run_with};
use europa_engine::Registry;

/// Europa's classes and our own.
fn registry() -> Registry {
    let mut registry = europa_driver::registry();
    registry.add::<every::Every>();
    registry
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments) {
        Parsed::Run(options) => ExitCode::from(run_with(*options, registry(), |costs| {
            for cost in costs {
                eprintln!("{} :: {}: {} ns", cost.name, cost.class, cost.spent_ns);
            }
        })),
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
