//! `queues`: the cost of a packet in the queue manager, compared with a plain first-in-first-out
//! queue.
//!
//! Statistics are counted in memory that is mapped and shared, as in the switch. Packets arrive in
//! batches with prefetching, as in the switch's intake. The cost of the loop itself, with the
//! packets' lengths and numbers, is measured without a tree and subtracted.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use europa_pool::Mapping;
use europa_queue::{
    Error as TreeError, Id, Limit, Policy, QueueSettings, Rate, Settings, Share, WORDS,
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Serialize;
use serde_json::json;

use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Outcome, Table};
use crate::statistics::Spread;

/// Packets of one run.
const PACKETS: usize = 1 << 19;
const BATCH: usize = 64;
/// Least number of packets that wait in each queue in runs with full queues.
const FULL: usize = 4;
/// Number of packets ahead for which memory is prefetched, as in the switch's intake.
const SOON: usize = 4;
const LATER: usize = 12;
/// Numbers of queues, and of slices that contain them.
const TREES: [(usize, usize); 3] = [(10, 5), (1000, 10), (65_536, 64)];

/// The result of one number of queues; 0 stands for a plain queue.
#[derive(Serialize)]
struct Measured {
    queues: usize,
    slices: usize,
    /// Nanoseconds of a packet that enters and leaves, while each queue always has packets.
    full_ns: Vec<f64>,
    /// Nanoseconds of a packet that empties its queue.
    one_each_ns: Vec<f64>,
    /// The subtracted nanoseconds of the loop itself.
    loop_ns: Vec<f64>,
}

/// Shared memory for statistics, as in the switch.
struct Words(Mapping);

impl AsRef<[AtomicU64]> for Words {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        self.0.words(0, self.0.bytes() / 8).unwrap_or_default()
    }
}

type Tree = europa_queue::Tree<u64, Words>;
type Due = europa_queue::Due<u64>;

/// Number of packets that wait in each queue: a batch never empties it.
fn depth(queues: usize) -> usize {
    FULL.max(4 * BATCH / queues)
}

fn words(settings: Settings) -> Result<Words> {
    let bytes = (settings.nodes as usize + 1) * WORDS * 8;
    let file = memfd_create("queues", MFdFlags::MFD_CLOEXEC).context("memory for statistics")?;
    nix::unistd::ftruncate(&file, bytes as i64).context("memory for statistics")?;
    Ok(Words(Mapping::new(&file, bytes).context("memory for statistics")?))
}

/// A tree with an unreachable rate, and its queues in an order that gives caches no locality.
fn tree(
    queues: usize,
    slices: usize,
    (settings, words): (Settings, Words),
) -> std::result::Result<(Tree, Vec<Id>), TreeError> {
    let mut tree = Tree::with_words(settings, words)?;
    let rate = Rate::over(400_000_000_000, 1000);
    tree.set_share(Id::PORT, Share::weight(1).capped(rate))?;
    let scheduler = tree.add_class(Id::PORT, Share::weight(1), Limit::NONE)?;
    let limit = Limit { packets: 1024, bytes: 1 << 20 };
    let settings = QueueSettings { share: Share::weight(1), limit, policy: Policy::Tail };
    let mut ids = Vec::new();
    for slice in 0..slices {
        let class = tree.add_class(scheduler, Share::weight(1), Limit::NONE)?;
        let router = tree.add_class(class, Share::weight(1), Limit::NONE)?;
        for number in 0..queues / slices + usize::from(slice < queues % slices) {
            ids.push(tree.add_queue(router, number as u16, settings)?);
        }
    }
    // A step without a common factor visits all queues.
    let step = (queues * 5 / 8) | 1;
    let order = (0..queues).map(|at| ids[at * step % queues]).collect();
    Ok((tree, order))
}

fn length(at: usize) -> u32 {
    64 + (at.wrapping_mul(2_654_435_761) >> 7) as u32 % 1451
}

fn ns_per_packet(start: Instant, packets: usize) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / packets as f64
}

/// Puts one packet into each queue, and takes it out again.
fn one_each(tree: &mut Tree, ids: &[Id], now: &mut u64, out: &mut Vec<Due>) -> f64 {
    let start = Instant::now();
    let mut passed = 0;
    while passed < PACKETS {
        for (at, id) in ids.iter().enumerate() {
            fetch_ahead(tree, |by| ids.get(at + by).copied());
            tree.enqueue(*now, *id, at as u64, length(at), false, |_, _| ());
        }
        while !tree.is_empty() {
            *now += 10_000;
            out.clear();
            tree.dequeue(*now, u64::MAX, out, |_, _| ());
            passed += black_box(&out).len();
        }
    }
    ns_per_packet(start, passed)
}

/// The switch's prefetches for arriving packets.
#[inline]
fn fetch_ahead(tree: &Tree, ahead: impl Fn(usize) -> Option<Id>) {
    if tree.is_large() {
        ahead(LATER).into_iter().for_each(|id| tree.prefetch(id));
        ahead(SOON).into_iter().for_each(|id| tree.prefetch_end(id));
    }
}

