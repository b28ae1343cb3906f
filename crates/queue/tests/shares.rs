//! Compares shares, guarantees and caps with ideal fluid fair queueing, in simulated time.

mod common;

use common::{LONGEST, SECOND, Source, queue, run, settings};
use europa_impair::Random;
use europa_queue::{Id, Limit, Rate, Share, Tree};
use proptest::prelude::*;

const GIGABIT: u64 = 1_000_000_000;

/// A tree with one scheduler at a rate, and this many slices in it.
fn port(queues: u32, bits: u64, slices: &[Share]) -> (Tree<common::Packet>, Vec<Id>) {
    let mut tree = Tree::new(settings(queues));
    let rate = Share::weight(1).capped(Rate::over(bits, 20));
    let scheduler = tree.add_class(Id::PORT, rate, Limit::NONE).unwrap();
    let routers = slices.iter().map(|share| {
        let slice = tree.add_class(scheduler, *share, Limit::NONE).unwrap();
        tree.add_class(slice, Share::weight(1), Limit::NONE).unwrap()
    });
    let routers = routers.collect();
    (tree, routers)
}

#[test]
fn queues_share_by_weight_over_a_second() {
    for (weights, seed) in [(vec![1, 1], 1), (vec![3, 1], 2), (vec![1, 7], 3), (vec![100, 33], 4)]
        .into_iter()
        .chain([((0..10_000).map(|n| 1 + n % 5).collect(), 5)])
    {
        let (mut tree, routers) = port(weights.len() as u32, GIGABIT, &[Share::weight(1)]);
        let mut sources: Vec<Source> = weights
            .iter()
            .enumerate()
            .map(|(number, weight)| {
                let share = queue(Share::weight(*weight));
                let queue = tree.add_queue(routers[0], number as u16, share).unwrap();
                Source::new(queue, None, seed * 100_000 + number as u64)
            })
            .collect();
        run(&mut tree, &mut sources, 0, SECOND, SECOND);
        let all: u64 = sources.iter().map(|source| source.left).sum();
        let rate = GIGABIT as f64 / 8.0;
        assert!((all as f64 / rate - 1.0).abs() < 0.001, "{all}");
        let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let lightest = weights.iter().min().unwrap().ilog2();
        for (weight, source) in weights.iter().zip(&sources) {
            let ideal = all as f64 * f64::from(*weight) / sum;
            let turn = f64::from(LONGEST.div_ceil(1 << lightest)) * f64::from(*weight);
            let bound = (ideal * 0.01).max(turn + f64::from(LONGEST));
            let off = source.left as f64 - ideal;
            assert!(off.abs() <= bound, "{weight} of {sum}: {off} off {ideal}, bound {bound}");
        }
    }
}

#[test]
fn a_guaranteed_slice_loses_nothing_and_waits_little_while_another_floods() {
    for weight_of_flood in [1, 1000] {
        let guarantee = Rate::over(GIGABIT / 10, 500);
        let slices = [Share::weight(1).guaranteed(guarantee), Share::weight(weight_of_flood)];
        let (mut tree, routers) = port(16, GIGABIT, &slices);
        let few = queue(Share::weight(1));
        let guaranteed = tree.add_queue(routers[0], 0, few).unwrap();
        let mut sources = vec![Source::new(guaranteed, Some(GIGABIT as f64 / 8.0 * 0.099), 1)];
        for local in 0..8 {
            let queue = tree.add_queue(routers[1], local, few).unwrap();
            let mut flood = Source::new(queue, Some(GIGABIT as f64 / 8.0 / 4.0), 2);
            flood.length = Some(64);
            sources.push(flood);
        }
        run(&mut tree, &mut sources, 0, SECOND, 50_000);
        let statistics = tree.statistics(guaranteed).unwrap();
        assert_eq!((sources[0].lost, statistics.dropped()), (0, 0));
        assert!(statistics.waited_ns(0.99) <= 2_000_000, "{:?}", statistics.waited);
        let flood: u64 = sources[1..].iter().map(|source| source.lost).sum();
        assert!(flood > 100_000_000, "the other floods: {flood}");
        let left: u64 = sources.iter().map(|source| source.left).sum();
        assert!(left as f64 > GIGABIT as f64 / 8.0 * 0.999, "{left}");
    }
}

