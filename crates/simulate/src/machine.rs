//! The node's side of the simulated machine: the node's memory, and results that arrive later.

mod adopt;
mod outside;
mod processes;
mod steps;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use europa_api::{Documents, Port};
use europa_control::witness::Effect;
use europa_control::{Plan, Time};
use europa_plan::{Actual, Failure, PortFacts, PortId, RouterId, SliceId, Step};
use fastrand::Rng;

use crate::effects::carry_out;
use crate::faults::{Coverage, Fault, meets};
use crate::plant::Plant;
use crate::world::World;

/// One in this number of effects meets a fault.
const FAULT_IN: u32 = 10;
/// The longest time in which a process may read its configuration.
const START: Duration = Duration::from_secs(30);
/// Time limit for any other order.
const ORDER: Duration = Duration::from_secs(5);

/// A later event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A process of a router has read or refused its configuration, or does not answer.
    Started(RouterId, u64, Result<(), String>),
    /// A router answers an update.
    Updated(RouterId, u64, u64, Result<(), String>),
    /// Programs of a slow path have reloaded their files, or one refuses them.
    Reloaded(RouterId, u64, Result<(), String>),
    /// A router that has ended is started again.
    Restart(RouterId, u64),
    /// Configurations have been tried.
    Checked(Result<(), String>),
    /// The store answers.
    Committed(Result<(), String>),
    /// A switch is started again.
    SwitchBack,
    /// A device returns.
    DeviceBack(u8),
    /// The plan with this ticket is computed.
    Planned(u64),
}

/// See the file.
pub(crate) struct SimMachine {
    pub(crate) world: World,
    pub(crate) now: Time,
    pub(crate) coverage: Coverage,
    /// Steps since the last look.
    pub(crate) taken: Vec<Step>,
    /// Faults happen.
    pub(crate) faulty: bool,
    /// The only fault of the run, at the first effect of this kind.
    pub(crate) script: Option<(Effect, Fault)>,
    /// The node has been killed: its later actions have no effect.
    pub(crate) killed: bool,
    /// Events are printed.
    traced: bool,
    pub(crate) plant: Option<Plant>,
    wanted: Arc<Documents>,
    belief: Actual,
    parked: BTreeSet<SliceId>,
    timers: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    verdict: Option<Result<(), String>>,
    checking: bool,
    /// Plans that are being computed, by ticket. For a planted fault, also the state when the plan
    /// was requested.
    plans: BTreeMap<u64, (Plan, Option<Actual>)>,
    rng: Rng,
    /// A step has failed since the last request: the next documents are the former ones again.
    failed: bool,
    /// The wrong state that a planted fault makes the node assume.
    lies: Lies,
}

/// The wrong state that a planted fault makes the node assume.
#[derive(Default)]
struct Lies {
    /// Routers whose configurations the node assumes to be known.
    sound: BTreeSet<RouterId>,
    /// Routers that the node assumes to be removed.
    gone: BTreeSet<RouterId>,
    /// Ports whose relays the node assumes to be removed.
    unrelayed: BTreeSet<PortId>,
    /// The state that the node assumes because it undoes nothing.
    imagined: Option<World>,
    /// The state when the plan was requested; the node takes it for the present state once.
    asked: RefCell<Option<Actual>>,
}

impl SimMachine {
    pub(crate) fn new(plant: Option<Plant>) -> Self {
        Self {
            world: World::new(),
            now: Duration::ZERO,
            coverage: Coverage::default(),
            taken: Vec::new(),
            faulty: false,
            script: None,
            killed: false,
            traced: std::env::var_os("TRACE").is_some(),
            plant,
            wanted: Arc::default(),
            belief: Actual::default(),
            parked: BTreeSet::new(),
            timers: BinaryHeap::new(),
            sequence: 0,
            verdict: None,
            checking: false,
            plans: BTreeMap::new(),
            rng: Rng::with_seed(0),
            failed: false,
            lies: Lies::default(),
        }
    }

    /// Sets the seed of all later faults.
    pub(crate) fn seed(&mut self, seed: u64) {
        self.rng = Rng::with_seed(seed);
    }

    /// The node's view becomes the actual state.
    pub(crate) fn remember(&mut self) {
        let world = self.lies.imagined.as_ref().unwrap_or(&self.world);
        let mut belief = Actual { parked: self.parked.clone(), ..world.actual() };
        for router in &mut belief.routers {
            router.astray &= !self.lies.sound.contains(&router.plan.name);
        }
        belief.routers.retain(|router| !self.lies.gone.contains(&router.plan.name));
        belief.relays.retain(|relay| !self.lies.unrelayed.contains(&relay.port));
        self.belief = belief;
    }

    fn later(&mut self, wait: Duration, event: Event) {
        self.sequence += 1;
        self.timers.push(Reverse((self.now + wait, self.sequence, event)));
    }