/// Runs the same loops without a tree: the cost of lengths, numbers and the batch.
fn nothing(ids: &[Id], out: &mut Vec<Due>) -> f64 {
    out.clear();
    let due = Due { packet: 0, length: 0, mark: false, queue: 0 };
    out.resize(BATCH.min(out.capacity()), due);
    let start = Instant::now();
    let (mut passed, mut next) = (0, 0);
    while passed < PACKETS {
        for due in &mut *out {
            due.packet = next as u64;
            next = (next + 1) % ids.len();
        }
        passed += black_box(&*out).len();
        for due in &*out {
            let at = due.packet as usize;
            black_box((ids[at], length(passed + at)));
        }
    }
    ns_per_packet(start, passed)
}

/// Keeps queues full: one packet enters for each that leaves, so no queue is ever empty.
fn full(tree: &mut Tree, ids: &[Id], now: &mut u64, out: &mut Vec<Due>) -> f64 {
    for round in 0..depth(ids.len()) {
        for (at, id) in ids.iter().enumerate() {
            tree.enqueue(*now, *id, at as u64, length(at + round), false, |_, _| ());
        }
    }
    let start = Instant::now();
    let mut passed = 0;
    while passed < PACKETS {
        *now += 5000;
        out.clear();
        tree.dequeue(*now, u64::MAX, out, |_, _| ());
        passed += out.len();
        for (place, due) in out.iter().enumerate() {
            fetch_ahead(tree, |by| Some(ids[out.get(place + by)?.packet as usize]));
            let at = due.packet as usize;
            tree.enqueue(*now, ids[at], due.packet, length(passed + at), false, |_, _| ());
        }
    }
    let found = ns_per_packet(start, passed);
    while !tree.is_empty() {
        *now += 1_000_000;
        out.clear();
        tree.dequeue(*now, u64::MAX, out, |_, _| ());
    }
    found
}

/// Fills and empties a plain queue in the same batches.
fn plain() -> f64 {
    let mut queue: VecDeque<(u64, u32)> = VecDeque::with_capacity(BATCH);
    let start = Instant::now();
    for passed in (0..PACKETS).step_by(BATCH) {
        (passed..passed + BATCH).for_each(|at| queue.push_back((at as u64, length(at))));
        while let Some(packet) = queue.pop_front() {
            black_box(packet);
        }
    }
    ns_per_packet(start, PACKETS)
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let repeat = options.repeat().max(5);
    let mut all = vec![Measured {
        queues: 0,
        slices: 0,
        full_ns: (0..repeat).map(|_| plain()).collect(),
        one_each_ns: Vec::new(),
        loop_ns: Vec::new(),
    }];
    for (queues, slices) in TREES {
        let made =
            |error: TreeError| Error::System { system: "queues", message: error.to_string() };
        let packets = queues.saturating_mul(depth(queues) + 1).saturating_add(1024) as u32;
        let settings = Settings::new(queues as u32, packets);
        let (mut tree, ids) = tree(queues, slices, (settings, words(settings)?)).map_err(made)?;
        let (mut now, mut out) = (0, Vec::with_capacity(BATCH));
        let (full_ns, one_each_ns, loop_ns) = (Vec::new(), Vec::new(), Vec::new());
        let mut one = Measured { queues, slices, full_ns, one_each_ns, loop_ns };
        // The first round touches new memory.
        for round in 0..=repeat {
            interrupt::check()?;
            progress.show(&format!("queues: {queues}, {round}/{repeat}"));
            let found = [
                full(&mut tree, &ids, &mut now, &mut out),
                one_each(&mut tree, &ids, &mut now, &mut out),
            ];
            let around = nothing(&ids, &mut out);
            if round > 0 {
                one.full_ns.push(found[0] - around);
                one.one_each_ns.push(found[1] - around);
                one.loop_ns.push(around);
            }
        }
        all.push(one);
    }
    Ok(report(&all))
}

fn report(all: &[Measured]) -> Outcome {
    let columns = [
        ("queues", Align::Right),
        ("slices", Align::Right),
        ("full: ns/packet", Align::Right),
        ("smallest–largest", Align::Right),
        ("one packet each: ns/packet", Align::Right),
        ("smallest–largest", Align::Right),
        ("subtracted", Align::Right),
    ];
    let mut table = Table::new("Cost of queueing", &columns);
    for one in all {
        let cells = |values: &[f64]| {
            Spread::of(values).map_or(["–".to_owned(), "–".to_owned()], |spread| {
                let Spread { median, min, max } = spread;
                [format!("{median:.1}"), format!("{min:.1}–{max:.1}")]
            })
        };
        let [full, full_range] = cells(&one.full_ns);
        let [each, each_range] = cells(&one.one_each_ns);
        let queues = match one.queues {
            0 => "plain queue".to_owned(),
            queues => queues.to_string(),
        };
        let slices = if one.slices == 0 { "–".to_owned() } else { one.slices.to_string() };
        let [around, _] = cells(&one.loop_ns);
        table.push([queues, slices, full, full_range, each, each_range, around]);
    }
    Outcome {
        name: "queues",
        title: "Queueing".into(),
        tables: vec![table],
        charts: Vec::new(),
        notes: vec![format!(
            "A packet of 64 to 1514 bytes that comes *and* leaves, through port, scheduler, slice, \
             router and queue, with statistics, on one core, in batches of {BATCH}; medians. Full: \
             {FULL} packets or more wait in each queue all the time, so that no batch empties it. One \
             packet each: every queue goes empty with every packet, which is the worst. Counters are \
             in shared memory and what comes is fetched ahead, as in the switch. Subtracted: what \
             the same loop costs without a tree."
        )],
        data: json!({ "queues": all }),
    }
}
