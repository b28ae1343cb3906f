//! # LinkUnqueue
//!
//! ## Synopsis
//! `LinkUnqueue(LATENCY, BANDWIDTH)`
//!
//! ## Ports
//! One pull input, one push output.
//!
//! ## Description
//! Simulates a line: pulls packets at BANDWIDTH, and pushes each on LATENCY after its last bit.
//! Bytes of the extra length annotation count. A line holds at most five 16ths of the router's
//! packet pool; after that it pulls no more until packets have arrived.
//!
//! ## Arguments
//! - LATENCY: seconds.
//! - BANDWIDTH: such as 10Mbps; without a unit bytes a second; at least 100 bytes a second.
//!
//! ## Handlers
//! - `latency`, `bandwidth` (read, write): see the arguments.
//! - `size` (read): packets on the line.
//! - `reset` (write): drops them.
//!
//! ## See also
//! `DelayUnqueue`, `BandwidthRatedUnqueue`

use std::collections::VecDeque;
use std::time::Duration;

use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::values::{Bandwidth, interval};

/// A line.
#[derive(Default)]
pub(crate) struct LinkUnqueue {
    latency_ns: u64,
    bandwidth: u64,
    /// When the line can take the next packet.
    free_ns: u64,
    /// The next packet follows the last one without a pause: no pull has found the queue empty
    /// since.
    follows: bool,
    /// Its limit in the pool.
    share: Share,
    /// Packets on the line, with the time when they arrive.
    line: VecDeque<(u64, Packet)>,
}

impl Class for LinkUnqueue {
    const INFO: ClassInfo = ClassInfo::new("LinkUnqueue", "1/1").processing("l/h").inline();
}

/// Bytes a second.
const LEAST_BANDWIDTH: u64 = 100;
const TOO_SMALL: &str = "bandwidth too small, minimum 100Bps";

impl LinkUnqueue {
    fn work(&mut self, context: &mut Context<'_>) -> bool {
        let (now_ns, mut batch) = (context.now_ns(), context.take_batch());
        while self.free_ns <= now_ns {
            // This also applies if the line is full: the next packet starts when there is room.
            if self.share.left_to_pull() == 0 || context.pull(0, 1, &mut batch) == 0 {
                self.follows = false;
                break;
            }
            for packet in batch.drain() {
                let bytes = packet.len() as u64 + u64::from(packet.extra_length());
                let bits_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth.max(1));
                // A packet that waited follows at once. After a pause the line starts again.
                let start_ns = match std::mem::replace(&mut self.follows, true) {
                    true => self.free_ns,
                    false => now_ns,
                };
                self.free_ns = start_ns.saturating_add(u64::try_from(bits_ns).unwrap_or(u64::MAX));
                self.line.push_back((self.free_ns.saturating_add(self.latency_ns), packet));
            }
            self.share.set(self.line.len());
        }
        while batch.room() > 0
            && let Some((at_ns, mut packet)) = self.line.pop_front()
        {
            if at_ns > now_ns {
                self.line.push_front((at_ns, packet));
                break;
            }
            packet.set_timestamp_ns(context.wall_ns());
            // There is room.
            let _ = batch.push(packet);
        }
        self.share.set(self.line.len());
        let arrives = self.line.front().map(|(at_ns, _)| *at_ns);
        let next = arrives.into_iter().chain((self.free_ns > now_ns).then_some(self.free_ns)).min();
        if let Some(at_ns) = next {
            context.schedule(0, at_ns);
        }
        let worked = !batch.is_empty();
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        worked
    }
}

impl Element for LinkUnqueue {
    arguments! { this, given;
        let latency = mandatory "LATENCY": Duration;
        mandatory "BANDWIDTH": Bandwidth => Bandwidth(this.bandwidth);
        then {
            this.latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            if this.bandwidth < LEAST_BANDWIDTH {
                return Err(ConfigError::at(1, TOO_SMALL));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.share = context.share(Purpose::Queues);
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.work(context)
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.work(context);
    }

    keep! { this, old;
        free_ns, follows;
        then {
            this.line.append(&mut old.line);
            this.share.set(this.line.len());
        }
    }

    handlers! { this, context, value;
        both "latency" => interval(this.latency_ns), set {
            let latency: Duration = parse("latency", value)?;
            this.latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        };
        both "bandwidth" => Bandwidth(this.bandwidth), set {
            let bandwidth = parse::<Bandwidth>("bandwidth", value)?.0;
            if bandwidth < LEAST_BANDWIDTH {
                return Err(HandlerError::Other(TOO_SMALL.to_owned()));
            }
            this.bandwidth = bandwidth;
        };
        read "size" => this.line.len();
        button "reset" => {
            this.line.clear();
            this.share.set(0);
            (this.free_ns, this.follows) = (0, false);
        };
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, part};

    #[test]
    fn a_long_line_leaves_a_part_of_the_pool_to_others() {
        let mut graph = Graph::default();
        let source = graph.add("s", "InfiniteSource", &[]);
        let line = graph.add("l", "LinkUnqueue", &["10s", "1GBps"]);
        let sink = graph.add("sink", "TestSink", &[]);
        graph.connect(source, 0, line, 0);
        graph.connect(line, 0, sink, 0);
        let (registry, arena) = (Bench::registry(), Arena::heap(64, 2048));
        let graph = graph.resolved(&registry);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        for round in 0..1000 {
            router.run_once(round * 1_000_000, &mut NoDevices);
        }
        assert_eq!(router.read("l.size", ""), Ok("20".into()));
        router.run_once(11_000_000_000, &mut NoDevices);
        router.run_once(11_000_000_000, &mut NoDevices);
        assert_eq!(part::sink(&mut router).len(), 20);
    }

    #[test]
    fn bits_and_latency_take_their_time() {
        let mut graph = Graph::default();
        let source = graph.add("source0", "TestSource", &[]);
        let queue = graph.add("q", "Queue", &[]);
        let line = graph.add("l", "LinkUnqueue", &["1ms", "1000Bps"]);
        let sink = graph.add("sink", "TestSink", &[]);
        for (from, to) in [(source, queue), (queue, line), (line, sink)] {
            graph.connect(from, 0, to, 0);
        }
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(64, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        part::source(&mut router, 0, [1, 2].map(|n| arena.packet(&[n; 10]).unwrap()));
        let mut arrivals = Vec::new();
        for millisecond in 0..40 {
            for _ in 0..4 {
                router.run_once(millisecond * 1_000_000, &mut NoDevices);
            }
            arrivals.extend(part::sink(&mut router).iter().map(|_| millisecond));
        }
        assert_eq!(arrivals, [11, 21]);
        router.write("l.latency", "50ms").unwrap();
        // After a pause the line starts again, although the last packet is still on it.
        let mut arrivals = Vec::new();
        for millisecond in 100..180 {
            if [100, 115].contains(&millisecond) {
                part::source(&mut router, 0, [arena.packet(&[3; 10]).unwrap()]);
            }
            for _ in 0..4 {
                router.run_once(millisecond * 1_000_000, &mut NoDevices);
            }
            arrivals.extend(part::sink(&mut router).iter().map(|_| millisecond));
        }
        assert_eq!(arrivals, [160, 175]);
    }
}
