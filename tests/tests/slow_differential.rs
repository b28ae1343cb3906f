//! A router's fast path against its Linux: the same router with it and as a plain namespace, the
//! same settings, the same packets. The packets that leave by each interface must be the same.
//!
//! `EUROPA_DIFFERENTIAL` says how many runs there are, `EUROPA_SEED` with which seed they begin.

#[path = "differential/far.rs"]
mod far;
#[path = "differential/packets.rs"]
mod packets;
#[path = "differential/pair.rs"]
mod pair;
#[path = "differential/random.rs"]
mod random;
#[path = "differential/settings.rs"]
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use europa_tests::{skip_without, skipped};
use pair::Pair;
use random::Random;
use settings::{ALL, Setting};

/// Packets of each run.
const PACKETS: u16 = 24;
/// From one setting to the next: neighbours in the list are alike.
const STRIDE: usize = 37;
/// Runs until both routers are made again.
const RUNS: usize = 20;

/// A number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_is_set_the_fast_path_does_as_linux() {
    skip_without!("sysctl", "ethtool");
    let runs = number("EUROPA_DIFFERENTIAL", 0);
    if runs == 0 {
        skipped("EUROPA_DIFFERENTIAL does not say how many runs there are");
        return;
    }
    let first = number("EUROPA_SEED", 1);
    let only = std::env::var("EUROPA_KIND").ok();
    let mut unable = BTreeMap::new();
    let mut failures = Vec::new();
    let mut kinds = BTreeSet::new();
    let mut pair = None;
    let mut used = 0;
    for seed in first..first + runs {
        let setting = &ALL[seed as usize * STRIDE % ALL.len()];
        if only
            .as_ref()
            .is_some_and(|only| !setting.set.contains(only.as_str()) && setting.kind != only)
        {
            continue;
        }
        if used >= RUNS {
            pair = None;
        }
        let pair_now = pair.get_or_insert_with(|| {
            used = 0;
            Pair::new()
        });
        used += if setting.stays() { RUNS } else { 1 };
        if let Err(why) = run(pair_now, setting, seed, &mut failures) {
            unable.insert(setting.set, why);
        } else {
            kinds.insert(setting.kind);
        }
    }
    for (set, why) in &unable {
        skipped(&format!("{set}: {why}"));
    }
    println!("{runs} runs, {} kinds: {kinds:?}", kinds.len());
    assert!(failures.is_empty(), "{} runs differ:\n{}", failures.len(), failures.join("\n"));
}

/// One run. `Err` if it cannot be done here.
fn run(
    pair: &Pair,
    setting: &Setting,
    seed: u64,
    failures: &mut Vec<String>,
) -> Result<(), String> {
    for program in setting.needs {
        if europa_tests::run(&["sh", "-c", &format!("command -v {program}")]).is_err() {
            return Err(format!("{program} is not installed"));
        }
    }
    let mut random = Random::new(seed);
    let packets: Vec<_> =
        (0..PACKETS).map(|number| packets::packet(&mut random, pair.macs(), number)).collect();
    let different = pair.try_out(setting, &packets)?;
    if !different.is_empty() {
        let text = different.join("\n  ");
        failures.push(format!("seed {seed}, {}: {}\n  {text}", setting.kind, setting.set));
        println!("{}", failures.last().map_or("", String::as_str));
    }
    Ok(())
}
