//! # TimedUnqueue
//!
//! ## Synopsis
//! `TimedUnqueue(INTERVAL [, BURST])`
//!
//! ## Ports
//! One pull input, one push output.
//!
//! ## Description
//! Every INTERVAL, pulls up to BURST packets and pushes them on.
//!
//! ## Arguments
//! - INTERVAL: seconds.
//! - BURST: packets, default 1.
//!
//! ## Handlers
//! - `interval`, `burst` (read, write): see the arguments.
//!
//! ## See also
//! `Burster`, `RatedUnqueue`, `TimedSink`

use std::time::Duration;

use super::Ticks;
use crate::prelude::*;
use crate::shared::values::interval;

/// Pulls at intervals.
pub(crate) struct TimedUnqueue {
    pub(super) ticks: Ticks,
    pub(super) burst: usize,
}

impl Default for TimedUnqueue {
    fn default() -> TimedUnqueue {
        TimedUnqueue { ticks: Ticks::default(), burst: 1 }
    }
}

impl Class for TimedUnqueue {
    const INFO: ClassInfo = ClassInfo::new("TimedUnqueue", "1/1").processing("l/h").inline();
}

impl Element for TimedUnqueue {
    arguments! { this, given;
        mandatory "INTERVAL": Duration, with Ticks::every => this.ticks;
        // Burster has another default.
        let burst = positional "BURST": usize;
        then {
            this.burst = burst.unwrap_or(this.burst);
            if this.burst == 0 {
                return Err(ConfigError::at(1, "bad BURST"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.schedule(0, self.ticks.start(context.now_ns()));
        Ok(())
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        let mut left = self.burst;
        let mut batch = context.take_batch();
        // A pull may return fewer packets than requested: a single one in a graph that handles
        // packets one by one.
        while left > 0 && context.pull(0, left, &mut batch) > 0 {
            left -= batch.len();
            context.push_batch(0, &mut batch);
        }
        context.give_batch(batch);
        context.schedule(timer, self.ticks.next_ns(context.now_ns()));
    }

    handlers! { this, context, value;
        both "interval" => interval(this.ticks.interval_ns), set this.ticks.set("interval", value)?;
        both "burst" => this.burst;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::Bench;

    #[test]
    fn bursts_come_in_time() {
        let cases = [
            ("TimedUnqueue", &["0.1"][..], 10),
            ("TimedUnqueue", &["0.1", "3"], 30),
            ("TimedUnqueue", &["0.1", "300"], 3000),
            ("Burster", &["0.1"], 80),
        ];
        // Once with batches, and once with single packets as in Click.
        for ((class, arguments, expected), one_by_one) in
            cases.iter().flat_map(|case| [(case, false), (case, true)])
        {
            let mut graph = Graph { one_by_one, ..Graph::default() };
            let source = graph.add("s", "InfiniteSource", &[]);
            let unqueue = graph.add("u", class, arguments);
            let discard = graph.add("d", "Discard", &[]);
            graph.connect(source, 0, unqueue, 0);
            graph.connect(unqueue, 0, discard, 0);
            let registry = Bench::registry();
            let (graph, arena) = (graph.resolved(&registry), Arena::heap(600, 2048));
            let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
            for step in 0..=1000u64 {
                router.run_once(step * 1_000_000, &mut NoDevices);
            }
            let count = router.read("d.count", "");
            assert_eq!(count, Ok(expected.to_string()), "{class} {arguments:?} {one_by_one}");
        }
    }
}
