//! # TimedSink
//!
//! ## Synopsis
//! `TimedSink([INTERVAL])`
//!
//! ## Ports
//! One pull input.
//!
//! ## Description
//! Every INTERVAL, pulls a packet and drops it.
//!
//! ## Arguments
//! - INTERVAL: seconds, default 0.5.
//!
//! ## Handlers
//! - `interval` (read, write): INTERVAL.
//!
//! ## See also
//! `TimedSource`, `TimedUnqueue`, `Discard`

use std::time::Duration;

use super::Ticks;
use crate::prelude::*;
use crate::shared::values::interval;

/// Drops packets at intervals.
#[derive(Default)]
pub(crate) struct TimedSink(Ticks);

impl Class for TimedSink {
    const INFO: ClassInfo =
        ClassInfo::new("TimedSink", "1/0").processing("l/l").inline().consumes();
}

impl Element for TimedSink {
    arguments! { this, given;
        positional "INTERVAL": Duration = Duration::from_millis(500), with Ticks::every => this.0;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.schedule(0, self.0.start(context.now_ns()));
        Ok(())
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        let mut batch = context.take_batch();
        context.pull(0, 1, &mut batch);
        context.give_batch(batch);
        context.schedule(timer, self.0.next_ns(context.now_ns()));
    }

    handlers! { this, context, value;
        both "interval" => interval(this.0.interval_ns), set this.0.set("interval", value)?;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::Bench;

    #[test]
    fn two_a_second() {
        let mut graph = Graph::default();
        let source = graph.add("s", "InfiniteSource", &[]);
        let sink = graph.add("t", "TimedSink", &[]);
        graph.connect(source, 0, sink, 0);
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(64, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        for step in 0..=100u64 {
            router.run_once(step * 100_000_000, &mut NoDevices);
        }
        assert_eq!(router.read("s.count", ""), Ok("20".into()));
        assert_eq!(router.read("t.interval", ""), Ok("500ms".into()));
    }
}
