//! # Unqueue
//!
//! ## Synopsis
//! `Unqueue([BURST, ACTIVE, LIMIT])`
//!
//! ## Ports
//! One pull input, one push output.
//!
//! ## Description
//! Pulls packets and pushes them on.
//!
//! ## Arguments
//! - BURST: most packets in a turn, default 256; 1 where packets go one by one, as in Click.
//! - ACTIVE (keyword): whether to pull; default true.
//! - LIMIT (keyword): stop after this many packets; negative, the default, means never.
//!
//! ## Handlers
//! - `count` (read): packets moved.
//! - `active`, `burst`, `limit` (read, write): see the arguments.
//! - `reset`, `reset_counts` (write): sets `count` to zero.
//!
//! ## See also
//! `Queue`

use europa_engine::{
    Class, ClassInfo, ConfigError, Context, Element, InitContext, Signal, arguments, handlers,
};

use crate::shared::common::pull_turn;

/// Turns pull into push.
#[derive(Default)]
pub(crate) struct Unqueue {
    burst: usize,
    /// BURST was given.
    given: bool,
    active: bool,
    limit: i64,
    count: u64,
    packets: Signal,
}

impl Class for Unqueue {
    const INFO: ClassInfo =
        ClassInfo::new("Unqueue", "1/1").processing("l/h").inline().keeps_long();
}

impl Element for Unqueue {
    arguments! { this, given;
        let burst = positional "BURST": i64;
        keyword "ACTIVE": bool = true => this.active;
        keyword "LIMIT": i64 = -1 => this.limit;
        then {
            this.given = burst.is_some();
            this.burst = burst.map_or(0, |burst| usize::try_from(burst).unwrap_or(usize::MAX));
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if !self.given {
            self.burst = context.burst();
        } else if self.burst == 0 {
            context.warn("BURST size 0, no packets will be pulled");
        }
        self.packets = context.upstream(0);
        context.add_task(1024);
        Ok(())
    }

    fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
        let left = u64::try_from(self.limit).is_err() || self.count < self.limit as u64;
        Some(self.active && left && context.is_active(&self.packets))
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut most = self.burst;
        if let Ok(limit) = u64::try_from(self.limit) {
            most = most.min(limit.saturating_sub(self.count) as usize);
        }
        if !self.active || most == 0 {
            return false;
        }
        let count = pull_turn(most, context, |batch, context| context.push_batch(0, batch));
        self.count += count as u64;
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "active" [CHECKBOX] => this.active;
        both "burst" => this.burst;
        both "limit" => this.limit;
        button "reset" => this.count = 0;
        button "reset_counts" [UNCOMMON] => this.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, run};

    #[test]
    fn a_turn_is_a_burst_also_where_packets_go_one_by_one() {
        for (one_by_one, arguments, count) in
            [(true, &["8"][..], "8"), (false, &["8"], "8"), (true, &[], "1"), (false, &[], "256")]
        {
            let mut graph = Graph { one_by_one, ..Graph::default() };
            let source = graph.add("s", "InfiniteSource", &[]);
            let (unqueue, discard) =
                (graph.add("u", "Unqueue", arguments), graph.add("d", "Discard", &[]));
            graph.connect(source, 0, unqueue, 0);
            graph.connect(unqueue, 0, discard, 0);
            let (registry, arena) = (Bench::registry(), Arena::heap(600, 2048));
            let graph = graph.resolved(&registry);
            let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
            router.run_once(0, &mut NoDevices);
            assert_eq!(router.read("d.count", ""), Ok(count.into()), "{one_by_one} {arguments:?}");
        }
    }

    #[test]
    fn a_burst_of_nothing_is_told() {
        let bench = crate::testing::Bench::new("Unqueue", &["0"]);
        let told: Vec<_> = bench.router.warnings().iter().map(ToString::to_string).collect();
        let warning = "e :: Unqueue: warning: BURST size 0, no packets will be pulled";
        assert_eq!(told, [warning]);
    }

    #[test]
    fn moves_up_to_its_limit() {
        let mut graph = Graph::default();
        let source = graph.add("s", "InfiniteSource", &["x", "LIMIT 1000"]);
        let queue = graph.add("q", "Queue", &["500"]);
        let unqueue = graph.add("u", "Unqueue", &["LIMIT 300"]);
        let discard = graph.add("d", "Discard", &[]);
        graph.connect(source, 0, queue, 0);
        graph.connect(queue, 0, unqueue, 0);
        graph.connect(unqueue, 0, discard, 0);
        let mut router = run(graph);
        assert_eq!(router.read("d.count", ""), Ok("300".into()));
        assert_eq!(router.read("q.length", ""), Ok("500".into()));
        router.write("u.active", "false").unwrap();
        router.write("u.limit", "-1").unwrap();
        router.run_once(0, &mut europa_engine::NoDevices);
        assert_eq!(router.read("u.count", ""), Ok("300".into()));
    }
}
