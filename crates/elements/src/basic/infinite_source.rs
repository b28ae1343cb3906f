//! # InfiniteSource
//!
//! ## Synopsis
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, LENGTH, STOP, TIMESTAMP])`
//!
//! ## Ports
//! One output, push or pull.
//!
//! ## Description
//! Makes packets as fast as they are taken: a batch in each turn, or as many as are pulled. While
//! all queues behind it with a signal are full, it makes none.
//!
//! ## Arguments
//! - DATA: contents of each packet; default 69 bytes of text.
//! - LIMIT: stop after this many packets; default -1: never.
//! - BURST: packets in a turn, default 32, at most 256; 1 in a router that handles packets one by
//!   one, as Click does.
//! - ACTIVE: whether to send; default true.
//! - LENGTH (keyword): send packets of this length; DATA is repeated to fill it.
//! - STOP (keyword): stop the router once LIMIT is reached; default false.
//! - END_CALL (keyword): a handler to write once LIMIT is reached, with its value.
//! - TIMESTAMP (keyword): give packets the time of their round; default false (Click: true).
//!
//! ## Handlers
//! - `count` (read): packets sent.
//! - `data`, `limit`, `burst`, `active`, `length` (read, write): see the arguments.
//! - `reset` (write): sets `count` to zero.
//!
//! ## See also
//! `RatedSource`

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, Notifies, Signal,
    arguments, handlers, parse,
};

use crate::shared::common::Data;
use crate::shared::handler_call::HandlerCall;

/// Makes packets as fast as it can.
#[derive(Default)]
pub(crate) struct InfiniteSource {
    data: Data,
    limit: i64,
    burst: usize,
    active: bool,
    stop: bool,
    end_call: Option<HandlerCall>,
    timestamp: Option<bool>,
    count: u64,
    /// Whether it has reported that the limit is reached.
    told: bool,
    room: Signal,
}

/// Packets of a turn, if they may be sent in batches.
const BURST: usize = 32;

impl Class for InfiniteSource {
    const INFO: ClassInfo = ClassInfo::new("InfiniteSource", "0/1")
        .not_inline("always has something to do, so that the switch could never sleep");
}

impl InfiniteSource {
    /// The limit is reached.
    fn tell(&mut self, context: &mut Context<'_>) {
        if self.stop {
            context.stop();
        }
        if let Some(call) = &self.end_call {
            call.write(context);
        }
    }

    /// Adds up to `most` packets to `batch`; returns how many.
    fn make(&mut self, most: usize, batch: &mut Batch, context: &mut Context<'_>) -> usize {
        let mut most = most.min(batch.room());
        if let Ok(limit) = u64::try_from(self.limit) {
            let left = limit.saturating_sub(self.count);
            if left == 0 && self.active && !std::mem::replace(&mut self.told, true) {
                self.tell(context);
            }
            most = most.min(usize::try_from(left).unwrap_or(most));
        }
        if !self.active {
            return 0;
        }
        let time_ns = if self.timestamp == Some(true) { context.wall_ns() } else { 0 };
        let count = self.data.fill(batch, most, context.arena());
        if time_ns != 0 {
            let start = batch.len() - count;
            for packet in batch.iter_mut().skip(start) {
                packet.set_timestamp_ns(time_ns);
            }
        }
        self.count += count as u64;
        count
    }
}

impl Element for InfiniteSource {
    arguments! { this, given;
        let data = positional "DATA": Vec<u8>;
        positional "LIMIT": i64 = -1 => this.limit;
        positional "BURST": usize = 0 => this.burst;
        positional "ACTIVE": bool = true => this.active;
        let length = keyword "LENGTH" | "DATASIZE": usize;
        keyword "STOP": bool = false => this.stop;
        keyword "END_CALL": "'HANDLER [VALUE]'", by HandlerCall::read => this.end_call;
        keyword "TIMESTAMP": bool => this.timestamp;
        then {
            this.data = Data::new(data, length);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if let Some(call) = &self.end_call {
            call.check(context)?;
        }
        if self.burst == 0 {
            self.burst = context.burst().min(BURST);
        }
        self.timestamp.get_or_insert(context.burst() == 1);
        self.room = context.downstream(0);
        // On a pull path there is no push connection: the task would only waste packets.
        if context.is_push_output(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.make(max, batch, context);
    }

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, _: &mut Context<'_>) -> bool {
        let left = u64::try_from(self.limit).is_err() || self.count < self.limit as u64;
        self.active && left
    }

    fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
        Some(self.has_packets(0, context) && context.is_active(&self.room))
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if !context.is_active(&self.room) {
            return false;
        }
        let mut batch = context.take_batch();
        let count = self.make(self.burst, &mut batch, context);
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "data" [RAW] => this.data.text(), set {
            this.data = Data::new(Some(value.as_bytes().to_vec()), None);
        };
        // This write may let the source continue, so it reports the next limit again.
        both "limit" [CALM] => this.limit, set {
            (this.limit, this.told) = (parse("limit", value)?, false);
        };
        both "burst" [CALM] => this.burst;
        both "active" [CHECKBOX] => this.active, set {
            (this.active, this.told) = (parse("active", value)?, false);
        };
        both "length" [CALM] => this.data.length(), set {
            this.data.set_length(parse("length", value)?);
        };
        // The handler's name in earlier versions of Click.
        both "datasize" [UNCOMMON] => this.data.length(), set {
            this.data.set_length(parse("datasize", value)?);
        };
        both "burstsize" [UNCOMMON] => this.burst;
        button "reset" => (this.count, this.told) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn sends_its_limit() {
        let mut bench = Bench::new("InfiniteSource", &["\"a b\"", "40"]);
        assert_eq!(bench.run(), vec![(0, b"a b".to_vec()); 40]);
        bench.router.write("e.reset", "").unwrap();
        bench.router.write("e.limit", "1").unwrap();
        bench.router.write("e.length", "5").unwrap();
        assert_eq!(bench.run(), [(0, b"a ba ".to_vec())]);
    }

    #[test]
    fn a_call_at_the_limit_may_write_to_it() {
        let end_call = "END_CALL e.length 2";
        let mut bench = Bench::new("InfiniteSource", &["LIMIT 3", end_call]);
        assert_eq!(bench.run().len(), 3);
        assert!(!bench.router.is_busy());
        assert_eq!(bench.router.read("e.length", ""), Ok("2".into()));
    }

    #[test]
    fn stops_the_router() {
        let mut bench = Bench::new("InfiniteSource", &["LIMIT 1", "STOP true"]);
        assert_eq!(bench.run().len(), 1);
        assert!(bench.router.is_stopped());
    }
}