    fn soon(&mut self, most_ms: u64) -> Duration {
        Duration::from_micros(self.rng.u64(1..most_ms * 1000))
    }

    /// Prints events, if `TRACE` is set.
    pub(crate) fn trace(&self, what: impl FnOnce() -> String) {
        if self.traced {
            println!("{:>12.6} {}", self.now.as_secs_f64(), what());
        }
    }

    /// The time of the next event.
    pub(crate) fn next(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// The present event.
    pub(crate) fn happens(&mut self) -> Option<Event> {
        if self.next()? > self.now {
            return None;
        }
        self.timers.pop().map(|Reverse((_, _, event))| event)
    }

    /// The fault of an effect, if any.
    fn fault(&mut self, effect: Effect) -> Option<Fault> {
        let mut fault =
            self.script.take_if(|(wanted, _)| *wanted == effect).map(|(_, fault)| fault);
        let one_in = match effect {
            // Each change has many looks, and a single fault in a look makes the node refuse the
            // change.
            Effect::Look => FAULT_IN * 20,
            Effect::Settle => FAULT_IN * 2,
            _ => FAULT_IN,
        };
        if self.faulty && self.rng.u32(..one_in) == 0 {
            let all = crate::faults::FAULTS;
            let can: Vec<Fault> = all.into_iter().filter(|fault| meets(effect, *fault)).collect();
            fault = can.get(self.rng.usize(..can.len().max(1))).copied();
        }
        self.coverage.note(effect, fault);
        fault
    }

    pub(crate) fn checked(&mut self, outcome: Result<(), String>) {
        if self.checking {
            self.verdict = Some(outcome);
        }
    }

    /// A plan is computed.
    pub(crate) fn planned(&mut self, ticket: u64) -> Option<Plan> {
        let (plan, asked) = self.plans.remove(&ticket)?;
        self.lies.asked = RefCell::new(asked);
        Some(plan)
    }

    /// Looks at a port's device.
    fn look(&mut self, port: &Port) -> Result<PortFacts, Failure> {
        if self.fault(Effect::Look).is_some() {
            return Err(Failure::from(format!("port {}: the kernel says no", port.name)));
        }
        self.world.look(port).map_err(Failure::from)
    }

    /// Carries out a step, and stores the state after it.
    fn carry_out(&mut self, step: &Step, half: bool) -> Result<(), String> {
        let hosts = self.belief.hosts.clone();
        if let (Some(Plant::PortsBeforeRelays), Step::RemoveRelay(relay)) = (self.plant, step) {
            self.lies.unrelayed.insert(relay.port.clone());
            self.remember();
            return Ok(());
        }
        let world = self.lies.imagined.as_mut().unwrap_or(&mut self.world);
        let change = world.change_of_notes(step);
        let done = carry_out(world, step, half);
        if done.is_ok() {
            world.note(change, half);
        }
        if let Step::ChangeFilters { .. } = step {
            self.move_rules();
        }
        self.remember();
        match (self.plant, step) {
            (Some(Plant::ForgetBeforeRemoval), Step::RemoveRouter(plan)) if half => {
                self.belief.routers.retain(|router| router.plan.name != plan.name);
            }
            (Some(Plant::HalfHostsForgotten), Step::MakeHosts { from, .. }) if half => {
                self.belief.hosts = Arc::new(from.clone());
            }
            (Some(Plant::HalfHostsForgotten), Step::TrimHosts { .. }) if half => {
                self.belief.hosts = hosts;
            }
            _ => {}
        }
        done
    }

    /// The node is killed between the effect of a step and its record.
    fn kill_between(&mut self, step: &Step) {
        let first = self.rng.bool();
        let change = self.world.change_of_notes(step);
        if first {
            self.world.note_first(&change);
        }
        // A router that is being changed is noted as one whose configuration is unknown.
        let half = matches!(step, Step::UpdateRouter { .. });
        let is_removal = change.is_removal();
        if (!first || !is_removal || self.rng.bool())
            && let Err(why) = carry_out(&mut self.world, step, half)
        {
            self.trace(|| why);
        }
        self.killed = true;
    }

    /// Numbered rules are taken out of force with their slice, and return with it.
    fn move_rules(&mut self) {
        let slices: BTreeSet<SliceId> =
            self.wanted.slices.iter().map(|slice| SliceId::new(&**slice.name)).collect();
        let gone: Vec<SliceId> = self.world.numbered.difference(&slices).cloned().collect();
        for slice in gone {
            self.world.numbered.remove(&slice);
            if self.plant != Some(Plant::RulesForgotten) {
                self.parked.insert(slice);
            }
        }
        let back: Vec<SliceId> = self.parked.intersection(&slices).cloned().collect();
        for slice in back {
            self.parked.remove(&slice);
            self.world.numbered.insert(slice);
        }
    }
}
