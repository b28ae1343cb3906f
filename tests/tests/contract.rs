//! The contract of the simulated machine: the same documents and faults have the same effects on it
//! and on a real node.
//!
//! A conductor hears of each effect of the real node before and after it, and provokes a fault at one
//! of them: the node has no descriptor left, the node is killed, the switch is killed. The simulated
//! machine then gets the fault that was seen. `EUROPA_CONTRACT` is the number of sequences.

mod conductor;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use conductor::{Act, Conductor, Seen};
use europa_control::witness::{Effect, Ending, Record};
use europa_simulate::{EFFECTS, FAULTS, Fault, Simulated, knows};
use europa_tests::{Lab, Leftovers, Node, Process, skip_without};

/// Sequences of `make test`.
const SEQUENCES: u64 = 200;
/// A machine is thrown away after so many sequences.
const OF_A_MACHINE: u64 = 25;

/// Effects and their results, with counts of the real and of the simulated machine.
#[derive(Default)]
struct Table(BTreeMap<(Effect, String), [u64; 2]>);

impl Table {
    fn add(&mut self, side: usize, records: &[Record]) {
        let ended = records.iter().filter_map(|record| Some((record.effect, record.ending?)));
        for (effect, ending) in ended {
            self.count(side, effect, format!("{ending:?}"));
        }
    }

    fn count(&mut self, side: usize, effect: Effect, what: String) {
        self.0.entry((effect, what)).or_default()[side] += 1;
    }

    fn print(&self) {
        eprintln!("{:<16}{:<14}{:>8}{:>11}", "effect", "result", "real", "simulated");
        for ((effect, what), [real, simulated]) in &self.0 {
            eprintln!("{effect:<16}{what:<14}{real:>8}{simulated:>11}");
        }
    }
}

/// A real node beside a simulated machine.
struct Pair {
    node: Node,
    conductor: Conductor,
    simulated: Simulated,
    /// All nodes that were started: a child's end ends its group.
    started: Vec<Process>,
    rng: fastrand::Rng,
    /// The two may be in different states: the next sequence meets no fault, and only its end counts.
    apart: bool,
    _lab: Lab,
}

/// The differences that a sequence has shown.
type Differences = Vec<String>;

impl Pair {
    fn new(seed: u64) -> Self {
        let mut lab = Lab::new().expect("a lab");
        let (inside, peer) = (
            lab.namespace("node").expect("a namespace"),
            lab.namespace("peer").expect("a namespace"),
        );
        for number in 0..4 {
            let name = format!("d{number}");
            lab.veth((&inside, &name), (&peer, &name)).expect("devices");
        }
        let node = Node::new(Some(&inside));
        let path = node.file("witness", "");
        let conductor = Conductor::start(&path);
        let mut pair = Self {
            node: node.with_variable("EUROPA_WITNESS", &path),
            conductor,
            simulated: Simulated::new(seed),
            started: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            apart: false,
            _lab: lab,
        };
        pair.start();
        pair
    }

