//! `fib-update`: look-ups in a full table while another thread changes its routes.
//!
//! The case alternates between Europa's tables and `prefix-trie` behind a read-write lock. A batch
//! of look-ups takes the lock once, and so does each change.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use europa_packet::{Ipv4Prefix, Ipv6Prefix};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use prefix_trie::{Prefix, PrefixMap};
use serde::Serialize;
use serde_json::json;

use super::graph;
use crate::cli::Options;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table, thousands};
use crate::shell;
use crate::statistics::Spread;

const ROUTES: usize = 170_000;
const ADDRESSES: usize = 1 << 20;
const BATCH: usize = 256;
/// Rates in changes a second; `None` means as many as possible.
const RATES: [Option<u32>; 4] = [Some(0), Some(10_000), Some(100_000), None];
const SYSTEMS: [&str; 2] = ["europa", "prefix-trie, RwLock"];

/// The result of a system at one rate of changes.
#[derive(Serialize)]
struct Measured {
    addresses: &'static str,
    routes: usize,
    system: &'static str,
    /// The desired number of changes a second; `None` means as many as possible.
    wanted: Option<u32>,
    lookups_per_second: Vec<f64>,
    updates_per_second: Vec<f64>,
    /// Changes that the table refused because the reader had not released enough room yet.
    refused: u64,
}

impl Measured {
    fn lookups(&self) -> Spread {
        Spread::of(&self.lookups_per_second).unwrap_or_default()
    }

    fn wanted(&self) -> String {
        self.wanted.map_or("as many as can be".to_owned(), |rate| thousands(rate.into()))
    }
}

/// A route in the form of each table.
type Route<T> = (<T as RouteTable>::Prefix, (<T as RouteTable>::Address, u8));

/// Pseudo-random numbers that are the same in every run (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A random entry; `None` if there is none.
    fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get((self.next() >> 16) as usize % all.len().max(1))
    }
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut notes = vec![format!(
        "One thread looks up {ADDRESSES} addresses, each somewhere in a route, in batches of {BATCH}; \
         another one, on another core, changes routes all over the table: withdraws one, inserts it \
         again, gives it another next hop, each a change. Lost: beside no changes, same system. The \
         reference takes its lock once for a batch of look-ups, and once for a change. Medians of \
         {} rounds in turns.",
        options.repeat()
    )];
    let Routes { four, six } = routes(options, &mut notes)?;
    let time = Duration::from_millis(if options.quick { 300 } else { 1000 });
    let mut all = Vec::new();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let say = |what: &str| {
        progress.show(&format!("fib-update: {what}"));
        interrupt::check()
    };
    let addresses: Vec<u32> = (0..ADDRESSES)
        .filter_map(|_| {
            let (_, (first, length)) = random.of(&four)?;
            let inside = u32::MAX.checked_shr(u32::from(*length)).unwrap_or(0);
            Some(first | random.next() as u32 & inside)
        })
        .collect();
    all.extend(family("IPv4", Dir24::new(), &four, &addresses, (options.repeat(), time), say)?);
    let addresses: Vec<u128> = (0..ADDRESSES)
        .filter_map(|_| {
            let (_, (first, length)) = random.of(&six)?;
            let inside = u128::MAX.checked_shr(u32::from(*length)).unwrap_or(0);
            let any = u128::from(random.next()) << 64 | u128::from(random.next());
            Some(first | any & inside)
        })
        .collect();
    all.extend(family("IPv6", Multibit6::new(), &six, &addresses, (options.repeat(), time), say)?);
    Ok(report(&all, notes))
}

