//! Reads tables while they change: every answer must be one that the table gave at some time during
//! the batch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use europa_packet::{Ipv4Prefix, Ipv6Prefix};

/// The first bits of an address, left-aligned, and their number.
type Route = (u128, u8);
/// A route that gets this next hop, or is removed.
type Change = (Route, Option<u16>);

const READERS: usize = 2;
const BATCH: usize = 48;

/// Pseudo-random numbers that are the same in every run (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

fn mask(len: u8) -> u128 {
    !u128::MAX.checked_shr(len.into()).unwrap_or(0)
}

/// Changes that return to the first state, and the answers of a table after each change.
struct Cycle {
    changes: Vec<Change>,
    addresses: Vec<u128>,
    /// `answers[n]` after `n` changes.
    answers: Vec<[u16; BATCH]>,
}

impl Cycle {
    /// Makes a cycle with at most this many routes at a time, in a few /24s.
    fn new(random: &mut Random, width: u8, steps: usize, routes: usize) -> Self {
        let mut table: HashMap<Route, u16> = HashMap::new();
        let mut there: Vec<Route> = Vec::new();
        let (mut changes, mut undo) = (Vec::<Change>::new(), Vec::<Change>::new());
        for _ in 0..steps {
            let many = there.len() >= routes || !there.is_empty() && random.below(4) == 0;
            let route = match many {
                true => there[random.below(there.len())],
                false => {
                    let deep = usize::from(width) - 25;
                    let len =
                        [0, 8, 16, 23, 24, 25 + random.below(deep) as u8, width][random.below(7)];
                    let bits = (1 << 127)
                        | (random.below(8) as u128) << 104
                        | (random.below(4) as u128) << 101
                        | (random.below(1 << 20) as u128) << (128 - width) & !mask(27);
                    (bits & mask(len), len)
                }
            };
            let hop = (random.below(3) > 0 || !many).then(|| 1 + random.below(500) as u16);
            let before = match hop {
                Some(hop) => table.insert(route, hop),
                None => table.remove(&route),
            };
            there.retain(|other| *other != route);
            there.extend(hop.map(|_| route));
            changes.push((route, hop));
            undo.push((route, before));
        }
        changes.extend(undo.into_iter().rev());
        let addresses: Vec<u128> = (0..BATCH)
            .map(|_| {
                let (bits, len) = changes[random.below(steps)].0;
                let other = (random.below(1 << 30) as u128) << 98 | random.below(1 << 30) as u128;
                (bits | other & !mask(len)) & mask(width)
            })
            .collect();
        let mut cycle = Self { changes, addresses, answers: vec![[0; BATCH]] };
        let mut table: HashMap<Route, u16> = HashMap::new();
        for (route, hop) in &cycle.changes {
            match hop {
                Some(hop) => table.insert(*route, *hop),
                None => table.remove(route),
            };
            let answer = |address: &u128| {
                let longest =
                    (0..=width).rev().find_map(|len| table.get(&(address & mask(len), len)));
                longest.copied().unwrap_or(0)
            };
            let answers: Vec<u16> = cycle.addresses.iter().map(answer).collect();
            cycle.answers.push(answers.try_into().unwrap());
        }
        assert_eq!(cycle.answers.first(), cycle.answers.last());
        cycle
    }

    /// Checks that each answer equals the table's answer after some number of changes from `first`
    /// to `last`. If the table was seen as a whole, it must be the same number for all.
    fn check(&self, found: &[u16; BATCH], first: usize, last: usize, whole: bool) {
        let last = last.min(first + self.changes.len());
        let states = || (first..=last).map(|step| &self.answers[step % self.changes.len()]);
        if whole {
            assert!(states().any(|state| state == found), "{found:?} after {first} to {last}");
            return;
        }
        for (at, found) in found.iter().enumerate() {
            let fits = states().any(|state| state[at] == *found);
            assert!(fits, "{:x}: {found} after {first} to {last}", self.addresses[at]);
        }
    }
}

