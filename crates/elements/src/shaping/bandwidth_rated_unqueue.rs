//! # BandwidthRatedUnqueue
//!
//! ## Synopsis
//! `BandwidthRatedUnqueue(RATE [, BURST_DURATION, BURST_BYTES, ACTIVE])`
//!
//! ## Ports
//! One pull input, one push output.
//!
//! ## Description
//! Pulls packets and pushes them on, at most RATE, with bursts after a pause (token bucket).
//!
//! ## Arguments
//! - RATE: bandwidth, such as 10Mbps; without a unit bytes a second.
//! - BURST_DURATION (keyword): a burst is what RATE brings in this time, default 20 ms.
//! - BURST_BYTES (keyword): bytes of a burst, in place of that.
//! - ACTIVE (keyword): whether to pull; default true.
//!
//! ## Handlers
//! - `rate`, `active` (read, write): see the arguments.
//! - `count` (read): packets moved.
//!
//! ## See also
//! `RatedUnqueue`, `Unqueue`, `Shaper`

use europa_engine::BATCH;

use super::bucket::Bucket;
use crate::prelude::*;
use crate::values::Bandwidth;

/// Pulls at a rate.
#[derive(Default)]
pub(crate) struct BandwidthRatedUnqueue {
    bucket: Bucket,
    active: bool,
    count: u64,
}

impl Class for BandwidthRatedUnqueue {
    const INFO: ClassInfo = ClassInfo::new("BandwidthRatedUnqueue", "1/1").processing("l/h");
}

/// Tokens that must be there for a packet.
const LEAST: u64 = 0;

impl BandwidthRatedUnqueue {
    fn work(&mut self, context: &mut Context<'_>) -> bool {
        let (now_ns, mut one, mut batch) =
            (context.now_ns(), context.take_batch(), context.take_batch());
        let mut starved = false;
        while self.active && batch.len() < BATCH {
            starved = !self.bucket.has(LEAST, now_ns);
            if starved || context.pull(0, 1, &mut one) == 0 {
                break;
            }
            for packet in one.drain() {
                self.bucket.take(packet.len() as u64);
                // There is room: it is not full.
                let _ = batch.push(packet);
            }
        }
        if starved && let Some(at_ns) = self.bucket.next_ns(LEAST) {
            context.schedule(0, at_ns);
        }
        let count = batch.len();
        self.count += count as u64;
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        context.give_batch(one);
        count > 0
    }
}

impl Element for BandwidthRatedUnqueue {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.active = arguments.keyword("ACTIVE")?.unwrap_or(true);
        self.bucket = Bucket::read(arguments, true)?;
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.work(context)
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.work(context);
    }

    handlers! { this, context, value;
        both "rate" => Bandwidth(this.bucket.rate()), set this.bucket.set_rate(parse::<Bandwidth>("rate", value)?.0);
        both "active" [CHECKBOX] => this.active;
        read "count" => this.count;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::Bench;

    #[test]
    fn the_rate_is_kept() {
        let mut graph = Graph::default();
        let source = graph.add("s", "InfiniteSource", &["LENGTH 100"]);
        let unqueue = graph.add("u", "BandwidthRatedUnqueue", &["800kbps", "BURST_BYTES 100"]);
        let discard = graph.add("d", "Discard", &[]);
        graph.connect(source, 0, unqueue, 0);
        graph.connect(unqueue, 0, discard, 0);
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(600, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        for step in 0..20_000u64 {
            router.run_once(step * 100_000, &mut NoDevices);
        }
        let count: u64 = router.read("d.count", "").unwrap().parse().unwrap();
        assert!((1995..=2005).contains(&count), "{count}");
        assert!(router.next_timer_ns().is_some_and(|at_ns| at_ns < 2_010_000_000));
    }
}
