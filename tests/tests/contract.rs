//! The contract of the simulated machine: the same documents and faults have the same effects on it
//! and on a real node.
//!
//! A conductor gets a record before and after each effect of the real node, and provokes a fault at
//! one of them. The faults: the node has no descriptor left or its disk is full, the node or the
//! switch is killed, a process stands still. The simulated machine then gets the fault that the
//! conductor saw. `EUROPA_CONTRACT` is the number of sequences; without it there are as many as fit
//! in 25 s.

mod conductor;
mod contract_table;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use conductor::{Act, Conductor, Seen};
use contract_table::{Table, impossible};
use europa_control::witness::{Effect, Ending, Record};
use europa_simulate::{EFFECTS, FAULTS, Fault, Simulated, knows};
use europa_tests::{Lab, Leftovers, Node, Process, skip_without};

/// Time that `make test` spends on comparisons.
const SHORT: Duration = Duration::from_secs(25);
/// Number of sequences after which the test replaces a pair of machines.
const OF_A_MACHINE: u64 = 25;

/// A real node beside a simulated machine.
struct Pair {
    node: Node,
    conductor: Conductor,
    simulated: Simulated,
    /// All nodes that the test has started. They stay here: the end of a child ends its group.
    started: Vec<Process>,
    rng: fastrand::Rng,
    /// Whether the two may be in different states. The next sequence then meets no fault, and only
    /// its end counts.
    apart: bool,
    /// Whether it has had no change yet.
    is_new: bool,
    /// Whether faults may take half a minute.
    patient: bool,
    _lab: Lab,
}

/// The differences that a sequence has shown.
type Differences = Vec<String>;

