//! Compares a router's fast path with its Linux. The same router runs with the fast path and as a
//! plain namespace, with the same settings and the same packets. The packets that leave by each
//! interface must be the same.
//!
//! `EUROPA_DIFFERENTIAL` is the number of runs, `EUROPA_SEED` the first seed. `EUROPA_KIND` is the
//! subject, or a part of the command, of the only settings that are tried; `features` tries those
//! that need a feature which not every kernel has. Each `EUROPA_BLOCK` ([`RUNS`]) seeds are a block
//! with routers of their own; [`PAIRS`] blocks run at the same time. A message about a difference
//! names the first seed of its block: a run that begins there repeats it. `EUROPA_PATIENCE` is a
//! factor of all times, for slow machines.

#[path = "differential/far.rs"]
mod far;
#[path = "differential/packets.rs"]
mod packets;
#[path = "differential/pair.rs"]
mod pair;
#[path = "differential/random.rs"]
mod random;
#[path = "differential/settings/mod.rs"]
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use europa_tests::{kernel_lacks, skip_without, skipped};
use pair::Pair;
use random::Random;
use settings::Setting;

/// Number of runs in `make test`.
const USUAL: u64 = 100;
/// Packets of each run.
const PACKETS: u16 = 24;
/// Distance from one setting to the next, because neighbours in the list are alike. It is a prime
/// number, so that every setting has its turn.
const STRIDE: usize = 7919;
/// One run of this many has a second setting.
const ALONE: usize = 3;
/// Runs of a block.
const RUNS: u64 = 25;
/// Blocks at the same time: each of them mostly waits.
const PAIRS: u64 = 4;

/// Reads a number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The outcome of all runs.
#[derive(Default)]
struct Outcome {
    /// Runs that were compared.
    runs: u64,
    /// Settings that are impossible here, with the reason.
    unable: BTreeMap<&'static str, String>,
    /// Settings that were compared, by subject.
    kinds: BTreeMap<&'static str, BTreeSet<&'static str>>,
    differences: Vec<String>,
}

#[test]
fn whatever_is_set_the_fast_path_does_as_linux() {
    skip_without!("sysctl", "ethtool");
    let runs = number("EUROPA_DIFFERENTIAL", USUAL);
    let first = number("EUROPA_SEED", 1);
    let block_runs = number("EUROPA_BLOCK", RUNS).max(1);
    let next = AtomicU64::new(0);
    let outcome = Mutex::new(Outcome::default());
    std::thread::scope(|scope| {
        for _ in 0..PAIRS {
            scope.spawn(|| {
                loop {
                    let from = first + next.fetch_add(block_runs, Ordering::Relaxed);
                    if from >= first + runs {
                        return;
                    }
                    block(from..(from + block_runs).min(first + runs), &outcome);
                }
            });
        }
    });
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (set, why) in &outcome.unable {
        skipped(&format!("{set}: {}", why.trim()));
    }
    for (kind, sets) in &outcome.kinds {
        println!("{kind}: {} settings", sets.len());
    }
    println!("{} of {runs} runs compared", outcome.runs);
    let differences = &outcome.differences;
    assert!(
        differences.is_empty(),
        "{} runs differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    assert!(outcome.runs > 0, "no setting was compared");
}

/// The runs of some seeds, one after the other on the same routers.
fn block(seeds: std::ops::Range<u64>, outcome: &Mutex<Outcome>) {
    let only = std::env::var("EUROPA_KIND").ok();
    let from = seeds.start;
    let mut pair = None;
    for seed in seeds {
        let mut random = Random::new(seed);
        let settings = choose(seed, &mut random);
        let is = |only: &String| settings.iter().any(|one| one.is_about(only));
        if only.as_ref().is_some_and(|only| !is(only)) {
            continue;
        }
        if let Some((set, why)) = settings.iter().find_map(|setting| lacks(setting)) {
            outcome.lock().unwrap_or_else(PoisonError::into_inner).unable.insert(set, why);
            continue;
        }
        let routers: &Pair = pair.get_or_insert_with(Pair::new);
        let about: String = settings.iter().map(|setting| setting.set).collect();
        let packets: Vec<_> = (0..PACKETS)
            .map(|number| packets::packet(&mut random, routers.macs(), number, &about))
            .collect();
        let tried = routers.try_out(&settings, &packets);
        if tried.is_spoiled
            || !tried.different.is_empty()
            || settings.iter().any(|setting| setting.stays())
        {
            pair = None;
        }
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.runs += u64::from(!tried.made.is_empty());
        for setting in settings.iter().filter(|setting| tried.made.contains(&setting.set)) {
            outcome.kinds.entry(setting.kind).or_default().insert(setting.set);
        }
        outcome.unable.extend(tried.unable);
        if !tried.different.is_empty() {
            let sets: Vec<_> =
                settings.iter().map(|one| format!("{}: {}", one.kind, one.set)).collect();
            let (sets, text) = (sets.join("\n  "), tried.different.join("\n  "));
            let text = format!("seed {seed} of the block from {from}\n  {sets}\n  {text}");
            println!("{text}");
            outcome.differences.push(text);
        }
    }
}

/// The settings of a run: one, and in some a second one of another kind.
fn choose(seed: u64, random: &mut Random) -> Vec<&'static Setting> {
    let all = settings::all();
    let mut chosen = vec![all[seed as usize * STRIDE % all.len()]];
    if random.below(ALONE) == 0 {
        let second = *random.one(&all);
        chosen.extend((second.kind != chosen[0].kind).then_some(second));
    }
    chosen
}

/// The setting and what it needs, if a program is not installed or the kernel lacks a feature.
fn lacks(setting: &'static Setting) -> Option<(&'static str, String)> {
    let is_missing = |program: &&&str| {
        europa_tests::run(&["sh", "-c", &format!("command -v {program}")]).is_err()
    };
    if let Some(program) = setting.needs.iter().find(is_missing) {
        return Some((setting.set, format!("{program} is not installed")));
    }
    static KNOWN: Mutex<BTreeMap<&str, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let feature = setting.feature;
    let lacking = known
        .entry(feature)
        .or_insert_with(|| if feature.is_empty() { None } else { kernel_lacks(&[feature]) });
    lacking.clone().map(|why| (setting.set, why))
}
