//! # DelayUnqueue
//!
//! ## Synopsis
//! `DelayUnqueue(DELAY)`
//!
//! ## Ports
//! One pull input, one push output.
//!
//! ## Description
//! Pulls packets, and pushes each on DELAY after its timestamp. A packet without a timestamp gets
//! one when it is pulled.
//!
//! ## Arguments
//! - DELAY: seconds.
//!
//! ## Handlers
//! - `delay` (read, write): DELAY.
//!
//! ## See also
//! `DelayShaper`, `RatedUnqueue`, `LinkUnqueue`

use super::Delayed;
use crate::prelude::*;
use crate::shared::values::interval;

/// Delays packets.
#[derive(Default)]
pub(crate) struct DelayUnqueue(Delayed);

impl Class for DelayUnqueue {
    const INFO: ClassInfo = ClassInfo::new("DelayUnqueue", "1/1").processing("l/h").inline();
}

impl DelayUnqueue {
    fn work(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        while batch.room() > 0
            && let Some(packet) = self.0.next(context)
        {
            // There is room.
            let _ = batch.push(packet);
        }
        let worked = !batch.is_empty();
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        worked
    }
}

impl Element for DelayUnqueue {
    arguments! { this, given;
        set Delayed => this.0;
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

    keep! { this, old;
        then {
            this.0.waiting = old.0.waiting.take();
        }
    }

    handlers! { this, context, value;
        both "delay" => interval(this.0.delay_ns), set this.0.set_delay(parse("delay", value)?);
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, part};

    #[test]
    fn packets_wait_their_time() {
        let mut graph = Graph::default();
        let source = graph.add("source0", "TestSource", &[]);
        let queue = graph.add("q", "Queue", &[]);
        let unqueue = graph.add("u", "DelayUnqueue", &["10ms"]);
        let sink = graph.add("sink", "TestSink", &[]);
        for (from, to) in [(source, queue), (queue, unqueue), (unqueue, sink)] {
            graph.connect(from, 0, to, 0);
        }
        let registry = Bench::registry();
        let (graph, arena) = (graph.resolved(&registry), Arena::heap(64, 2048));
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        part::source(&mut router, 0, [arena.packet(b"a").unwrap()]);
        for (now_ns, arrived) in [(5, 0), (10_000_004, 0), (10_000_005, 1)] {
            router.run_once(now_ns, &mut NoDevices);
            router.run_once(now_ns, &mut NoDevices);
            assert_eq!(part::sink(&mut router).len(), arrived, "{now_ns}");
        }
    }
}
