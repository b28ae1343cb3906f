//! Compares the bound with the tree itself, in simulated time, with neighbours that send as much as
//! they can: no packet of a conforming flow is later than its bound.

use std::collections::VecDeque;

use europa_admit::{
    Budget, Bytes, BytesPerSecond, Class, Flow, FlowId, Machine, Need, Seconds, Service, Timing,
};
use europa_impair::Random;
use europa_queue::{Due, Id, Limit, Policy, QueueSettings, Rate, Settings, Share, Tree};

const SECOND: f64 = 1e9;
const LONGEST: u32 = 9000;
/// 1 Gb/s.
const WIRE: f64 = 1.25e8;

/// The token of a packet: source and time of arrival.
type Packet = (usize, u64);

fn rate(bytes: BytesPerSecond, depth: Bytes) -> Rate {
    Rate { bits: (bytes.0 * 8.0).ceil() as u64, burst_bytes: depth.0.ceil() as u64 }
}

fn queue(share: Share) -> QueueSettings {
    let limit = Limit { packets: 100_000, bytes: 50_000_000 };
    QueueSettings { share, limit, policy: Policy::Tail }
}

/// Sends packets of `smallest` to `largest` bytes.
struct Source {
    queue: Id,
    sizes: (u32, u32),
    /// The token bucket of a conforming source; `None` for a source that always has packets
    /// waiting.
    bucket: Option<(f64, f64)>,
    tokens: f64,
    at_ns: f64,
    next: u32,
    bound_ns: Option<f64>,
    worst_ns: f64,
    /// Arrival times of waiting packets.
    waiting: VecDeque<u64>,
}

impl Source {
    fn new(queue: Id, sizes: (u32, u32), bucket: Option<(f64, f64)>, at_ns: f64) -> Self {
        let tokens = bucket.map_or(0.0, |(_, depth)| depth);
        let (bound_ns, worst_ns, waiting) = (None, 0.0, VecDeque::new());
        Self { queue, sizes, bucket, tokens, at_ns, next: 0, bound_ns, worst_ns, waiting }
    }

    fn draw(&mut self, random: &mut Random) -> u32 {
        let (smallest, largest) = self.sizes;
        match random.below(3) {
            0 => smallest,
            1 => largest,
            _ => smallest + random.below(largest - smallest + 1),
        }
    }

    /// Sends all packets that the bucket allows by `now`: as early as possible, with occasional
    /// pauses.
    fn catch_up(
        &mut self,
        tree: &mut Tree<Packet>,
        number: usize,
        now_ns: f64,
        random: &mut Random,
    ) {
        let Some((rate, depth)) = self.bucket else {
            while tree.waiting(self.queue) < 40 {
                let length = self.draw(random);
                let arrival = now_ns as u64;
                tree.enqueue(arrival, self.queue, (number, arrival), length, false, |_, _| ());
                self.waiting.push_back(arrival);
            }
            return;
        };
        loop {
            if self.next == 0 {
                self.next = self.draw(random);
                if random.below(400) == 0 {
                    // A pause, after which a burst of the whole depth arrives.
                    self.wait(depth / rate * SECOND, rate, depth);
                }
            }
            let missing = f64::from(self.next) - self.tokens;
            let ready_ns = self.at_ns + (missing.max(0.0) / rate * SECOND).ceil();
            if ready_ns > now_ns {
                return;
            }
            let waits = ready_ns - self.at_ns;
            self.wait(waits, rate, depth);
            self.tokens -= f64::from(self.next);
            let arrival = self.at_ns as u64;
            let is_in =
                tree.enqueue(arrival, self.queue, (number, arrival), self.next, false, |_, _| ());
            assert!(is_in, "a packet of a conforming flow is lost");
            self.waiting.push_back(arrival);
            self.next = 0;
        }
    }

    fn wait(&mut self, ns: f64, rate: f64, depth: f64) {
        self.tokens = (self.tokens + ns / SECOND * rate).min(depth);
        self.at_ns += ns;
    }
}

/// A port with flows and neighbours.
struct Scene {
    tree: Tree<Packet>,
    sources: Vec<Source>,
    machine: Machine,
    random: Random,
}

fn below(random: &mut Random, low: f64, high: f64) -> f64 {
    low + (high - low) * f64::from(random.below(1_000_000)) / 1e6
}