/// Measures both systems at all rates, in turns.
fn family<T: RouteTable + Send>(
    name: &'static str,
    mut table: T,
    routes: &[Route<T>],
    addresses: &[T::Address],
    (repeat, time): (u32, Duration),
    say: impl Fn(&str) -> Result<()>,
) -> Result<Vec<Measured>>
where
    T::Prefix: Sync,
    T::Address: Send + Sync,
    (T::Address, u8): Prefix<R = T::Address> + Copy + Send + Sync,
{
    let mut trie = PrefixMap::new();
    for (number, (prefix, pair)) in routes.iter().enumerate() {
        let hop = hop(number);
        table.insert(*prefix, hop).map_err(|error| Error::Other(error.to_string()))?;
        trie.insert(*pair, hop);
    }
    let trie = RwLock::new(trie);
    let host = 8 * size_of::<T::Address>() as u8;
    let mut reader = table.reader();
    let mut batches = addresses.chunks_exact(BATCH).cycle();
    let mut hops = [0; BATCH];
    // Changes continue where the last round stopped, and so add removed routes again.
    let mut counts = [0; 2];
    let mut all = Vec::new();
    for wanted in RATES {
        for system in SYSTEMS {
            let (lookups_per_second, updates_per_second) = (Vec::new(), Vec::new());
            let (addresses, routes) = (name, routes.len());
            all.push(Measured {
                addresses,
                routes,
                system,
                wanted,
                lookups_per_second,
                updates_per_second,
                refused: 0,
            });
        }
    }
    for round in 1..=repeat {
        for one in &mut all {
            say(&format!("{name}, {}, {} changes, {round}/{repeat}", one.system, one.wanted()))?;
            let [ours, theirs] = &mut counts;
            let mut refused = 0;
            let (lookups, updates) = if one.system == SYSTEMS[0] {
                let look = || {
                    let batch = reader.batch();
                    batch.lookup_batch(batches.next().unwrap_or_default(), &mut hops);
                    black_box(&hops);
                };
                let change = || match step(ours, routes) {
                    (Some((prefix, _)), Some(hop)) => {
                        refused += u64::from(table.insert(*prefix, hop).is_err());
                    }
                    (Some((prefix, _)), None) => {
                        black_box(table.remove(*prefix));
                    }
                    _ => {}
                };
                let found = measure(one.wanted, time, look, change);
                reader.rest();
                found
            } else {
                let look = || {
                    let trie = trie.read().unwrap_or_else(PoisonError::into_inner);
                    let batch = batches.next().unwrap_or_default();
                    for (hop, address) in hops.iter_mut().zip(batch) {
                        let found = trie.get_lpm(&(*address, host));
                        *hop = found.map_or(0, |(_, hop)| hop.get());
                    }
                    black_box(&hops);
                };
                let change = || {
                    let mut trie = trie.write().unwrap_or_else(PoisonError::into_inner);
                    match step(theirs, routes) {
                        (Some((_, pair)), Some(hop)) => {
                            black_box(trie.insert(*pair, hop));
                        }
                        (Some((_, pair)), None) => {
                            black_box(trie.remove(pair));
                        }
                        _ => {}
                    }
                };
                measure(one.wanted, time, look, change)
            };
            one.lookups_per_second.push(lookups);
            one.updates_per_second.push(updates);
            one.refused += refused;
        }
    }
    Ok(all)
}

fn hop(number: usize) -> NextHop {
    // Next hops have the numbers 1 to 251.
    NextHop::new((number % 251 + 1) as u16).unwrap_or_else(|| unreachable!("small and not 0"))
}

/// The next change: a route, and its new next hop; `None` removes the route.
fn step<'a, R>(count: &mut usize, routes: &'a [R]) -> (Option<&'a R>, Option<NextHop>) {
    // A step without a common factor visits all routes, in an irregular order.
    let at = (*count / 3).wrapping_mul(104_729) % routes.len().max(1);
    let next_hop = match *count % 3 {
        0 => None,
        1 => Some(hop(at)),
        _ => Some(hop(at + 1)),
    };
    *count += 1;
    (routes.get(at), next_hop)
}

/// Measures look-ups and changes a second.
fn measure(
    rate: Option<u32>,
    time: Duration,
    mut look: impl FnMut(),
    mut change: impl FnMut() + Send,
) -> (f64, f64) {
    let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        if rate != Some(0) {
            scope.spawn(|| {
                stay_on(1);
                let (start, mut done) = (Instant::now(), 0);
                while !stop.load(Ordering::Relaxed) {
                    let due = rate
                        .map_or(f64::MAX, |rate| start.elapsed().as_secs_f64() * f64::from(rate));
                    if done as f64 >= due {
                        std::thread::sleep(Duration::from_micros(20));
                        continue;
                    }
                    change();
                    done += 1;
                    changes.store(done, Ordering::Relaxed);
                }
            });
        }
        stay_on(0);
        let mut run = |time: Duration| {
            let (start, before) = (Instant::now(), changes.load(Ordering::Relaxed));
            let mut looked = 0;
            while start.elapsed() < time {
                for _ in 0..16 {
                    look();
                }
                looked += 16 * BATCH;
            }
            let seconds = start.elapsed().as_secs_f64();
            let changed = changes.load(Ordering::Relaxed) - before;
            (looked as f64 / seconds, changed as f64 / seconds)
        };
        run(time / 4);
        let found = run(time);
        stop.store(true, Ordering::Relaxed);
        found
    })
}

/// Binds this thread to a core, if the machine has that core.
fn stay_on(core: usize) {
    let mut cores = CpuSet::new();
    if cores.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
    }
}

/// Routes of IPv4 and IPv6.
struct Routes {
    four: Vec<Route<Dir24>>,
    six: Vec<Route<Multibit6>>,
}

