//! Takeovers and drains in virtual time: nodes with separate clocks, a store that loses its leader,
//! partitions and restarts. The real leader and planner make the decisions.

#[path = "takeover/ring.rs"]
mod ring;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use europa_api::{Bundle, Key, Source};
use europa_cluster::{
    Cause, Entry, Guard, Item, LEASE, Located, Move, State, Verdict, Whole, Wish, leaving, plan,
};

use self::ring::documents;

/// Virtual time of a step.
const STEP: Duration = Duration::from_millis(100);
/// Number of steps with faults, and of steps without faults at the end.
const STEPS: u32 = 1200;
const CALM: u32 = 300;
/// Time from the sending of a renewal to the deadline of the fence.
const FENCE: Duration = Duration::from_secs(4);
/// Default number of histories; the variable `HISTORIES` changes it.
const HISTORIES: u64 = 100;

/// A machine: the documents that its node runs, and its agent.
#[derive(Default)]
struct Machine {
    up: bool,
    /// The agent reaches etcd.
    reaches: bool,
    /// The running documents, and their sequence. A restarted node runs its former documents.
    runs: Option<(u64, Arc<Whole>)>,
    /// The time when the lease ends, by etcd's clock.
    lease: Option<Duration>,
    /// The machine's clock, its rate, and the time of the lease's next renewal.
    clock: Duration,
    rate: f64,
    renew: Duration,
    /// Until when its ports carry frames of routers that stop without a lease, by its clock.
    deadline: Duration,
    /// Its guard while it leads, and the start of its leadership.
    guard: Option<(Guard, Duration)>,
}

struct World {
    random: fastrand::Rng,
    state: State,
    whole: Arc<Whole>,
    now: Duration,
    term: u64,
    /// etcd has no quorum until then.
    away: Duration,
    leader: Option<usize>,
    machines: Vec<Machine>,
    /// Whether other documents run than at the last check.
    changed: bool,
    /// Time from a renewal to the deadline of the fence.
    fence: Duration,
    /// Two nodes have sent on the LAN at the same time.
    two_senders: bool,
    /// Times that the router on the LAN was taken over.
    lan_taken_over: u64,
    taken_over: u64,
    drained: u64,
}

/// The state after a change, as a store would contain it.
fn after(state: &State, wish: &Wish) -> (State, Whole) {
    let planned = plan(state, wish).unwrap_or_else(|error| panic!("{error}"));
    let mut state = state.clone();
    if planned.change.is_empty() {
        return (state, planned.after);
    }
    state.head.sequence += 1;
    for (key, content) in &planned.change {
        let Some(content) = content else {
            state.items.remove(key);
            continue;
        };
        let at = Located { stage: "s".into(), number: 0, bytes: content.len() as u64 };
        let next = state.items.len() as u64;
        let order = state.items.get(key).map_or(next, |old| old.entry.order);
        let item = Item { entry: Entry { at, order }, content: Arc::new(content.clone()) };
        state.items.insert(key.clone(), item);
    }
    (state, planned.after)
}

