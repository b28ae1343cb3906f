//! Sources and a port in simulated time.

use europa_impair::Random;
use europa_queue::{Due, Id, Limit, Policy, QueueSettings, Settings, Share, Tree};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const LONGEST: u32 = 9000;

/// The token of a packet: the queue's number in the test, and a serial number.
pub(crate) type Packet = (u32, u32);

pub(crate) fn queue(share: Share) -> QueueSettings {
    let limit = Limit { packets: 1000, bytes: 10_000_000 };
    QueueSettings { share, limit, policy: Policy::Tail }
}

pub(crate) fn settings(queues: u32) -> Settings {
    Settings { quantum_bytes: LONGEST, ..Settings::new(queues, queues * 20 + 100_000) }
}

/// Lengths from 64 to 9000: many short ones, some long ones.
pub(crate) fn length(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => 64,
        1 => 64 + random.below(1451),
        2 => 1514,
        _ => 64 + random.below(LONGEST - 63),
    }
}

/// A source of packets for one queue.
pub(crate) struct Source {
    pub(crate) queue: Id,
    /// Bytes a second; with `None` it always has packets waiting.
    pub(crate) bytes: Option<f64>,
    /// Length of each packet; `None` mixes lengths.
    pub(crate) length: Option<u32>,
    next_ns: u64,
    random: Random,
    pub(crate) sent: u64,
    pub(crate) left: u64,
    pub(crate) lost: u64,
}

impl Source {
    pub(crate) fn new(queue: Id, bytes: Option<f64>, seed: u64) -> Self {
        let random = Random::new(seed);
        Self { queue, bytes, length: None, next_ns: 0, random, sent: 0, left: 0, lost: 0 }
    }

    fn send(&mut self, tree: &mut Tree<Packet>, number: usize, now_ns: u64) -> u32 {
        let length = self.length.unwrap_or_else(|| length(&mut self.random));
        let waits = tree.enqueue(now_ns, self.queue, (number as u32, 0), length, false, |_, _| ());
        self.sent += u64::from(length);
        self.lost += u64::from(length) * u64::from(!waits);
        length
    }

    /// Sends the packets due by now.
    fn catch_up(&mut self, tree: &mut Tree<Packet>, number: usize, now_ns: u64) {
        let Some(bytes) = self.bytes else { return };
        while bytes > 0.0 && self.next_ns <= now_ns {
            let length = self.send(tree, number, self.next_ns);
            self.next_ns += (f64::from(length) * 1e9 / bytes) as u64;
        }
    }
}

/// Runs the port until `until_ns`, and calls it at least every `step_ns`.
pub(crate) fn run(
    tree: &mut Tree<Packet>,
    sources: &mut [Source],
    from_ns: u64,
    until_ns: u64,
    step_ns: u64,
) {
    let rated: Vec<usize> =
        (0..sources.len()).filter(|number| sources[*number].bytes.is_some()).collect();
    if from_ns == 0 {
        for (number, source) in sources.iter_mut().enumerate() {
            // Enough packets that a turn never empties a queue that must stay full.
            let packets = if source.bytes.is_none() { 12 } else { 0 };
            (0..packets).for_each(|_| {
                source.send(tree, number, 0);
            });
        }
    }
    let mut out: Vec<Due<Packet>> = Vec::with_capacity(64);
    let mut now = from_ns;
    while now < until_ns {
        for number in &rated {
            sources[*number].catch_up(tree, *number, now);
        }
        loop {
            out.clear();
            tree.dequeue(now, 25_000, &mut out, |_, _| ());
            for due in &out {
                let number = due.packet.0 as usize;
                let source = &mut sources[number];
                assert!(due.is_from(source.queue));
                source.left += u64::from(due.length);
                if source.bytes.is_none() {
                    source.send(tree, number, now);
                }
            }
            if out.is_empty() {
                break;
            }
        }
        let next = tree.next_due(now).unwrap_or(u64::MAX);
        now = next.clamp(now + 1, now + step_ns);
    }
}
