//! What `RatedUnqueue` and `BandwidthRatedUnqueue` have in common.

use europa_engine::Signal;

use super::bucket::Bucket;
use crate::prelude::*;
use crate::values::Bandwidth;

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
        let (now_ns, mut one, mut batch) =
            (context.now_ns(), context.take_batch(), context.take_batch());
        if now_ns < self.due_ns {
            context.give_batch(batch);
            context.give_batch(one);
            return false;
        }
        let (mut starved, burst) = (false, context.burst());
        while self.active && batch.len() < burst {
            starved = !self.bucket.has(now_ns);
            if starved || context.pull(0, 1, &mut one) == 0 {
                break;
            }
            for packet in one.drain() {
                self.bucket.take(if BYTES { packet.len() as u64 } else { 1 });
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

    fn rate(&self) -> String {
        match BYTES {
            true => Bandwidth(self.bucket.rate()).to_string(),
            false => self.bucket.rate().to_string(),
        }
    }

    fn set_rate(&mut self, value: &str) -> Result<(), HandlerError> {
        self.due_ns = 0;
        self.bucket.set_rate(match BYTES {
            true => parse::<Bandwidth>("rate", value)?.0,
            false => parse("rate", value)?,
        });
        Ok(())
    }
}

impl<const BYTES: bool> Element for RatedPull<BYTES> {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.active = arguments.keyword("ACTIVE")?.unwrap_or(true);
        self.bucket = Bucket::read(arguments, BYTES)?;
        arguments.finish()
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
        both "rate" => this.rate(), set this.set_rate(value)?;
        both "active" [CHECKBOX] => this.active;
        read "count" => this.count;
    }
}
