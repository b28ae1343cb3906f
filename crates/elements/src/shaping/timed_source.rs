//! # TimedSource
//!
//! ## Synopsis
//! `TimedSource([INTERVAL, DATA, LIMIT, ACTIVE, STOP])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Makes a packet every INTERVAL.
//!
//! ## Arguments
//! - INTERVAL: seconds, default 0.5.
//! - DATA: contents of each packet; default 69 bytes of text.
//! - LIMIT (keyword): stop after this many requests; default -1: never.
//! - ACTIVE (keyword): whether to send; default true.
//! - STOP (keyword): stop the router once LIMIT is reached; default false.
//! - HEADROOM (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `count` (read): packets sent.
//! - `interval`, `data`, `limit`, `active` (read, write): see the arguments.
//! - `reset` (write): sets `count` to zero.
//!
//! ## See also
//! `RatedSource`, `InfiniteSource`, `TimedSink`

use std::time::Duration;

use super::Ticks;
use crate::prelude::*;
use crate::shared::common::Data;
use crate::shared::values::interval;

/// Makes packets at intervals.
#[derive(Default)]
pub(crate) struct TimedSource {
    ticks: Ticks,
    data: Data,
    limit: i64,
    active: bool,
    stop: bool,
    count: u64,
}

impl Class for TimedSource {
    const INFO: ClassInfo = ClassInfo::new("TimedSource", "0/1").processing("h/h").inline();
}

impl TimedSource {
    fn is_done(&self) -> bool {
        u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit)
    }
}

impl Element for TimedSource {
    arguments! { this, given;
        positional "INTERVAL": Duration = Duration::from_millis(500), with Ticks::every => this.ticks;
        let data = positional "DATA": Vec<u8>;
        keyword "LIMIT": i64 = -1 => this.limit;
        keyword "ACTIVE": bool = true => this.active;
        keyword "STOP": bool = false => this.stop;
        keyword "HEADROOM": usize => _;
        then {
            this.data = Data::new(data, None);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.schedule(0, self.ticks.start(context.now_ns()));
        Ok(())
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        if self.active && !self.is_done() {
            let mut batch = context.take_batch();
            self.count += self.data.fill(&mut batch, 1, context.arena()) as u64;
            let wall_ns = context.wall_ns();
            batch.iter_mut().for_each(|packet| packet.set_timestamp_ns(wall_ns));
            context.push_batch(0, &mut batch);
            context.give_batch(batch);
        }
        if self.is_done() && self.stop {
            context.stop();
        } else if self.active {
            context.schedule(timer, self.ticks.next_ns(context.now_ns()));
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "interval" => interval(this.ticks.interval_ns), set this.ticks.set("interval", value)?;
        both "data" [RAW] => this.data.text(), set this.data = Data::new(Some(value.as_bytes().to_vec()), None);
        both "limit" => this.limit;
        both "active" [CHECKBOX] => this.active, set {
            this.active = parse("active", value)?;
            context.schedule(0, this.ticks.start(context.now_ns()));
        };
        button "reset" => this.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_come_in_time() {
        let mut bench = Bench::new("TimedSource", &["0.25", "x", "LIMIT 3", "STOP true"]);
        let mut times = Vec::new();
        for step in 0..200 {
            bench.now_ns = step * 10_000_000;
            times.extend(bench.run().iter().map(|(_, data)| (step * 10, data.clone())));
        }
        assert_eq!(times, [250, 500, 750].map(|time| (time, b"x".to_vec())));
        assert!(bench.router.is_stopped());
    }

    #[test]
    fn times_that_passed_are_made_up_for_but_not_after_long_pauses() {
        for (step_ns, expected) in [(700_000, 3000), (1_500_000_000, 2)] {
            let mut bench = Bench::new("TimedSource", &["0.001"]);
            for now_ns in (0..=3_000_000_000).step_by(step_ns) {
                bench.now_ns = now_ns;
                bench.run();
            }
            let count: u64 = bench.router.read("e.count", "").unwrap().parse().unwrap();
            assert!(count.abs_diff(expected) <= 1, "{step_ns}: {count}");
        }
    }
}
