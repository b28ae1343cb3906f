//! A node's side of the simulated machine: its memory, and later results.

mod outside;
mod processes;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use europa_api::{Documents, Port};
use europa_control::witness::Effect;
use europa_control::{Commit, Machine, Note, Stop, Taken, Ticket, Time, Verdict};
use europa_plan::{
    Actual, Desired, Failure, Namespaces, PortFacts, PortId, RouterId, RouterPlan, SliceId, Step,
};
use fastrand::Rng;

use crate::effects::carry_out;
use crate::faults::{Coverage, Fault, meets};
use crate::plant::Plant;
use crate::world::{Process, SimRouter, World};

/// One of so many effects meets a fault.
const FAULT_IN: u32 = 10;
/// How long a process may take to read its configuration.
const START: Duration = Duration::from_secs(30);
/// How long it may take for any other order.
const ORDER: Duration = Duration::from_secs(5);

/// Something that happens later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A process of a router has read its configuration, or refuses it, or does not answer.
    Started(RouterId, u64, Result<(), String>),
    /// A router answers an update.
    Updated(RouterId, u64, u64, Result<(), String>),
    /// Programs of a slow path have read their files again, or one refuses them.
    Reloaded(RouterId, u64, Result<(), String>),
    /// A router that has ended is started again.
    Restart(RouterId, u64),
    /// Configurations have been tried.
    Checked(Result<(), String>),
    /// The store answers.
    Committed(Result<(), String>),
    /// A switch is started again.
    SwitchBack,
    /// A device comes back.
    DeviceBack(u8),
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
    /// The only fault, at the first such effect.
    pub(crate) script: Option<(Effect, Fault)>,
    /// The node has been killed: nothing that it does has an effect any more.
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
    rng: Rng,
    /// Something has failed since documents were wanted last: the next are those of before.
    failed: bool,
    /// The false belief that a planted fault gives the node.
    lies: Lies,
}