fn any_flow(random: &mut Random, is_guaranteed: bool) -> Flow {
    let largest = f64::from([200, 576, 1514, LONGEST][random.below(4) as usize]);
    let smallest = f64::from(64.max(random.below(largest as u32)));
    let rate = BytesPerSecond(below(random, 1e5, 2e7));
    let depth = Bytes(largest * f64::from(1 + random.below(10)));
    let service = if is_guaranteed {
        Service::Guaranteed { rate: BytesPerSecond(rate.0 * below(random, 1.0, 2.0)) }
    } else {
        Service::ControlledLoad
    };
    let sizes = (Bytes(smallest), Bytes(largest));
    Flow::new(rate, depth, BytesPerSecond(f64::INFINITY), sizes, service).unwrap()
}

impl Scene {
    fn new(seed: u64, keeps_guarantees: bool) -> Self {
        let mut random = Random::new(seed);
        let in_class = random.below(2) == 0;
        let class = in_class.then(|| Class {
            rate: BytesPerSecond(below(&mut random, 0.3, 0.6) * WIRE),
            siblings_rate: BytesPerSecond(0.2 * WIRE),
            siblings_depth: Bytes(30_000.0),
            siblings: 1,
        });
        let machine = Machine {
            rate: BytesPerSecond(WIRE),
            longest: Bytes(f64::from(LONGEST)),
            class,
            slots: 1 << 40,
            cores: 1e6,
            packet_cost: Seconds(1e-6),
            labels: 1000,
            queue_nodes: 1000,
            timing: Timing { look: Seconds(1e-4), kick: Seconds(2e-5), ahead: Bytes(25_000.0) },
            longest_d: Seconds(below(&mut random, 0.003, 0.02)),
        };
        let settings = Settings { quantum_bytes: LONGEST, ..Settings::new(64, 200_000) };
        let mut tree = Tree::new(settings);
        let cap = rate(machine.rate, machine.timing.ahead);
        tree.set_share(Id::PORT, Share::weight(1).capped(cap)).unwrap();
        let scene = Self { tree, sources: Vec::new(), machine, random };
        scene.filled(keeps_guarantees)
    }

    /// Adds a scheduler's slices: the slice of the flows, and a slice that floods. If the flows
    /// have their own class, a third slice with a guarantee floods too.
    fn filled(mut self, keeps_guarantees: bool) -> Self {
        let class = self.machine.class;
        let scheduler = self.tree.add_class(Id::PORT, Share::weight(1), Limit::NONE).unwrap();
        // The depth is the possible deficit of the class's flows: with a smaller depth, tokens
        // would be lost.
        let guarantee = rate(class.map_or(self.machine.rate, |class| class.rate), Bytes(2e6));
        let own = Share::weight(1);
        let own = if keeps_guarantees { own.guaranteed(guarantee) } else { own };
        let slice = self.tree.add_class(scheduler, own, Limit::NONE).unwrap();
        let router = self.tree.add_class(slice, own, Limit::NONE).unwrap();
        let other = self.tree.add_class(scheduler, Share::weight(65_535), Limit::NONE).unwrap();
        let other = self.tree.add_class(other, Share::weight(1), Limit::NONE).unwrap();
        self.flood(other, Share::weight(1));
        if let Some(class) = class {
            // This source uses up the class's tokens.
            self.flood(router, Share::weight(65_535));
            let share =
                Share::weight(1).guaranteed(rate(class.siblings_rate, class.siblings_depth));
            let sibling = self.tree.add_class(scheduler, share, Limit::NONE).unwrap();
            let sibling = self.tree.add_class(sibling, Share::weight(1), Limit::NONE).unwrap();
            self.flood(sibling, Share::weight(1));
        }
        self.add_flows(router, keeps_guarantees);
        self
    }

    fn flood(&mut self, router: Id, share: Share) {
        let id = self.tree.add_unnumbered(router, queue(share)).unwrap();
        self.sources.push(Source::new(id, (LONGEST, LONGEST), None, 0.0));
    }

    fn add_flows(&mut self, router: Id, keeps_guarantees: bool) {
        let mut budget = Budget::new(self.machine);
        let mut admitted: Vec<(usize, FlowId)> = Vec::new();
        for number in 0..2 + u64::from(self.random.below(12)) {
            let is_guaranteed = number == 0 || self.random.below(3) > 0;
            let flow = any_flow(&mut self.random, is_guaranteed);
            let id = FlowId(number);
            let Ok(need) = budget.admit(id, flow) else { continue };
            let share = share_of(&need, keeps_guarantees);
            let queue_id = self.tree.add_unnumbered(router, queue(share)).unwrap();
            let (source, is_checked) = self.source_of(queue_id, &flow, &need, is_guaranteed);
            if is_checked {
                admitted.push((self.sources.len(), id));
            }
            self.sources.push(source);
        }
        for (source, id) in admitted {
            self.sources[source].bound_ns = budget.bound(id).map(|bound| bound.0 * SECOND);
        }
    }

