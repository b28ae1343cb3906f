//! Prints the cost of look-ups and changes with 100,000 rules like ClassBench's:
//!
//! ```text
//! cargo run --release -p europa-filter --example filtering [FILE]
//! ```
//!
//! FILE has filters in ClassBench's format. Without it, three kinds are made from seeds that are
//! printed. Each packet matches a random filter. "median" is for single look-ups, without the cost
//! of reading the clock. "mean" is the mean of all, as the median of five runs. "scan" compares one
//! rule after the other.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use common::{KINDS, generate, packet};
use europa_filter::{Change, Filter, Key, Rule, Slice, Table, Writer, parse};
use europa_impair::Random;

const RULES: usize = 100_000;
const KEYS: usize = 1 << 17;
const BATCH: usize = 256;
/// Number of keys for a linear scan, which takes long.
const SCANNED: usize = 500;
const SLICE: Slice = Slice(1);

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn mean(keys: &[Key<2>], mut look_up: impl FnMut(&Key<2>)) -> f64 {
    let times = (0..5).map(|_| {
        let start = Instant::now();
        keys.iter().for_each(&mut look_up);
        start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64
    });
    median(times.collect())
}

fn single(keys: &[Key<2>], mut look_up: impl FnMut(&Key<2>)) -> f64 {
    let mut time = |key: Option<&Key<2>>| {
        let start = Instant::now();
        key.into_iter().for_each(&mut look_up);
        start.elapsed().as_nanos() as f64
    };
    let empty = median(keys.iter().map(|_| time(None)).collect());
    median(keys.iter().map(|key| time(Some(key))).collect()) - empty
}

fn measure(what: &str, filters: &[Filter]) {
    let mut random = Random::new(9);
    let mut rules: Vec<Rule<u64, 2>> = Vec::new();
    let mut used = 0;
    for (at, filter) in filters.iter().enumerate() {
        for (value, mask) in filter.ternary() {
            let (number, priority) = (rules.len() as u32, u32::MAX - at as u32);
            rules.push(Rule { number, priority, value, mask, result: at as u64 });
        }
        used = at + 1;
        if rules.len() >= RULES {
            break;
        }
    }
    let keys: Vec<Key<2>> = (0..KEYS)
        .map(|_| {
            let filter = &filters[random.below(used as u32) as usize];
            packet(&mut random, filter).key()
        })
        .collect();

    let mut table = Table::new(rules.len() as u32);
    let start = Instant::now();
    for rules in rules.chunks(BATCH) {
        let changes: Vec<_> = rules.iter().map(|rule| Change::Add(*rule)).collect();
        table.apply(SLICE, &changes).expect("room");
    }
    let build = start.elapsed().as_nanos() as f64 / rules.len() as f64;
    let uncached = single(&keys, |key| {
        black_box(table.lookup(SLICE, key));
    });
    let uncached_mean = mean(&keys, |key| {
        black_box(table.lookup(SLICE, key));
    });
    println!(
        "{what}: {used} filters, {} rules, {} tuples, {} MiB; adding {build:.0} ns a rule",
        table.len(),
        table.tuples(SLICE),
        table.memory_bytes() >> 20,
    );

    let mut writer: Writer<u64, 2> = Writer::new(rules.len() as u32);
    let all: Vec<_> = rules.iter().map(|rule| Change::Add(*rule)).collect();
    writer.apply(SLICE, &all).expect("room");
    let mut reader = writer.reader(1 << 15);
    // The first rule has the highest priority.
    let scan = mean(&keys[..SCANNED], |key| {
        black_box(rules.iter().find(|rule| rule.matches(key)));
    });
    let few: Vec<Key<2>> = (0..KEYS).map(|_| keys[random.below(1000) as usize]).collect();
    let cached = {
        let mut batch = reader.batch();
        mean(&few, |key| {
            black_box(batch.lookup(SLICE, key, 64));
        })
    };
    println!(
        "  uncached: median {uncached:.0}, mean {uncached_mean:.0} ns; cached, with counters: mean {cached:.1} ns; \
         scan: mean {scan:.0} ns"
    );

    // Changes while another thread looks up: remove some and add them again.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut looked, start) = (0u64, Instant::now());
            while !done.load(Ordering::Relaxed) {
                for keys in few.chunks(BATCH) {
                    let mut batch = reader.batch();
                    for key in keys {
                        black_box(batch.lookup(SLICE, key, 64));
                    }
                    looked += keys.len() as u64;
                }
            }
            looked as f64 / start.elapsed().as_secs_f64()
        });
        let (mut changed, start) = (0usize, Instant::now());
        while start.elapsed().as_secs_f64() < 1.0 {
            let first = random.below((rules.len() - BATCH) as u32) as usize;
            let some = &rules[first..first + BATCH];
            let remove: Vec<_> = some.iter().map(|rule| Change::Remove(rule.number)).collect();
            let add: Vec<_> = some.iter().map(|rule| Change::Add(*rule)).collect();
            writer.apply(SLICE, &remove).expect("there");
            writer.apply(SLICE, &add).expect("room");
            changed += 2 * BATCH;
        }
        let rate = changed as f64 / start.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        let looked = looking.join().expect("no panic");
        println!("  {:.0} changes/s, while {:.1} million look-ups/s", rate, looked / 1e6);
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args_os().nth(1) {
        let text = std::fs::read_to_string(&path)?;
        let filters = parse(&text).map_err(|(line, error)| format!("line {line}: {error}"))?;
        measure(&path.to_string_lossy(), &filters);
        return Ok(());
    }
    for (kind, seed) in KINDS {
        measure(&format!("{kind:?}, seed {seed}"), &generate(kind, RULES, seed));
    }
    Ok(())
}