/// The false belief that a planted fault gives the node.
#[derive(Default)]
struct Lies {
    /// Routers whose configurations it takes for known.
    sound: BTreeSet<RouterId>,
    /// Routers that it takes for removed.
    gone: BTreeSet<RouterId>,
    /// Ports whose relays it takes for removed.
    unrelayed: BTreeSet<PortId>,
    /// The state that it takes for the world, as it takes back nothing.
    imagined: Option<World>,
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
            rng: Rng::with_seed(0),
            failed: false,
            lies: Lies::default(),
        }
    }

    /// Later faults follow from this seed.
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

    /// When something happens next.
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
            // There are many for each change, and one alone has it refused.
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

    /// A node begins: objects equal to `desired` go on, the rest is removed.
    pub(crate) fn adopt(&mut self, desired: &Desired) {
        self.killed = false;
        self.wanted = Arc::new(desired.documents.clone());
        self.parked.clear();
        self.verdict = None;
        self.checking = false;
        // Answers to a node that is no more.
        let events = std::mem::take(&mut self.timers).into_iter();
        self.timers = events
            .filter(|Reverse((_, _, event))| {
                matches!(
                    event,
                    Event::SwitchBack | Event::DeviceBack(_) | Event::Started(_, _, Ok(()))
                )
            })
            .collect();
        self.lies = Lies::default();
        if self.plant == Some(Plant::LeakAtRestart) {
            let wanted = |name: &&RouterId| desired.router(name).is_none();
            self.lies.gone = self.world.routers.keys().filter(wanted).cloned().collect();
        }
        self.sweep(desired);
        let ended: Vec<RouterId> = self
            .world
            .routers
            .iter()
            .filter(|(_, router)| router.process != Process::Ready || router.half)
            .map(|(name, _)| name.clone())
            .collect();
        for name in ended {
            // Only a process with its configuration is adopted.
            self.world.routers.remove(&name);
        }
        self.world.filters.clone_from(&desired.documents.filters);
        self.world.numbered = self.world.store.numbered.clone();
        if !self.world.switch && !self.world.routers.is_empty() {
            self.world.switch = true;
        }
        self.world.programs.clone_from(&self.world.slow_paths);
        self.remember();
    }

    fn sweep(&mut self, desired: &Desired) {
        let world = &mut self.world;
        if world.hosts != desired.documents.hosts {
            world.hosts.clear();
        }
        world.slow_paths.retain(|name, made| {
            let mut all = desired.documents.routers.iter();
            let wanted = all.find(|router| RouterId::of(router) == *name);
            // A change that was not done leaves no record.
            let is_done =
                world.programs.get(name).is_none_or(|read| read.slow_path == made.slow_path);
            is_done && wanted.is_some_and(|w| w.slow_path.is_some() && w == made)
        });
        // All of them are adopted, or all are made whole again.
        if world.uplinks.iter().any(|name| !world.slow_paths.contains_key(name)) {
            world.uplinks.clear();
        }
        let lost: Vec<_> = world
            .ports
            .iter()
            .filter(|(_, port)| {
                !desired.ports.contains(&port.document)
                    || world.is_stale(port)
                    || world.look(&port.document).is_err()
            })
            .map(|(name, _)| name.clone())
            .collect();
        lost.iter().for_each(|name| drop(world.ports.remove(name)));
        let open = |plan: &RouterPlan| plan.ports().all(|port| world.ports.contains_key(port));
        let stays = |name: &RouterId, router: &SimRouter| {
            let wanted = desired.feasible(name);
            wanted.is_some_and(|wanted| router.plan.is_outside_as(wanted)) && open(&router.plan)
        };
        let gone: Vec<RouterId> = world
            .routers
            .iter()
            .filter(|(name, router)| !stays(name, router))
            .map(|(name, _)| name.clone())
            .collect();
        let leak = &self.lies.gone;
        let gone = gone.iter().filter(|name| !leak.contains(*name));
        gone.for_each(|name| drop(world.routers.remove(name)));
        world.relays.retain(|relay| {
            desired.relays.iter().any(|plan| relay.stays(plan))
                && world.ports.contains_key(&relay.port)
                && (relay.far.is_some()
                    || world.routers.values().any(|r| r.plan.ports().any(|p| *p == relay.port)))
        });
    }

    /// Takes a step for real, and remembers the state after it.
    fn carry_out(&mut self, step: &Step, half: bool) -> Result<(), String> {
        let hosts = self.belief.hosts.clone();
        if let (Some(Plant::PortsBeforeRelays), Step::RemoveRelay(relay)) = (self.plant, step) {
            self.lies.unrelayed.insert(relay.port.clone());
            self.remember();
            return Ok(());
        }
        let world = self.lies.imagined.as_mut().unwrap_or(&mut self.world);
        let done = carry_out(world, step, half);
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

    /// Numbered rules go out of force with their slice, and come back with it.
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

impl Machine for SimMachine {
    fn probe(&mut self) {
        if self.plant != Some(Plant::UnchangedMeansDone) {
            self.remember();
        }
    }

    fn namespaces(&self) -> Namespaces {
        Namespaces { hosts: "europa.sim".into(), slow_paths: "europa.sim..slow".into() }
    }

    fn actual(&self) -> Actual {
        let mut actual = self.belief.clone();
        // One that has ended is started again by itself.
        actual.switch |= self.timers.iter().any(|Reverse((_, _, e))| *e == Event::SwitchBack);
        actual
    }

    fn look(&mut self, port: &Port) -> Result<PortFacts, Failure> {
        let fault = if self.killed { None } else { self.fault(Effect::Look) };
        if fault.is_some() {
            return Err(Failure::from(format!("port {}: the kernel says no", port.name)));
        }
        self.world.look(port).map_err(Failure::from)
    }

    fn admit(&mut self, _: &Desired) -> Result<(), Failure> {
        Ok(())
    }

    fn check(&mut self, _: &[Arc<RouterPlan>]) -> Result<(), Failure> {
        if self.killed {
            return Ok(());
        }
        let fault = self.fault(Effect::Check);
        (self.verdict, self.checking) = (None, true);
        if fault == Some(Fault::SwitchKilled) {
            self.kill_switch();
        }
        let (wait, outcome) = match fault {
            Some(Fault::Refused) => return Err(Failure::from("no process".to_owned())),
            Some(Fault::KilledBefore) => {
                self.killed = true;
                return Ok(());
            }
            Some(Fault::RefusedLater) => (self.soon(50), Err("a mistake".to_owned())),
            Some(Fault::Late) => (Duration::from_secs(15), Ok(())),
            _ => (self.soon(50), Ok(())),
        };
        self.later(wait, Event::Checked(outcome));
        self.killed = fault == Some(Fault::KilledAfter);
        Ok(())
    }

    fn verdict(&mut self) -> Verdict {
        let verdict = match self.verdict.take() {
            None => return Verdict::NotYet,
            Some(Ok(())) => Verdict::Right(Vec::new()),
            Some(Err(why)) => Verdict::Wrong(why),
        };
        self.checking = false;
        verdict
    }

    fn may_start(&self) -> bool {
        let starting = |router: &&SimRouter| router.process == Process::Starting;
        self.world.routers.values().filter(starting).count() < 2
    }

    fn want(&mut self, documents: &Arc<Documents>) {
        self.wanted.clone_from(documents);
        let goes_back = std::mem::take(&mut self.failed);
        if self.plant == Some(Plant::MissingInverse) {
            self.lies.imagined = goes_back.then(|| self.world.clone());
        }
    }

    fn take(&mut self, step: &Step, _: &VecDeque<Step>, ticket: Ticket) -> Result<Taken, Stop> {
        if self.killed {
            return Ok(Taken::Done);
        }
        let effect = Effect::of(step);
        let fault = self.fault(effect);
        self.trace(|| format!("{effect} {:?} {fault:?}", step.makes()));
        let refused = || Failure::from(format!("{effect} is refused"));
        match fault {
            Some(Fault::KilledBefore) => {
                self.killed = true;
                return Ok(Taken::Done);
            }
            Some(Fault::Refused) => {
                self.failed = true;
                return Err(Stop::Failed(refused()));
            }
            Some(Fault::NotNow) => {
                // Its missing resource is back in a moment.
                self.later(Duration::from_millis(100), Event::Checked(Ok(())));
                return Err(Stop::NotNow(refused()));
            }
            Some(Fault::Half) => {
                let _ = self.carry_out(step, true);
                self.failed = true;
                return Err(Stop::Failed(refused()));
            }
            Some(Fault::SwitchKilled) => self.kill_switch(),
            _ => {}
        }
        let lost = self.plant == Some(Plant::LostOrder)
            && matches!(step, Step::UpdateRouter { .. })
            && self.rng.u8(..2) == 0;
        if lost {
            let Step::UpdateRouter { to, .. } = step else { return Ok(Taken::Done) };
            let found = self.belief.routers.iter_mut().find(|r| r.plan.name == to.name);
            if let Some(router) = found {
                router.plan = to.clone();
            }
            return Ok(Taken::Done);
        }
        let reloads = match step {
            Step::StartSlowPaths => self.reloads(),
            _ => Vec::new(),
        };
        self.carry_out(step, false).map_err(|why| Stop::Failed(why.into()))?;
        self.taken.push(step.clone());
        if fault == Some(Fault::KilledAfter) {
            self.killed = true;
            return Ok(Taken::Done);
        }
        Ok(match step {
            Step::AddRouter(plan) => {
                self.begin(&plan.name, fault);
                Taken::Begun
            }
            Step::UpdateRouter { to, .. } => self.tell(to, fault, ticket),
            Step::StartSlowPaths => self.reload(reloads, fault, ticket),
            _ => Taken::Done,
        })
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.killed {
            return Ok(());
        }
        match self.fault(Effect::Settle) {
            Some(Fault::Refused) => return Err(Failure::from("queues are refused".to_owned())),
            Some(Fault::KilledBefore | Fault::KilledAfter) => self.killed = true,
            Some(Fault::SwitchKilled) => self.kill_switch(),
            _ => {}
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn commit(&mut self, commit: Commit) {
        if self.killed {
            return;
        }
        let fault = self.fault(Effect::Commit);
        let mut outcome = Ok(());
        match fault {
            Some(Fault::KilledBefore) => return self.killed = true,
            Some(Fault::Refused) if self.plant == Some(Plant::SwallowedCommit) => {}
            Some(Fault::Refused) => outcome = Err("the disk is full".to_owned()),
            Some(Fault::SwitchKilled) => {
                self.kill_switch();
                outcome = self.world.store.change(&commit);
            }
            _ => outcome = self.world.store.change(&commit),
        }
        if fault == Some(Fault::KilledAfter) {
            return self.killed = true;
        }
        if outcome.is_ok() {
            self.parked.clear();
            self.belief.parked.clear();
        }
        let wait = if fault == Some(Fault::Late) { Duration::from_secs(9) } else { self.soon(20) };
        self.later(wait, Event::Committed(outcome));
    }

    fn note(&mut self, _: Note<'_>) {}
}
