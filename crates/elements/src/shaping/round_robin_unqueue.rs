//! # RoundRobinUnqueue
//!
//! ## Synopsis
//! `RoundRobinUnqueue([BURST])`
//!
//! ## Ports
//! Pull inputs, as many push outputs.
//!
//! ## Description
//! In each turn, pulls packets from the next input, and pushes them by the output with the same
//! number.
//!
//! ## Arguments
//! - BURST: most packets in a turn, default 1; 0 means all that are available, at most a batch.
//!
//! ## Handlers
//! - `count` (read): packets moved.
//!
//! ## See also
//! `Unqueue`, `RoundRobinSched`

use crate::prelude::*;

/// Pulls from inputs in turn.
#[derive(Default)]
pub(crate) struct RoundRobinUnqueue {
    burst: usize,
    next: usize,
    count: u64,
}

impl Class for RoundRobinUnqueue {
    const INFO: ClassInfo =
        ClassInfo::new("RoundRobinUnqueue", "-/-").processing("l/h").flow("#/#");
}

impl Element for RoundRobinUnqueue {
    arguments! { this, given;
        positional "BURST": usize = 1 => this.burst;
        then {
            if given.inputs() != given.outputs() {
                let message = "number of outputs must equal to number of inputs";
                return Err(ConfigError::other(message));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let most = if self.burst == 0 { europa_engine::BATCH } else { self.burst };
        let inputs = context.inputs();
        let mut batch = context.take_batch();
        // An empty input costs no turn: without packets the task ends, and the router can see that
        // it has no work.
        for _ in 0..inputs {
            let port = self.next;
            self.next = (port + 1) % inputs.max(1);
            while batch.len() < most && context.pull(port, most - batch.len(), &mut batch) > 0 {}
            if !batch.is_empty() {
                self.count += batch.len() as u64;
                context.push_batch(port, &mut batch);
                context.give_batch(batch);
                return true;
            }
        }
        context.give_batch(batch);
        false
    }

    handlers! { this, context, value; read "count" => this.count; }
}

#[cfg(test)]
mod tests {
    use europa_engine::Graph;

    use crate::testing::{Bench, part, run};

    #[test]
    fn inputs_take_turns() {
        let mut graph = Graph::default();
        let unqueue = graph.add("u", "RoundRobinUnqueue", &["2"]);
        let sink = graph.add("sink", "TestSink", &[]);
        for input in 0..2 {
            let source = graph.add(&format!("s{input}"), "InfiniteSource", &["x", "LIMIT 4"]);
            graph.connect(source, 0, unqueue, input);
            graph.connect(unqueue, input, sink, input);
        }
        let mut router = run(graph);
        let ports: Vec<usize> = part::sink(&mut router).iter().map(|(port, _)| *port).collect();
        assert_eq!(ports, [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(router.read("u.count", ""), Ok("8".into()));
    }

    #[test]
    fn ports_must_be_paired() {
        let mut graph = Graph::default();
        let source = graph.add("s", "InfiniteSource", &[]);
        let unqueue = graph.add("u", "RoundRobinUnqueue", &[]);
        graph.connect(source, 0, unqueue, 0);
        let graph = graph.resolved(&Bench::registry());
        let arena = europa_engine::Arena::heap(16, 2048);
        let none = europa_engine::NoDevices;
        let built = europa_engine::Router::build(&graph, &Bench::registry(), &arena, &none, 0);
        assert!(built.is_err());
    }
}
