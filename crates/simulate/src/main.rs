//! `simulate`: runs histories and exits with 0 if all succeed, with 1 if one fails.
//!
//! Settings in the environment: `HISTORIES` (2000), `SEED` (1), `PLANT` (a planted fault; `list`
//! prints their names).

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use europa_simulate::{PLANTS, Plant, search};

fn main() -> ExitCode {
    match simulate() {
        Ok(code) => code,
        Err(why) => {
            eprintln!("simulate: {why}");
            ExitCode::from(2)
        }
    }
}

fn simulate() -> Result<ExitCode, String> {
    let histories = number("HISTORIES", 2000)?;
    let seed = number("SEED", 1)?;
    let plant = match env::var("PLANT").unwrap_or_default().as_str() {
        "" => None,
        "list" => {
            PLANTS.iter().for_each(|(name, _)| println!("{name}"));
            return Ok(ExitCode::SUCCESS);
        }
        name => Some(Plant::named(name).ok_or_else(|| {
            format!("PLANT={name}: there is no such fault; PLANT=list shows them")
        })?),
    };
    let began = Instant::now();
    let (failing, coverage) = search(histories, seed, plant);
    if let Some(failing) = failing {
        println!("history {} fails, after {} others: {}", failing.seed, failing.after, failing.why);
        println!("again: make simulate HISTORIES=1 SEED={}", failing.seed);
        println!("{} operations are left of it:", failing.operations.len());
        failing.operations.iter().for_each(|operation| println!("  {operation:?}"));
        return Ok(ExitCode::FAILURE);
    }
    println!("{coverage}");
    let seconds = began.elapsed().as_secs_f64();
    println!("{histories} histories from seed {seed} are clean, in {seconds:.1} s");
    let missing = coverage.missing();
    if histories >= 2000 && !missing.is_empty() {
        println!("effects that never met a fault: {missing:?}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn number(name: &str, usual: u64) -> Result<u64, String> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name}={text}: not a whole number")),
        Err(_) => Ok(usual),
    }
}
