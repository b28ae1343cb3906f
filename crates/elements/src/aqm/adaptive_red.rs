//! # AdaptiveRED
//!
//! ## Synopsis
//! `AdaptiveRED(TARGET, MAX_P [, QUEUES, STABILITY])`
//!
//! ## Ports
//! One input, push or pull; one output of the same kind, and an optional second push output for
//! packets that are chosen to be dropped.
//!
//! ## Description
//! Drops packets early, as `RED` with GENTLE does, and keeps the queues at about TARGET packets.
//! Every 0.5 s it lowers MAX_P if the average queue length is low, and raises it if the length is
//! high. MIN_THRESH is 0.5 times TARGET, and MAX_THRESH 1.5 times TARGET.
//!
//! ## Arguments
//! - TARGET: packets, at least 10.
//! - MAX_P: the initial value of the drop probability at MAX_THRESH.
//! - QUEUES, STABILITY (keywords): see `RED`.
//!
//! ## Handlers
//! Those of `RED`.
//!
//! ## See also
//! `RED`, `CoDel`

use super::Watched;
use super::red::RED;
use crate::prelude::*;

/// How often the probability changes.
const INTERVAL_NS: u64 = 500_000_000;
/// Least TARGET.
const LEAST: u32 = 10;

/// RED that adapts MAX_P to the average length of its queues.
#[derive(Default)]
pub(crate) struct AdaptiveRED(RED);

impl Class for AdaptiveRED {
    const INFO: ClassInfo = ClassInfo::new("AdaptiveRED", "1/1-2").processing("a/ah");
}

impl Element for AdaptiveRED {
    arguments! { this, given;
        let target = mandatory "TARGET": u32;
        let probability = mandatory "MAX_P": f64;
        let watched = keyword "QUEUES": "names of queues", by Watched::read;
        let stability = keyword "STABILITY": u32 = 4;
        then {
            let target = target.max(LEAST);
            let (min, max) = (target / 2, target.saturating_add(target / 2));
            this.0 = RED::of(watched, min, max, probability, stability)?;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.schedule(0, context.now_ns().saturating_add(INTERVAL_NS));
        self.0.initialize(context)
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.0.adapt(context);
        context.schedule(0, context.now_ns().saturating_add(INTERVAL_NS));
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(port, batch, context);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.pull(port, max, batch, context);
    }

    delegate!(handlers 0);
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, part};

    #[test]
    fn the_probability_follows_the_length() {
        let registry = Bench::registry();
        let mut graph = Graph::default();
        let source = graph.add("source0", "TestSource", &[]);
        let red = graph.add("red", "AdaptiveRED", &["20", "0.1", "STABILITY 0"]);
        let queue = graph.add("queue", "Queue", &["1000"]);
        let puller = graph.add("puller", "TestPuller", &[]);
        graph.connect(source, 0, red, 0);
        graph.connect(red, 0, queue, 0);
        graph.connect(queue, 0, puller, 0);
        let arena = Arena::heap(256, 512);
        let graph = graph.resolved(&registry);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        assert_eq!(router.read("red.min_thresh", ""), Ok("10".into()));
        assert_eq!(router.read("red.max_thresh", ""), Ok("30".into()));
        let probability = |router: &mut Router, now_ns| -> f64 {
            router.run_once(now_ns, &mut NoDevices);
            router.read("red.max_p", "").unwrap().parse().unwrap()
        };
        let low = probability(&mut router, 500_000_000);
        assert!((low - 0.09).abs() < 1e-6, "an empty queue needs less: {low}");
        for _ in 0..60 {
            part::source(&mut router, 0, arena.packet(b"x"));
            while router.run_once(600_000_000, &mut NoDevices) {}
        }
        let high = probability(&mut router, 1_000_000_000);
        assert!((high - low - 0.01).abs() < 1e-6, "a long queue needs more: {high}");
    }
}