/// The given routes, or synthetic ones.
fn routes(options: &Options, notes: &mut Vec<String>) -> Result<Routes> {
    let wrong = |error: europa_packet::PrefixError| Error::Other(format!("a route: {error}"));
    let (mut four, mut six): (Vec<Ipv4Prefix>, Vec<Ipv6Prefix>) = (Vec::new(), Vec::new());
    match &options.routes {
        Some(path) => {
            let text = shell::run_words(&["zcat", "-f", &path.to_string_lossy()])?;
            for word in text.lines().filter_map(|line| line.split_whitespace().next()) {
                if word.contains(':') {
                    six.push(word.parse().map_err(wrong)?);
                } else {
                    four.push(word.parse().map_err(wrong)?);
                }
            }
        }
        None => notes.push(format!("{ROUTES} synthetic routes, half of them /24 and /48.")),
    }
    let synthetic = graph::prefixes(if four.is_empty() || six.is_empty() { ROUTES } else { 0 });
    for (network, length) in &synthetic {
        if options.routes.is_none() {
            four.push(Ipv4Prefix::new((*network).into(), *length as u8).map_err(wrong)?);
            let network = 0x2001_u128 << 112 | u128::from(*network) << 72;
            six.push(Ipv6Prefix::new(network.into(), *length as u8 + 24).map_err(wrong)?);
        }
    }
    if four.is_empty() || six.is_empty() {
        return Err(Error::Other("fib-update wants IPv4 and IPv6 routes".into()));
    }
    four.truncate(ROUTES);
    six.truncate(ROUTES);
    let pair = |prefix: Ipv4Prefix| (prefix, (prefix.addr().into(), prefix.prefix_len()));
    let pair6 = |prefix: Ipv6Prefix| (prefix, (prefix.addr().into(), prefix.prefix_len()));
    let (four, six) = (four.into_iter().map(pair), six.into_iter().map(pair6));
    Ok(Routes { four: four.collect(), six: six.collect() })
}

fn report(all: &[Measured], mut notes: Vec<String>) -> Outcome {
    let refused: u64 = all.iter().map(|one| one.refused).sum();
    if refused > 0 {
        notes.push(format!("{refused} changes found no room, as the reader had not gone on."));
    }
    let columns = [
        ("addresses", Align::Left),
        ("routes", Align::Right),
        ("system", Align::Left),
        ("thousand changes/s wanted", Align::Right),
        ("reached", Align::Right),
        ("million look-ups/s", Align::Right),
        ("smallest–largest", Align::Right),
        ("lost", Align::Right),
    ];
    let mut table = Table::new("Look-ups while routes change", &columns);
    let mut bars = Vec::new();
    for one in all {
        let same = |other: &&Measured| {
            (other.addresses, other.system, other.wanted) == (one.addresses, one.system, Some(0))
        };
        let without = all.iter().find(same).map(|none| none.lookups().median);
        let lost = without.map_or(0.0, |without| 100.0 * (1.0 - one.lookups().median / without));
        let Spread { median, min, max } = one.lookups();
        let changes = Spread::of(&one.updates_per_second).unwrap_or_default();
        table.push([
            one.addresses.to_owned(),
            one.routes.to_string(),
            one.system.to_owned(),
            one.wanted(),
            thousands(changes.median),
            format!("{:.1}", median / 1e6),
            format!("{:.1}–{:.1}", min / 1e6, max / 1e6),
            if one.wanted == Some(0) { "–".to_owned() } else { format!("{lost:.0} %") },
        ]);
        let series = usize::from(one.system != SYSTEMS[0]);
        let label = match one.wanted {
            None => format!("{}, most", one.addresses),
            Some(_) => format!("{}, {}k", one.addresses, one.wanted()),
        };
        bars.push(Bar {
            label: if series == 0 { label } else { String::new() },
            detail: String::new(),
            value: median / 1e6,
            range: Some((min / 1e6, max / 1e6)),
            note: format!("{} k changes/s", thousands(changes.median)),
            series,
        });
    }
    let chart = Chart::Bars(Bars {
        title: "Look-ups of one thread while another one changes routes".into(),
        unit: "million look-ups per second".into(),
        series: SYSTEMS.map(String::from).to_vec(),
        bars,
    });
    Outcome {
        name: "fib-update",
        title: "Look-ups while routes change".into(),
        tables: vec![table],
        charts: vec![("fib-update".into(), chart)],
        notes,
        data: json!({ "measured": all }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_goes_comes_back_and_changes() {
        let routes = [10, 11, 12, 13];
        let mut count = 0;
        let mut there = [true; 4];
        for _ in 0..12 {
            let (route, next_hop) = step(&mut count, &routes);
            let at = routes.iter().position(|other| Some(other) == route).unwrap();
            assert_eq!(there[at], count % 3 != 2, "only what has gone comes back");
            there[at] = next_hop.is_some();
        }
        assert_eq!(there, [true; 4]);
    }

    #[test]
    fn changes_keep_their_rate() {
        let (mut looked, mut changed) = (0, 0);
        let (lookups, changes) =
            measure(Some(0), Duration::from_millis(5), || looked += 1, || changed += 1);
        assert!(lookups > 0.0 && changes == 0.0);
        let (_, changes) =
            measure(Some(1000), Duration::from_millis(40), || looked += 1, || changed += 1);
        assert!(changes < 4000.0, "{changes} of 1000 a second");
        assert!(looked > 0);
    }
}
