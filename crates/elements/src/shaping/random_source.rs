//! # RandomSource
//!
//! ## Synopsis
//! `RandomSource(LENGTH [, LIMIT, BURST, ACTIVE, STOP, END_CALL, TIMESTAMP])`
//!
//! ## Ports
//! One output, push or pull.
//!
//! ## Description
//! Makes packets with random contents as fast as they are taken. While all queues behind it with a
//! signal are full, it makes none.
//!
//! ## Arguments
//! - LENGTH: bytes.
//! - LIMIT: stop after this many packets; default -1: never.
//! - BURST: packets in a turn, default 1.
//! - ACTIVE: whether to send; default true.
//! - STOP (keyword): stop the router once LIMIT is reached; default false.
//! - END_CALL (keyword): a handler to write once LIMIT is reached, with its value.
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
use crate::shared::handler_call::HandlerCall;
use crate::shared::random::Random;

/// Makes random packets.
#[derive(Default)]
pub(crate) struct RandomSource {
    length: usize,
    limit: i64,
    burst: usize,
    active: bool,
    stop: bool,
    end_call: Option<HandlerCall>,
    /// Whether it has reported that the limit is reached.
    told: bool,
    timestamp: bool,
    count: u64,
    random: Random,
    room: Signal,
}

impl Class for RandomSource {
    const INFO: ClassInfo = ClassInfo::new("RandomSource", "0/1")
        .processing("a/a")
        .not_inline("always has something to do, so that the switch could never sleep");
}

impl RandomSource {
    fn make(&mut self, most: usize, batch: &mut Batch, context: &mut Context<'_>) -> usize {
        let mut most = if self.active { most.min(batch.room()) } else { 0 };
        if let Ok(limit) = u64::try_from(self.limit) {
            let left = limit.saturating_sub(self.count);
            if left == 0 && self.active && !std::mem::replace(&mut self.told, true) {
                if self.stop {
                    context.stop();
                }
                if let Some(call) = &self.end_call {
                    call.write(context);
                }
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
    arguments! { this, given;
        mandatory "LENGTH": usize => this.length;
        positional "LIMIT": i64 = -1 => this.limit;
        positional "BURST": usize = 1 => this.burst;
        positional "ACTIVE": bool = true => this.active;
        keyword "STOP": bool = false => this.stop;
        keyword "END_CALL": "'HANDLER [VALUE]'", by HandlerCall::read => this.end_call;
        keyword "TIMESTAMP": bool = true => this.timestamp;
        then {
            if this.length >= 65536 {
                return Err(ConfigError::at(0, format!("bad length {}", this.length)));
            }
            if this.burst == 0 {
                return Err(ConfigError::at(2, "burst size must be >= 1"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if let Some(call) = &self.end_call {
            call.check(context)?;
        }
        self.room = context.downstream(0);
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
        both "length" => this.length;
        both "limit" => this.limit;
        both "burst" => this.burst;
        both "active" [CHECKBOX] => this.active;
        button "reset" => { this.count = 0; this.told = false; };
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Graph;

    use crate::testing::{Bench, run};

    #[test]
    fn a_full_queue_stops_it() {
        let mut graph = Graph::default();
        let source = graph.add("s", "RandomSource", &["5", "LIMIT 10"]);
        let (queue, idle) = (graph.add("q", "Queue", &["2"]), graph.add("i", "Idle", &[]));
        graph.connect(source, 0, queue, 0);
        graph.connect(queue, 0, idle, 0);
        let mut router = run(graph);
        for (handler, value) in [("q.length", "2"), ("q.drops", "0"), ("s.count", "2")] {
            assert_eq!(router.read(handler, ""), Ok(value.into()), "{handler}");
        }
    }

    #[test]
    fn packets_differ() {
        let mut bench = Bench::new("RandomSource", &["10", "50", "STOP true"]);
        let mut out: Vec<_> = bench.run().into_iter().map(|(_, data)| data).collect();
        assert!(out.len() == 50 && out.iter().all(|data| data.len() == 10));
        out.sort();
        out.dedup();
        assert_eq!(out.len(), 50);
        assert!(bench.router.is_stopped());
        let mut bench = Bench::new("RandomSource", &["10", "3", "END_CALL e.length 7"]);
        assert_eq!(bench.run().len(), 3);
        assert_eq!(bench.router.read("e.length", ""), Ok("7".into()));
        assert_eq!(Bench::error("RandomSource", &["70000"]), "bad length 70000");
    }
}