impl Pair {
    fn new(seed: u64, patient: bool) -> Self {
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
            // The node ignores the signal of a full disk, so that this fault does not end it.
            node: node.with_variable("EUROPA_WITNESS", &path).ignoring_signals("XFSZ"),
            conductor,
            simulated: Simulated::new(seed),
            started: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            apart: false,
            is_new: true,
            patient,
            _lab: lab,
        };
        pair.start();
        pair
    }

    fn start(&mut self) {
        self.started.push(self.node.start(&["node", "--temporary"]));
        let limit = Instant::now() + Duration::from_secs(20);
        while !self.node.attempt(&["status"]).status.success() {
            let process = self.started.last_mut().expect("a node");
            let said = process.stderr();
            assert!(Instant::now() < limit, "the node does not start: {said}");
            // The kernel has not removed the killed process yet.
            if !process.is_running() && said.contains("already runs") {
                self.started.push(self.node.start(&["node", "--temporary"]));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.conductor.conducts(self.node.process("node"), self.node.directory().join("kept"));
    }

    /// Faults that effects have not met yet, and that this run can provoke.
    fn wanted(&self, table: &Table) -> Vec<(Effect, Fault)> {
        let mut all = table.left();
        // The node meets a resource that is away by itself, or while it is short of descriptors.
        all.retain(|(_, fault)| {
            *fault != Fault::NotNow && (self.patient || *fault != Fault::Silent)
        });
        all
    }

    /// The faults that effects are to meet: one that was not met yet, at one effect only, as the first
    /// effect of a change would meet its fault otherwise. Sometimes any.
    fn acts(&mut self, wanted: &[(Effect, Fault)]) -> BTreeMap<Effect, Act> {
        if self.apart || self.rng.u8(..8) == 0 {
            return BTreeMap::new();
        }
        // Only the first change of a machine starts the switch.
        let first = wanted.iter().filter(|(effect, _)| *effect == Effect::StartSwitch);
        let first: Vec<_> = first.take_while(|_| self.is_new).copied().collect();
        let wanted = if first.is_empty() { wanted } else { first.as_slice() };
        if let Some((effect, fault)) = self.rng.choice(wanted).copied()
            && self.rng.u8(..8) != 0
        {
            return BTreeMap::from([(effect, self.act(fault))]);
        }
        let mut acts = BTreeMap::new();
        for effect in EFFECTS {
            let can = |fault: &Fault| {
                knows(effect, *fault)
                    && *fault != Fault::NotNow
                    && (self.patient || *fault != Fault::Silent)
                    && impossible(effect, *fault).is_none()
            };
            let all: Vec<Fault> = FAULTS.into_iter().filter(can).collect();
            if self.rng.u8(..4) == 0
                && let Some(fault) = self.rng.choice(&all).copied()
            {
                acts.insert(effect, self.act(fault));
            }
        }
        acts
    }

    fn act(&mut self, fault: Fault) -> Act {
        match fault {
            Fault::Refused | Fault::Half | Fault::NotNow if self.rng.bool() => Act::Fill,
            Fault::Refused | Fault::Half | Fault::NotNow => Act::Starve(self.rng.u32(..8)),
            Fault::KilledBefore => Act::KillBefore,
            Fault::KilledBetween | Fault::KilledAfter => Act::KillAfter,
            Fault::SwitchKilled if self.patient && self.rng.u8(..8) == 0 => Act::HangSwitch,
            Fault::SwitchKilled => Act::KillSwitch,
            Fault::Late => Act::DelayAnswerer,
            Fault::Silent => Act::HangAnswerer,
            Fault::RefusedLater => Act::KillAnswerer,
        }
    }

    /// One sequence: a change of the documents, with a fault or without.
    fn sequence(&mut self, table: &mut Table) -> Differences {
        let wanted = self.wanted(table);
        let acts = self.acts(&wanted);
        let yaml = self.simulated.choose(&acts.keys().copied().collect());
        let path = self.node.file("node.yaml", &yaml);
        // Most effects come once in a change: another wait would miss them.
        let wait = if self.rng.u8(..8) == 0 { self.rng.u32(..6) } else { 0 };
        self.conductor.begin(wait, acts);
        self.is_new = false;
        let begun = Instant::now();
        let output = self.node.attempt(&["apply", "--prune", &path]);
        let mut seen = self.conductor.end();
        let killed = matches!(seen.fault, Some((_, Fault::KilledBefore | Fault::KilledAfter)));
        if killed {
            self.start();
        }
        let accepted = (!killed).then(|| output.status.success());
        // The answer arrived before the conductor disturbed its process.
        let in_time = match seen.fault {
            Some((_, Fault::Late)) => begun.elapsed() < Duration::from_secs(1),
            Some((_, Fault::RefusedLater | Fault::Silent)) => accepted == Some(true),
            _ => false,
        };
        seen.fault = seen.fault.filter(|_| !in_time);
        table.add(0, &seen.records);
        self.simulated.heard();
        let told = self.simulated.apply(seen.fault);
        let heard = self.simulated.heard();
        table.add(1, &heard);
        if let Some((effect, fault)) = seen.fault {
            (0..2).for_each(|side| table.provoked(side, effect, fault));
        }
        let differences = match told {
            Ok(told) => self.compare(&seen, accepted, told, &heard),
            Err(why) => vec![format!("the simulation: {why}")],
        };
        self.apart = !differences.is_empty()
            || killed
            || matches!(seen.fault, Some((_, Fault::SwitchKilled | Fault::Half)));
        let said = || format!("{:?} {:?} of\n{yaml}{}", seen.act, seen.fault, output.stderr);
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
        if let Some((effect, fault)) = seen.fault {
            if !knows(effect, fault) {
                all.push(format!("the simulation does not know {fault:?} of {effect}"));
            }
            if let Some(why) = impossible(effect, fault) {
                all.push(format!("{effect} has met {fault}, which is said not to be: {why}"));
            }
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

/// Effects that have ended, except looks and repeated attempts. A machine removes objects in its
/// own order, which has no meaning.
fn steps(records: &[Record]) -> Vec<(Effect, &str, Ending)> {
    let ended = records.iter().filter_map(|r| Some((r.effect, &*r.object, r.ending?)));
    let mut all: Vec<_> =
        ended.filter(|(effect, _, e)| *effect != Effect::Look && *e != Ending::NotNow).collect();
    let removes = |effect: Effect| matches!(effect, Effect::RemoveRouter | Effect::ClosePort);
    for run in all.chunk_by_mut(|one, next| one.0 == next.0) {
        if run.first().is_some_and(|(effect, ..)| removes(*effect)) {
            run.sort();
        }
    }
    all
}

#[test]
fn real_and_simulated_machine_do_the_same() {
    skip_without!("prlimit");
    let before = Leftovers::look().expect("a look");
    let count: Option<u64> = std::env::var("EUROPA_CONTRACT").ok().map(|text| {
        text.parse().unwrap_or_else(|_| panic!("EUROPA_CONTRACT={text}: not a whole number"))
    });
    let begun = Instant::now();
    let goes_on = |number: u64| match count {
        Some(count) => number < count,
        None => begun.elapsed() < SHORT,
    };
    let (mut table, mut differences) = (Table::default(), Vec::new());
    let (mut pair, mut number) = (None, 0);
    while goes_on(number) {
        if number.is_multiple_of(OF_A_MACHINE) {
            drop(pair.take());
        }
        let pair = pair.get_or_insert_with(|| Pair::new(number + 1, count.is_some()));
        let found = pair.sequence(&mut table);
        differences.extend(found.into_iter().map(|what| format!("sequence {number}: {what}")));
        number += 1;
    }
    drop(pair);
    eprintln!("{number} sequences in {:.1} s\n{table}", begun.elapsed().as_secs_f64());
    let new = before.new_ones().expect("a look");
    assert!(new.is_empty(), "left behind: {new:?}");
    let shown: Vec<_> = differences.iter().take(10).cloned().collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}
