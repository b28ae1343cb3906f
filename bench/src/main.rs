//! `europa-bench`: measures Europa in comparison with the kernel's own ways to forward packets.
//!
//! One [`testbed`] (generator, router and sink in three network namespaces), one [`generator`] and
//! one [`sink`] serve every [`systems::System`]. A case in [`cases`] decides what is run, and
//! [`report`] writes the results.

// tcx links, runs of a program and interrupt flags are reached by system calls that have no safe wrapper.
#![allow(unsafe_code)]

mod cases;
mod cli;
mod counted;
mod cpu;
mod error;
mod generator;
mod interrupt;
mod machine;
mod measure;
mod netns;
mod programs;
mod progress;
mod report;
mod shell;
mod sink;
mod statistics;
mod streams;
mod systems;
mod testbed;
mod testpmd;

use std::process::ExitCode;

use clap::Parser;

use crate::error::Result;

fn main() -> ExitCode {
    let options = cli::Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("europa-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &cli::Options) -> Result<()> {
    if let Some(ms) = options.poll_clock_ms {
        return cases::preemption::poll(std::time::Duration::from_millis(ms));
    }
    if let Some(name) = &options.count {
        println!("{}", counted::run(name)?);
        return Ok(());
    }
    interrupt::install()?;
    let _alone = testbed::only_one()?;
    testbed::remove_leftovers();
    programs::remove_leftovers();
    let machine = machine::Machine::describe();
    let progress = progress::Progress::new();
    for case in options.cases() {
        let outcome = cases::run(case, options, &progress)?;
        progress.clear();
        report::write(&outcome, &machine, &options.out)?;
    }
    Ok(())
}