/// The router on a node whose interface is an end of a link.
fn owner(whole: &Whole, link: &str, node: usize) -> Option<String> {
    let node = name(node);
    let ends = whole.documents.routers.iter().filter(|router| {
        let place = &whole.places[&Key::new("router", router.full_name())];
        let mut links = router.interfaces.0.iter().filter_map(|(_, i)| i.link.as_ref());
        place.node == node && links.any(|one| *one.value == *link)
    });
    ends.map(|router| router.full_name()).next()
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl World {
    fn new(seed: u64, fence: Duration) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = random.usize(3..=5);
        let source = Source { path: "ring.yaml".into(), text: documents(nodes) };
        let wish = Wish { bundle: Bundle::of(vec![source]), ..Wish::default() };
        let (state, whole) = after(&State::default(), &wish);
        let machine = |random: &mut fastrand::Rng| Machine {
            up: true,
            reaches: true,
            rate: 0.9 + 0.2 * random.f64(),
            ..Machine::default()
        };
        let machines = (0..nodes).map(|_| machine(&mut random)).collect();
        let whole = Arc::new(whole);
        World {
            random,
            state,
            whole,
            machines,
            now: Duration::ZERO,
            term: 1,
            away: Duration::ZERO,
            leader: None,
            changed: true,
            fence,
            two_senders: false,
            lan_taken_over: 0,
            taken_over: 0,
            drained: 0,
        }
    }

    fn commit(&mut self, wish: &Wish) {
        let (state, whole) = after(&self.state, wish);
        (self.state, self.whole) = (state, Arc::new(whole));
    }

    fn reaches(&self, node: usize) -> bool {
        self.machines[node].up && self.machines[node].reaches && self.now >= self.away
    }

    fn present(&self) -> BTreeSet<String> {
        let all = self.machines.iter().enumerate();
        all.filter(|(_, one)| one.lease.is_some()).map(|(node, _)| name(node)).collect()
    }

    /// A random fault, or the end of one.
    fn fault(&mut self) {
        let node = self.random.usize(..self.machines.len());
        let machine = &mut self.machines[node];
        match self.random.u8(..9) {
            0 | 1 => machine.reaches = !machine.reaches,
            2 => {
                (machine.up, machine.guard) = (false, None);
                (machine.renew, machine.deadline) = (Duration::ZERO, Duration::ZERO);
            }
            3 => {
                machine.up = true;
                // The next session may lead only with its own lease.
                self.leader = self.leader.filter(|leader| *leader != node);
                self.changed = true;
            }
            4 => {
                // etcd changes its leader: leases begin again.
                self.term += 1;
                for lease in self.machines.iter_mut().filter_map(|one| one.lease.as_mut()) {
                    *lease = self.now + LEASE;
                }
            }
            // etcd revokes a living lease.
            8 => machine.lease = None,
            5 => self.away = self.now + Duration::from_millis(self.random.u64(..9000)),
            _ => self.drain(node),
        }
    }

    /// A user moves a router away from a node, or ends a cordon.
    fn drain(&mut self, node: usize) {
        let mut wish = Wish::default();
        let cordon = self.whole.cordons.contains_key(&name(node));
        wish.cordon.insert(name(node), (!cordon).then(|| "by hand".to_owned()));
        if !cordon {
            let present = self.present();
            wish.closed =
                self.whole.nodes().filter(|n| !present.contains(*n)).map(str::to_owned).collect();
            // The agents' order of such a move is not simulated.
            let on_links = |moves: Vec<Move>| {
                moves.into_iter().filter(|one| one.key.name != "s/lan").collect::<Vec<_>>()
            };
            wish.moves = on_links(leaving(&self.whole, &name(node), Cause::Planned).moves);
            // Both directions are changed at once: two routers may exchange their nodes.
            let other = (node + 1) % self.machines.len();
            let back = on_links(leaving(&self.whole, &name(other), Cause::Planned).moves);
            wish.moves
                .extend(back.into_iter().take(1).map(|one| Move { to: Some(name(node)), ..one }));
        }
        let before = self.whole.places.clone();
        self.commit(&wish);
        self.drained += u64::from(self.whole.places != before);
    }

    /// A step of an agent.
    fn agent(&mut self, node: usize) {
        let reaches = self.reaches(node);
        let machine = &mut self.machines[node];
        machine.clock += STEP.mul_f64(machine.rate);
        if !machine.up || machine.clock < machine.renew {
            return;
        }
        if reaches {
            // The agent ends stale copies before it takes a lease, and follows changes with some
            // delay.
            let is_behind =
                machine.runs.as_ref().is_none_or(|(at, _)| *at < self.state.head.sequence);
            if is_behind && (machine.lease.is_none() || self.random.u8(..3) == 0) {
                machine.runs = Some((self.state.head.sequence, Arc::clone(&self.whole)));
                self.changed = true;
            }
            machine.lease = Some(self.now + LEASE);
            machine.deadline = machine.clock + self.fence;
            machine.renew = machine.clock + Duration::from_millis(self.random.u64(100..1500));
        }
        if self.leader.is_none() && reaches {
            self.leader = Some(node);
            machine.guard = Some((Guard::default(), machine.clock));
        }
        if self.leader == Some(node) && reaches {
            self.lead(node);
        }
    }

    fn lead(&mut self, node: usize) {
        let present = self.present();
        let nodes: BTreeSet<String> = self.whole.nodes().map(str::to_owned).collect();
        let machine = &mut self.machines[node];
        let Some((guard, since)) = machine.guard.as_mut() else { return };
        let led = machine.clock.saturating_sub(*since);
        let Verdict::TakeOver(absent) = guard.look(machine.clock, self.term, &nodes, &present)
        else {
            return;
        };
        assert!(absent.len() * 2 <= nodes.len(), "{absent:?} of {nodes:?}");
        assert!(led >= LEASE, "{led:?}");
        let closed: BTreeSet<String> = absent.iter().cloned().collect();
        let now = machine.clock;
        let fenced: Vec<bool> = absent
            .iter()
            .map(|gone| guard.fenced_at(gone).is_some_and(|fenced_at| now >= fenced_at))
            .collect();
        for (gone, fenced) in absent.into_iter().zip(fenced) {
            let mut moves = leaving(&self.whole, &gone, Cause::Takeover).moves;
            moves.retain(|one| fenced || one.key.name != "s/lan");
            let before = self.whole.places.clone();
            self.commit(&Wish { moves, closed: closed.clone(), ..Wish::default() });
            self.taken_over += u64::from(self.whole.places != before);
            let lan = Key::new("router", "s/lan");
            self.lan_taken_over += u64::from(self.whole.places[&lan] != before[&lan]);
            for tied in ["s/r0", "s/r1"].map(|name| Key::new("router", name)) {
                assert_eq!(self.whole.places[&tied], before[&tied], "{tied} was taken over");
            }
        }
    }

    fn step(&mut self, faults: bool) {
        self.now += STEP;
        if faults && self.random.u8(..20) == 0 {
            self.fault();
        }
        if self.now >= self.away {
            for machine in &mut self.machines {
                machine.lease = machine.lease.filter(|end| *end > self.now);
            }
            // When a lease ends, the leader's key is deleted with it.
            if let Some(leader) = self.leader.filter(|node| self.machines[*node].lease.is_none()) {
                self.machines[leader].guard = None;
                self.leader = None;
            }
        }
        (0..self.machines.len()).for_each(|node| self.agent(node));
        self.two_senders |= self.senders() > 1;
    }

    /// The nodes that send on the LAN: they run its router, and their fence is not up.
    fn senders(&self) -> usize {
        let lan = Key::new("router", "s/lan");
        let sends = |(node, machine): &(usize, &Machine)| {
            let runs = machine.runs.as_ref();
            let here = runs.is_some_and(|(_, whole)| whole.places[&lan].node == name(*node));
            machine.up && here && machine.clock < machine.deadline
        };
        self.machines.iter().enumerate().filter(sends).count()
    }

    /// Checks that each end of a link accepts packets only from the node that has the other end,
    /// according to its own documents.
    fn check(&mut self, told: &dyn Fn() -> String) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let run = |node: usize| {
            Some(&self.machines[node].runs.as_ref().filter(|_| self.machines[node].up)?.1)
        };
        for receiver in 0..self.machines.len() {
            let Some(here) = run(receiver) else { continue };
            for sender in (0..self.machines.len()).filter(|sender| *sender != receiver) {
                let Some(there) = run(sender) else { continue };
                for (link, own) in &here.tunnels {
                    let Some(other) = there.tunnels.get(link) else { continue };
                    let at =
                        |nodes: &[String; 2], node| nodes.iter().position(|one| *one == name(node));
                    let (Some(_), Some(from)) = (at(&own.nodes, receiver), at(&own.nodes, sender))
                    else {
                        continue;
                    };
                    let is_same = own.nodes == other.nodes && own.id == other.id;
                    if !is_same || own.keys[from] != other.keys[from] || other.epoch < own.epoch {
                        continue;
                    }
                    for node in [receiver, sender] {
                        let owners = [here, there].map(|whole| owner(whole, link, node));
                        assert_eq!(
                            owners[0],
                            owners[1],
                            "{link} from n{sender} at n{receiver}: {}",
                            told()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn histories() {
    let said = std::env::var("HISTORIES").ok().and_then(|number| number.parse().ok());
    let histories = said.unwrap_or(HISTORIES);
    let (mut taken_over, mut drained, mut lan) = (0, 0, 0);
    for seed in 0..histories {
        let mut world = World::new(seed, FENCE);
        for step in 0..STEPS {
            world.step(true);
            world.check(&|| format!("seed {seed}, step {step}"));
        }
        for machine in &mut world.machines {
            (machine.up, machine.reaches) = (true, true);
        }
        world.away = world.now;
        for step in 0..CALM {
            world.step(false);
            world.check(&|| format!("seed {seed}, calm step {step}"));
        }
        let mut runs: BTreeMap<&Key, Vec<usize>> = BTreeMap::new();
        for (node, machine) in world.machines.iter().enumerate() {
            let (sequence, whole) = machine.runs.as_ref().expect("it runs");
            assert_eq!(*sequence, world.state.head.sequence, "seed {seed}: n{node} is behind");
            for (key, place) in &whole.places {
                if place.node == name(node) {
                    runs.entry(key).or_default().push(node);
                }
            }
        }
        // Seven routers and two ports.
        assert_eq!(runs.len(), 9, "seed {seed}");
        assert!(!world.two_senders, "seed {seed}: two nodes have sent on one LAN");
        assert!(runs.values().all(|nodes| nodes.len() == 1), "seed {seed}: {runs:?}");
        taken_over += world.taken_over;
        drained += world.drained;
        lan += world.lan_taken_over;
    }
    println!("{histories} histories: {taken_over} takeovers, {lan} on a LAN, {drained} drains");
    assert!(
        taken_over > histories && drained > histories && lan > histories / 10,
        "{taken_over} takeovers, {lan} on a LAN, {drained} drains"
    );
}

/// A planted fault: without the second that the deadline leaves, a slow clock lets two nodes send.
#[test]
fn a_late_fence_is_found() {
    let finds = |seed: &u64| {
        let mut world = World::new(*seed, LEASE + Duration::from_secs(1));
        (0..STEPS).for_each(|_| world.step(true));
        world.two_senders
    };
    let found = (0..HISTORIES).find(finds);
    println!("found in history {found:?}");
    assert!(found.is_some());
}