/// Runs a writer through the cycle for some time, beside readers. Returns the number of batches
/// that they read.
fn run<T: RouteTable + Send>(
    mut table: T,
    cycle: &Cycle,
    (time, rounds, few): (Duration, usize, bool),
    prefix: impl Fn(Route) -> T::Prefix + Sync,
    address: impl Fn(u128) -> T::Address + Sync,
) -> usize
where
    T::Address: Send + Sync,
{
    let (begun, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let batches = AtomicUsize::new(0);
    let addresses: Vec<T::Address> = cycle.addresses.iter().map(|bits| address(*bits)).collect();
    std::thread::scope(|scope| {
        for number in 0..READERS {
            let mut reader = table.reader();
            let (begun, done, stop, batches) = (&begun, &done, &stop, &batches);
            let addresses = &addresses;
            scope.spawn(move || {
                let mut found = [0; BATCH];
                while !stop.load(Ordering::Relaxed) {
                    for round in 0..64 {
                        let first = done.load(Ordering::SeqCst);
                        let batch = reader.batch();
                        match round % 3 {
                            0 => {
                                for (found, address) in found.iter_mut().zip(addresses) {
                                    *found = batch.lookup(*address).map_or(0, NextHop::get);
                                }
                            }
                            _ => batch.lookup_batch(addresses, &mut found),
                        }
                        drop(batch);
                        cycle.check(&found, first, begun.load(Ordering::SeqCst), few);
                        if round % 16 == number {
                            reader.rest();
                        }
                    }
                    batches.fetch_add(64, Ordering::Relaxed);
                }
            });
        }
        let start = Instant::now();
        let mut step = 0;
        while start.elapsed() < time && step < rounds * cycle.changes.len() {
            for (route, hop) in &cycle.changes {
                begun.store(step + 1, Ordering::SeqCst);
                match hop.and_then(NextHop::new) {
                    // The table is full until readers have passed a quiescent state, and a reader
                    // may have no core.
                    Some(hop) => {
                        while table.insert(prefix(*route), hop).is_err() {
                            std::thread::yield_now();
                        }
                    }
                    None => drop(table.remove(prefix(*route))),
                }
                step += 1;
                done.store(step, Ordering::SeqCst);
            }
        }
        while batches.load(Ordering::Relaxed) < 64 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(table.is_empty(), "the cycle ends where it began");
    batches.into_inner()
}

fn four((bits, len): Route) -> Ipv4Prefix {
    Ipv4Prefix::new(((bits >> 96) as u32).into(), len).unwrap()
}

fn six((bits, len): Route) -> Ipv6Prefix {
    Ipv6Prefix::new(bits.into(), len).unwrap()
}

const SOME_TIME: Duration = Duration::from_millis(700);

#[test]
fn every_answer_is_an_old_or_a_new_one() {
    let mut random = Random(1);
    for routes in [100, 400] {
        let few = routes < 127;
        let cycle = Cycle::new(&mut random, 32, 600, routes);
        let how = (SOME_TIME, usize::MAX >> 32, few);
        let first = |bits| (bits >> 96) as u32;
        let table = if few { Dir24::new() } else { Dir24::for_many() };
        println!("IPv4: {} batches", run(table, &cycle, how, four, first));
        let cycle = Cycle::new(&mut random, 128, 600, routes);
        // Room for little more than the routes, so that nodes are soon used again.
        let table = if few { Multibit6::new() } else { Multibit6::with_capacity(700) };
        println!("IPv6: {} batches", run(table, &cycle, how, six, |bits| bits));
    }
}

/// This happens repeatedly, in the middle of a cycle that begins with an empty table.
#[test]
fn tables_become_large_while_they_are_read() {
    let mut random = Random(2);
    let how = (SOME_TIME, 1, false);
    for _ in 0..10 {
        let cycle = Cycle::new(&mut random, 32, 400, 200);
        run(Dir24::new(), &cycle, how, four, |bits| (bits >> 96) as u32);
        let cycle = Cycle::new(&mut random, 128, 400, 200);
        run(Multibit6::new(), &cycle, how, six, |bits| bits);
    }
}