    fn start(&mut self) {
        self.started.push(self.node.start(&["node", "--temporary"]));
        let limit = Instant::now() + Duration::from_secs(20);
        while !self.node.attempt(&["status"]).status.success() {
            assert!(Instant::now() < limit, "the node does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.conductor.conducts(self.node.process("node"), self.node.directory().join("kept"));
    }

    fn act(&mut self) -> Option<(u32, Act)> {
        if self.apart {
            return None;
        }
        let act = match self.rng.u8(..10) {
            0..=5 => Act::Starve(self.rng.u32(..8)),
            6 => Act::KillBefore,
            7 => Act::KillAfter,
            8 => Act::KillSwitch,
            _ => return None,
        };
        Some((self.rng.u32(..14), act))
    }

    /// One sequence: a change of the documents, with a fault or without.
    fn sequence(&mut self, table: &mut Table) -> Differences {
        let yaml = self.simulated.choose();
        let path = self.node.file("node.yaml", &yaml);
        let act = self.act();
        self.conductor.begin(act);
        let output = self.node.attempt(&["apply", "--prune", &path]);
        let seen = self.conductor.end();
        let killed = matches!(seen.fault, Some((_, Fault::KilledBefore | Fault::KilledAfter)));
        if killed {
            self.start();
        }
        let accepted = (!killed).then(|| output.status.success());
        table.add(0, &seen.records);
        self.simulated.heard();
        let told = self.simulated.apply(seen.fault);
        let heard = self.simulated.heard();
        table.add(1, &heard);
        if let Some((
            effect,
            fault @ (Fault::KilledBefore | Fault::KilledAfter | Fault::SwitchKilled),
        )) = seen.fault
        {
            (0..2).for_each(|side| table.count(side, effect, format!("{fault:?}")));
        }
        let differences = match told {
            Ok(told) => self.compare(&seen, accepted, told, &heard),
            Err(why) => vec![format!("the simulation: {why}")],
        };
        self.apart = !differences.is_empty()
            || killed
            || matches!(seen.fault, Some((_, Fault::SwitchKilled | Fault::Half)));
        let said = || format!("{act:?} {:?} of\n{yaml}{}", seen.fault, output.stderr);
        differences.into_iter().map(|what| format!("{what}\n  with {}", said())).collect()
    }

    fn compare(
        &mut self,
        seen: &Seen,
        accepted: Option<bool>,
        told: Option<bool>,
        heard: &[Record],
    ) -> Differences {
        let mut all = Vec::new();
        if let Some((effect, fault)) = seen.fault
            && !knows(effect, fault)
        {
            all.push(format!("the simulation does not know {fault:?} of {effect}"));
        }
        if accepted.is_none() || matches!(seen.fault, Some((_, Fault::SwitchKilled))) {
            return all;
        }
        if accepted != told {
            all.push(format!("accepted: {accepted:?} by the real node, {told:?} by the simulated"));
        }
        let (real, simulated) = (steps(&seen.records), steps(heard));
        if !self.apart && !matches!(seen.fault, Some((_, Fault::Half))) && real != simulated {
            all.push(format!("effects differ:\n  real      {real:?}\n  simulated {simulated:?}"));
        }
        let last = |records: &[Record]| {
            let mut with = records.iter().filter(|record| !record.objects.is_empty());
            with.next_back().map(|record| record.objects.clone()).unwrap_or_default()
        };
        let (real, simulated) = (last(&seen.records), last(heard));
        if real != simulated {
            all.push(format!("objects differ:\n  real      {real:?}\n  simulated {simulated:?}"));
        }
        all
    }
}

/// Effects that have ended, except looks and attempts that are repeated.
fn steps(records: &[Record]) -> Vec<(Effect, &str, Ending)> {
    let ended = records.iter().filter_map(|r| Some((r.effect, &*r.object, r.ending?)));
    ended.filter(|(effect, _, e)| *effect != Effect::Look && *e != Ending::NotNow).collect()
}

#[test]
fn real_and_simulated_machine_do_the_same() {
    skip_without!("prlimit");
    let before = Leftovers::look().expect("a look");
    let count = std::env::var("EUROPA_CONTRACT").ok().and_then(|text| text.parse().ok());
    let count: u64 = count.unwrap_or(SEQUENCES);
    let (mut table, mut differences) = (Table::default(), Vec::new());
    let mut pair = None;
    for number in 0..count {
        if number % OF_A_MACHINE == 0 {
            drop(pair.take());
        }
        let pair = pair.get_or_insert_with(|| Pair::new(number + 1));
        let found = pair.sequence(&mut table);
        differences.extend(found.into_iter().map(|what| format!("sequence {number}: {what}")));
    }
    drop(pair);
    table.print();
    let met: BTreeSet<_> = table.0.keys().cloned().collect();
    let never = EFFECTS.into_iter().flat_map(|effect| FAULTS.map(|fault| (effect, fault)));
    let never = never.filter(|(e, f)| knows(*e, *f) && !met.contains(&(*e, format!("{f:?}"))));
    eprintln!("never met on the real machine: {:?}", never.collect::<Vec<_>>());
    let new = before.new_ones().expect("a look");
    assert!(new.is_empty(), "left behind: {new:?}");
    let shown: Vec<_> = differences.iter().take(10).cloned().collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}