    /// Two of three guaranteed flows conform; a flooding flow has no bound.
    fn source_of(
        &mut self,
        queue: Id,
        flow: &Flow,
        need: &Need,
        is_guaranteed: bool,
    ) -> (Source, bool) {
        let conforms = is_guaranteed && self.random.below(3) > 0;
        // The flow's parameters follow from its need: b = backlog - r·promised.
        let (rate, depth, sizes) = parameters(flow, need);
        let start = below(&mut self.random, 0.0, 5e6);
        let bucket = conforms.then_some((rate, depth));
        (Source::new(queue, sizes, bucket, start), conforms)
    }

    fn run(&mut self, until_ns: f64) {
        let mut out: Vec<Due<Packet>> = Vec::with_capacity(4096);
        let timing = self.machine.timing;
        let (mut now, mut wire_free) = (0.0_f64, 0.0_f64);
        while now < until_ns {
            for number in 0..self.sources.len() {
                let source = &mut self.sources[number];
                source.catch_up(&mut self.tree, number, now, &mut self.random);
            }
            out.clear();
            self.tree.dequeue(now as u64, 1 << 30, &mut out, |_, _| ());
            for due in &out {
                let starts = wire_free.max(now + timing.kick.0 * SECOND);
                wire_free = starts + f64::from(due.length) / WIRE * SECOND;
                let (number, arrival) = due.packet;
                let source = &mut self.sources[number];
                assert_eq!(source.waiting.pop_front(), Some(arrival));
                source.worst_ns = source.worst_ns.max(wire_free - arrival as f64);
            }
            // The worker looks at intervals of at most this length, and often shorter ones.
            let wait =
                if self.random.below(2) == 0 { 1.0 } else { below(&mut self.random, 0.01, 1.0) };
            now += (timing.look.0 * SECOND * wait).floor().max(1.0);
        }
        // Packets that still wait count with their present delay.
        for source in &mut self.sources {
            let oldest = source.waiting.front().map_or(0.0, |arrival| until_ns - *arrival as f64);
            source.worst_ns = source.worst_ns.max(oldest);
        }
    }

    /// The worst delay of each conforming flow, as a fraction of its bound.
    fn parts(&self) -> Vec<f64> {
        let bound = |source: &Source| Some(source.worst_ns / source.bound_ns?);
        self.sources.iter().filter_map(bound).collect()
    }
}

fn share_of(need: &Need, keeps_guarantees: bool) -> Share {
    let share = Share::weight(1);
    if keeps_guarantees { share.guaranteed(rate(need.rate, need.depth)) } else { share }
}

fn parameters(flow: &Flow, need: &Need) -> (f64, f64, (u32, u32)) {
    let (rate, depth, (smallest, largest)) = flow.token_bucket();
    assert!(need.backlog >= depth);
    (rate.0, depth.0, (smallest.0 as u32, largest.0 as u32))
}

fn seeds() -> u64 {
    std::env::var("EUROPA_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

#[test]
fn no_packet_of_a_conforming_flow_is_later_than_its_bound() {
    let (mut checked, mut closest) = (0, 0.0_f64);
    for seed in 0..seeds() {
        let mut scene = Scene::new(seed, true);
        scene.run(1e8);
        for part in scene.parts() {
            assert!(part <= 1.0, "seed {seed}: {part} of the bound, {:?}", scene.machine);
            closest = closest.max(part);
            checked += 1;
        }
    }
    println!("{checked} flows, the latest packet after {closest:.2} of its bound");
    // The bound is tight: some delays come near to it.
    assert!(checked > 100 && closest > 0.3, "{checked} flows, {closest} of the bound");
}

#[test]
fn without_guarantees_packets_are_later_than_the_bound() {
    let late = (0..20).filter(|seed| {
        let mut scene = Scene::new(*seed, false);
        scene.run(1e8);
        scene.parts().iter().any(|part| *part > 1.0)
    });
    assert!(late.count() > 5);
}
