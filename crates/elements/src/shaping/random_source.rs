//! # RandomSource
//!
//! ## Synopsis
//! `RandomSource(LENGTH [, LIMIT, BURST, ACTIVE, STOP, TIMESTAMP])`
//!
//! ## Ports
//! One output, push or pull.
//!
//! ## Description
//! Makes packets with random contents as fast as they are taken.
//!
//! ## Arguments
//! - LENGTH: bytes.
//! - LIMIT: stop after this many; negative, the default, means never.
//! - BURST: packets in a turn, default 1.
//! - ACTIVE: whether to send; default true.
//! - STOP (keyword): stop the router once LIMIT is reached; default false.
//! - TIMESTAMP (keyword): give packets the time; default true.
//!
//! ## Handlers
//! - `count` (read): packets sent.
//! - `length`, `limit`, `burst`, `active` (read, write): see the arguments.
//! - `reset` (write): sets `count` to zero.
//!
//! ## See also
//! `InfiniteSource`, `RatedSource`

use crate::prelude::*;
use crate::random::Random;

/// Makes random packets.
#[derive(Default)]
pub(crate) struct RandomSource {
    length: usize,
    limit: i64,
    burst: usize,
    active: bool,
    stop: bool,
    /// That the limit is reached has been told.
    told: bool,
    timestamp: bool,
    count: u64,
    random: Random,
}

impl Class for RandomSource {
    const INFO: ClassInfo = ClassInfo::new("RandomSource", "0/1").processing("a/a");
}

impl RandomSource {
    fn make(&mut self, most: usize, batch: &mut Batch, context: &mut Context<'_>) -> usize {
        let mut most = if self.active { most.min(batch.room()) } else { 0 };
        if let Ok(limit) = u64::try_from(self.limit) {
            let left = limit.saturating_sub(self.count);
            if left == 0 && self.stop && !std::mem::replace(&mut self.told, true) {
                context.stop();
            }
            most = most.min(usize::try_from(left).unwrap_or(most));
        }
        let before = batch.len();
        let count = context.arena().alloc_batch_of(batch, most, self.length);
        for packet in batch.iter_mut().skip(before) {
            if self.timestamp {
                packet.set_timestamp_ns(context.wall_ns());
            }
            for chunk in packet.data_mut().chunks_mut(4) {
                for (byte, random) in chunk.iter_mut().zip(self.random.next().to_ne_bytes()) {
                    *byte = random;
                }
            }
        }
        self.count += count as u64;
        count
    }
}

impl Element for RandomSource {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.stop = arguments.keyword("STOP")?.unwrap_or(false);
        self.timestamp = arguments.keyword("TIMESTAMP")?.unwrap_or(true);
        self.length = arguments.mandatory("LENGTH")?;
        self.limit = arguments.positional("LIMIT")?.unwrap_or(-1);
        self.burst = arguments.positional("BURST")?.unwrap_or(1);
        self.active = arguments.positional("ACTIVE")?.unwrap_or(true);
        if self.length >= 65536 {
            return Err(ConfigError::at(0, format!("bad length {}", self.length)));
        }
        if self.burst == 0 {
            return Err(ConfigError::at(2, "burst size must be >= 1"));
        }
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if context.is_push_output(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.make(max, batch, context);
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        let count = self.make(self.burst, &mut batch, context);
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "length" => this.length;
        both "limit" => this.limit;
        both "burst" => this.burst;
        both "active" [CHECKBOX] => this.active;
        button "reset" => { this.count = 0; this.told = false; };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_differ() {
        let mut bench = Bench::new("RandomSource", &["10", "50", "STOP true"]);
        let mut out: Vec<_> = bench.run().into_iter().map(|(_, data)| data).collect();
        assert!(out.len() == 50 && out.iter().all(|data| data.len() == 10));
        out.sort();
        out.dedup();
        assert_eq!(out.len(), 50);
        assert!(bench.router.is_stopped());
        assert_eq!(Bench::error("RandomSource", &["70000"]), "bad length 70000");
    }
}
