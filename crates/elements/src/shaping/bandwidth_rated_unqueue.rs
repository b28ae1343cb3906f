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
//! - BURST_DURATION (keyword): a burst is the traffic of RATE in this time, default 20 ms.
//! - BURST_BYTES (keyword): bytes of a burst, in place of BURST_DURATION.
//! - ACTIVE (keyword): whether to pull; default true.
//!
//! ## Handlers
//! - `rate`, `active` (read, write): see the arguments.
//! - `count` (read): packets moved.
//!
//! ## See also
//! `RatedUnqueue`, `Unqueue`, `Shaper`

use super::rated_pull::RatedPull;
use crate::prelude::*;

/// Pulls at a rate of bytes.
pub(crate) type BandwidthRatedUnqueue = RatedPull<true>;

impl Class for BandwidthRatedUnqueue {
    const INFO: ClassInfo =
        ClassInfo::new("BandwidthRatedUnqueue", "1/1").processing("l/h").inline();
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