#[test]
fn a_cap_holds_and_what_it_leaves_goes_to_others() {
    for (bits, burst_us) in [(1_000_000, 20_000), (50_000_000, 1000), (333_333_333, 100)] {
        let capped = Share::weight(10).capped(Rate::over(bits, burst_us));
        let (mut tree, routers) = port(2, GIGABIT, &[capped, Share::weight(1)]);
        let mut sources: Vec<Source> = (0..2)
            .map(|number| {
                let queue = queue(Share::weight(1));
                let queue = tree.add_queue(routers[number], 0, queue).unwrap();
                Source::new(queue, None, number as u64)
            })
            .collect();
        run(&mut tree, &mut sources, 0, SECOND, SECOND);
        let ideal = bits as f64 / 8.0;
        // The turn of the other child, while its bucket fills: ten times the lightest child's turn.
        let burst = ideal * burst_us as f64 / 1e6 + f64::from(LONGEST) * 11.0;
        let off = sources[0].left as f64 - ideal;
        assert!(off > -ideal * 0.01 && off < burst + ideal * 0.01, "{bits}: {off}");
        let all = sources[0].left + sources[1].left;
        assert!((all as f64 * 8.0 / GIGABIT as f64 - 1.0).abs() < 0.001, "{all}");
    }
}

#[test]
fn rates_and_weights_change_while_packets_wait() {
    let (mut tree, routers) = port(2, GIGABIT, &[Share::weight(1)]);
    let ids: Vec<Id> =
        (0..2).map(|n| tree.add_queue(routers[0], n, queue(Share::weight(1))).unwrap()).collect();
    let mut sources: Vec<Source> = ids.iter().map(|id| Source::new(*id, None, 1)).collect();
    let table = [
        (Share::weight(3), GIGABIT, [0.75, 0.25]),
        (Share::weight(3).capped(Rate::over(GIGABIT / 10, 100)), GIGABIT, [0.1, 0.9]),
        (Share::weight(1).guaranteed(Rate::over(GIGABIT / 2, 1000)), GIGABIT, [0.75, 0.25]),
        (Share::weight(1), GIGABIT / 2, [0.25, 0.25]),
        (Share::weight(1), GIGABIT, [0.5, 0.5]),
    ];
    let mut now = 0;
    for (share, port_bits, ideal) in table {
        tree.set_share(ids[0], share).unwrap();
        let rate = Share::weight(1).capped(Rate::over(port_bits, 20));
        tree.set_share(Id::PORT, rate).unwrap();
        let before = [sources[0].left, sources[1].left];
        run(&mut tree, &mut sources, now, now + SECOND, SECOND);
        now += SECOND;
        for (queue, ideal) in ideal.into_iter().enumerate() {
            let bytes = (sources[queue].left - before[queue]) as f64;
            let ideal = ideal * GIGABIT as f64 / 8.0;
            assert!(
                (bytes - ideal).abs() < (0.01 * ideal).max(40_000.0),
                "{queue}: {bytes} {ideal}"
            );
        }
    }
}

/// A node of a random tree; it is a queue if it has no children.
#[derive(Clone, Debug)]
struct Plan {
    weight: u16,
    /// Fraction of the parent's assured rate.
    guarantee: Option<f64>,
    /// Part of the port's rate.
    cap: Option<f64>,
    /// For a queue: the demand as a fraction of the port's rate; `None` if it is always full.
    demand: Option<f64>,
    children: Vec<Plan>,
}

fn plan(levels: u32) -> BoxedStrategy<Plan> {
    let children = if levels == 0 {
        Just(vec![]).boxed()
    } else {
        prop::collection::vec(plan(levels - 1), 1..4).boxed()
    };
    let part = |from, to| prop::option::weighted(0.3, from..to);
    (1u16..20, part(0.05, 0.3), part(0.02, 1.0), prop::option::of(0.01..0.8), children)
        .prop_map(|(weight, guarantee, cap, demand, children)| Plan {
            weight,
            guarantee,
            cap,
            demand,
            children,
        })
        .boxed()
}

impl Plan {
    /// The demand that it can use, as a fraction of the port's rate.
    fn usable(&self) -> f64 {
        let below = if self.children.is_empty() {
            self.demand.unwrap_or(1.0)
        } else {
            self.children.iter().map(Self::usable).sum()
        };
        below.min(self.cap.unwrap_or(1.0))
    }

    /// Its guaranteed rate, given the assured rate of its parent.
    fn sure(&self, parent: f64) -> f64 {
        (self.guarantee.unwrap_or(0.0) * parent).min(self.cap.unwrap_or(1.0))
    }

    /// Divides the rate as a fluid would: guarantees first, then the rest by weight. Adds each
    /// queue's share to `queues`.
    fn ideal(&self, rate: f64, sure: f64, queues: &mut Vec<f64>) {
        if self.children.is_empty() {
            queues.push(rate);
            return;
        }
        let usable: Vec<f64> = self.children.iter().map(Self::usable).collect();
        let first = |(child, usable): (&Self, &f64)| child.sure(sure).min(*usable);
        let mut gets: Vec<f64> = self.children.iter().zip(&usable).map(first).collect();
        let mut left = rate - gets.iter().sum::<f64>();
        while left > 1e-9 {
            let hungry = |n: &usize| usable[*n] - gets[*n] > 1e-9;
            let open: Vec<usize> = (0..gets.len()).filter(hungry).collect();
            let weight = |n: usize| f64::from(self.children[n].weight);
            let weights: f64 = open.iter().map(|n| weight(*n)).sum();
            // Until the first has enough.
            let step = open.iter().map(|n| (usable[*n] - gets[*n]) / weight(*n));
            let Some(step) = step.min_by(f64::total_cmp) else { break };
            let step = step.min(left / weights);
            open.iter().for_each(|n| gets[*n] += step * weight(*n));
            left -= step * weights;
        }
        for (child, gets) in self.children.iter().zip(gets) {
            child.ideal(gets, child.sure(sure), queues);
        }
    }

