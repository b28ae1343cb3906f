//! The common part of `RatedUnqueue` and `BandwidthRatedUnqueue`.

use europa_engine::Signal;

use super::bucket::{Bucket, BucketArguments};
use crate::prelude::*;

/// Pulls at a rate of bytes or of packets.
#[derive(Default)]
pub(crate) struct RatedPull<const BYTES: bool> {
    bucket: Bucket,
    active: bool,
    count: u64,
    packets: Signal,
    /// Not before then are there tokens.
    due_ns: u64,
}

impl<const BYTES: bool> RatedPull<BYTES> {
    fn work(&mut self, context: &mut Context<'_>) -> bool {
        let now_ns = context.now_ns();
        if now_ns < self.due_ns {
            return false;
        }
        let (mut one, mut batch) = (context.take_batch(), context.take_batch());
        let (mut starved, burst) = (false, context.burst());
        while self.active && batch.len() < burst {
            starved = !self.bucket.has(now_ns);
            if starved || context.pull(0, 1, &mut one) == 0 {
                break;
            }
            for packet in one.drain() {
                self.bucket.take_for::<BYTES>(&packet);
                // There is room: it is not full.
                let _ = batch.push(packet);
            }
        }
        if starved && let Some(at_ns) = self.bucket.next_ns(now_ns) {
            self.due_ns = at_ns;
            context.schedule(0, at_ns);
        }
        let count = batch.len();
        self.count += count as u64;
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        context.give_batch(one);
        count > 0
    }

    fn set_rate(&mut self, value: &str) -> Result<(), HandlerError> {
        self.bucket.write_rate::<BYTES>(value)?;
        self.due_ns = 0;
        Ok(())
    }
}

impl<const BYTES: bool> Element for RatedPull<BYTES> {
    arguments! { this, given;
        let bucket = set BucketArguments<BYTES>;
        keyword "ACTIVE": bool = true => this.active;
        then {
            this.bucket = bucket.bucket();
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.packets = context.upstream(0);
        context.add_task(1024);
        Ok(())
    }

    fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
        let now_ns = context.now_ns();
        Some(self.active && self.bucket.has(now_ns) && context.is_active(&self.packets))
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.work(context)
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.work(context);
    }

    handlers! { this, context, value;
        both "rate" => this.bucket.rate_text::<BYTES>(), set this.set_rate(value)?;
        both "active" [CHECKBOX] => this.active;
        read "count" => this.count;
    }
}
