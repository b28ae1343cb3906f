//! Prints the cost of queueing for a packet:
//!
//! ```text
//! cargo run --release -p europa-queue --example queueing
//! ```
//!
//! "full" keeps at least four packets in each queue and adds one for each removed one, in batches
//! of 64. In "one each", the worst case, every packet empties its queue. Times are for adding *and*
//! removing one packet, as medians of nine runs.

use std::hint::black_box;
use std::time::Instant;

use europa_impair::Random;
use europa_queue::{Id, Limit, Policy, QueueSettings, Rate, Settings, Share, Tree};

const PACKETS: usize = 1 << 20;
const BATCH: usize = 64;

fn median(mut run: impl FnMut()) -> f64 {
    run();
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e9 / PACKETS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[4]
}

fn tree(queues: usize, routers: usize, share: Share, policy: Policy) -> (Tree<u64>, Vec<Id>) {
    let mut tree = Tree::new(Settings::new(queues as u32, queues as u32 * 8 + 1024));
    let scheduler = Share::weight(1).capped(Rate::over(400_000_000_000, 1000));
    let add = |tree: &mut Tree<u64>, parent, share| tree.add_class(parent, share, Limit::NONE);
    let scheduler = add(&mut tree, Id::PORT, scheduler).expect("room");
    let limit = Limit { packets: 100, bytes: 200_000 };
    let mut router = None;
    let ids = (0..queues)
        .map(|number| {
            if number % (queues / routers) == 0 {
                let slice = add(&mut tree, scheduler, Share::weight(1)).expect("room");
                router = add(&mut tree, slice, Share::weight(1)).ok();
            }
            let settings = QueueSettings { share, limit, policy };
            let local = (number % (queues / routers)) as u16;
            tree.add_queue(router.expect("made"), local, settings).expect("room")
        })
        .collect();
    (tree, ids)
}

fn measure(what: &str, queues: usize, routers: usize, share: Share, policy: Policy) {
    // An argument picks one line.
    let wanted = format!("{what} {queues} {routers}");
    if std::env::args().nth(1).is_some_and(|only| only != wanted) {
        return;
    }
    let (mut tree, ids) = tree(queues, routers, share, policy);
    let mut random = Random::new(1);
    let mut order: Vec<usize> = (0..queues).collect();
    (1..queues).rev().for_each(|n| order.swap(n, random.below(n as u32 + 1) as usize));
    let lengths: Vec<u32> = (0..4096).map(|_| 64 + random.below(1451)).collect();
    let mut out = Vec::with_capacity(BATCH);
    let mut now = 0;

    // One packet each, in random order.
    let one_each = median(|| {
        let mut at = 0;
        let batch = queues.min(1 << 15);
        for _ in 0..PACKETS / batch {
            for step in 0..batch {
                let ahead = order[(at + step + 8) % queues];
                tree.prefetch(ids[ahead]);
                let queue = order[(at + step) % queues];
                let length = lengths[step % lengths.len()];
                tree.enqueue(now, ids[queue], queue as u64, length, false, |_, _| ());
            }
            at = (at + batch) % queues;
            while !tree.is_empty() {
                now += 10_000;
                out.clear();
                tree.dequeue(now, u64::MAX, &mut out, |_, _| ());
                black_box(&out);
            }
        }
    });

    for round in 0..4.max(4 * BATCH / queues) {
        for queue in &order {
            let length = lengths[(queue + round) % lengths.len()];
            tree.enqueue(now, ids[*queue], *queue as u64, length, false, |_, _| ());
        }
    }
    let mut at = 0;
    let full = median(|| {
        let mut passed = 0;
        while passed < PACKETS {
            now += 5000;
            out.clear();
            tree.dequeue(now, u64::MAX, &mut out, |_, _| ());
            passed += out.len();
            for due in &out {
                at = (at + 1) % lengths.len();
                let queue = ids[due.packet as usize];
                tree.enqueue(now, queue, due.packet, lengths[at], false, |_, _| ());
            }
        }
    });
    println!(
        "{queues:>6} queues, {routers:>5} slices, {what:<22} full {full:6.1}  one each {one_each:6.1} ns"
    );
}

fn main() {
    let plain = Share::weight(1);
    let rate = Rate::over(1_000_000_000, 1000);
    let codel = Policy::Codel(europa_queue::Codel::default());
    for (queues, routers) in [(10, 1), (10, 5), (1000, 10), (65_536, 4), (65_536, 4096)] {
        measure("weights", queues, routers, plain, Policy::Tail);
    }
    for (what, share, policy) in [
        ("CoDel", plain, codel),
        ("caps", plain.capped(rate), Policy::Tail),
        ("guarantees", plain.guaranteed(rate), Policy::Tail),
    ] {
        measure(what, 10, 1, share, policy);
        measure(what, 65_536, 4, share, policy);
    }
}