    /// Makes the same nodes in the tree. `sure` is the parent's assured rate.
    fn make(
        &self,
        tree: &mut Tree<common::Packet>,
        parent: Id,
        bits: f64,
        sure: f64,
        made: &mut Vec<Source>,
    ) {
        let rate = |part: f64, us| Rate::over((part * bits) as u64, us);
        let sure = self.sure(sure);
        let guarantee = self.guarantee.filter(|_| sure > 0.0).map(|_| rate(sure, 2_000));
        // The burst lasts longer than a round: if a queue waits for its turn longer than its burst
        // lasts, it loses part of its cap.
        let cap = self.cap.map(|part| rate(part, 10_000));
        let share = Share { weight: self.weight, guarantee, cap };
        if self.children.is_empty() {
            let number = made.len();
            let queue = tree.add_queue(parent, number as u16, queue(share)).unwrap();
            let bytes = self.demand.map(|part| part * bits / 8.0);
            made.push(Source::new(queue, bytes, number as u64));
        } else {
            let class = tree.add_class(parent, share, Limit::NONE).unwrap();
            self.children.iter().for_each(|child| child.make(tree, class, bits, sure, made));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any tree shares like a fluid model, to within this bound: one per cent, or one of the
    /// longest turns (weight 19 of at least 1) at each of four levels.
    #[test]
    fn trees_share_as_a_fluid_does(schedulers in prop::collection::vec(plan(3), 1..3)) {
        let bits = GIGABIT as f64;
        let mut tree = Tree::new(settings(100));
        let port = Share::weight(1).capped(Rate::over(GIGABIT, 20));
        tree.set_share(Id::PORT, port).unwrap();
        let mut sources = Vec::new();
        schedulers.iter().for_each(|plan| plan.make(&mut tree, Id::PORT, bits, 1.0, &mut sources));
        let root = Plan { weight: 1, guarantee: None, cap: None, demand: None, children: schedulers };
        let mut ideal = Vec::new();
        root.ideal(1.0, 1.0, &mut ideal);
        // The bursts pass first.
        run(&mut tree, &mut sources, 0, SECOND / 4, 100_000);
        sources.iter_mut().for_each(|source| (source.left, source.lost) = (0, 0));
        run(&mut tree, &mut sources, SECOND / 4, SECOND * 5 / 4, 100_000);
        for (number, (source, ideal)) in sources.iter().zip(&ideal).enumerate() {
            let ideal = ideal * bits / 8.0;
            let off = source.left as f64 - ideal;
            let bound = (0.01 * ideal).max(20.0 * f64::from(LONGEST) * 4.0);
            prop_assert!(off.abs() <= bound, "queue {number}: {off} off {ideal}; {root:?}");
        }
    }
}

#[test]
fn turns_do_not_depend_on_the_order_of_arrival() {
    // Of two queues, one gets one long packet at a time, and the other is always full of short
    // ones. The long packets overdraw, and are charged to their queue although it is empty in
    // between.
    let (mut tree, routers) = port(2, GIGABIT, &[Share::weight(1)]);
    let mut add = |n| tree.add_queue(routers[0], n, queue(Share::weight(1))).unwrap();
    let (long, short) = (add(0), add(1));
    let mut random = Random::new(1);
    let mut out = Vec::with_capacity(1);
    let mut left = [0u64; 2];
    let mut now = 0;
    for _ in 0..20 {
        tree.enqueue(now, short, (1, 0), 64, false, |_, _| ());
    }
    tree.enqueue(now, long, (0, 0), 65_000, false, |_, _| ());
    while now < SECOND {
        out.clear();
        tree.dequeue(now, 1, &mut out, |_, _| ());
        for due in &out {
            let queue = due.packet.0;
            left[queue as usize] += u64::from(due.length);
            let length = if queue == 0 { 65_000 } else { 60 + random.below(9) };
            tree.enqueue(now, [long, short][queue as usize], due.packet, length, false, |_, _| ());
        }
        now = tree.next_due(now).unwrap();
    }
    let off = left[0] as f64 / left[1] as f64 - 1.0;
    assert!(off.abs() < 0.01, "{left:?}");
}
