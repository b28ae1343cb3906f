//! # Pipeliner
//!
//! ## Synopsis
//! `Pipeliner([CAPACITY, BLOCKING, ...])`
//!
//! ## Ports
//! At least one push input, one push output.
//!
//! ## Description
//! Holds pushed packets until its own task pushes them on, a batch in a turn. So the elements
//! behind it run in another turn than those in front of it. Packets that find no room are dropped.
//!
//! ## Arguments
//! - CAPACITY, SIZE (keywords): most packets, default 1024.
//! - BURST (keyword): most packets in a turn, default 256.
//! - ACTIVE (keyword): whether to push packets on; default true.
//! - BLOCKING, ALWAYS_UP, DIRECT_TRAVERSAL, NOUSELESS, VERBOSE, PREFETCH, HOME_THREAD, WARN
//!   (keywords): accepted; no effect.
//!
//! ## Handlers
//! - `count` (read): packets pushed on.
//! - `dropped` (read): packets that found no room.
//! - `active` (write): ACTIVE.
//!
//! ## See also
//! `Queue`, `Unqueue`, `StaticThreadSched`

use std::collections::VecDeque;

use crate::prelude::*;

/// Capacity in packets, by default and at most.
const CAPACITY: usize = 1024;
const MOST: usize = 1 << 20;

/// Holds packets until its next turn.
#[derive(Default)]
pub(crate) struct Pipeliner {
    capacity: usize,
    burst: usize,
    active: bool,
    waiting: VecDeque<Packet>,
    count: u64,
    dropped: u64,
}

impl Class for Pipeliner {
    const INFO: ClassInfo = ClassInfo::new("Pipeliner", "1-/1").processing("h/h");
}

impl Element for Pipeliner {
    arguments! { this, given;
        keyword "CAPACITY" | "SIZE": usize = CAPACITY, with |most| most.min(MOST) => this.capacity;
        keyword "BURST": usize = europa_engine::BATCH => this.burst;
        keyword "ACTIVE": bool = true => this.active;
        keyword "BLOCKING": String => _;
        keyword "ALWAYS_UP": String => _;
        keyword "DIRECT_TRAVERSAL": String => _;
        keyword "NOUSELESS": String => _;
        keyword "VERBOSE": String => _;
        keyword "PREFETCH": String => _;
        keyword "HOME_THREAD": String => _;
        keyword "WARN": String => _;
        then {
            this.waiting.reserve(this.capacity);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.add_task(1024);
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.drain() {
            if self.waiting.len() < self.capacity {
                self.waiting.push_back(packet);
            } else {
                self.dropped += 1;
            }
        }
    }

    fn ready(&mut self, _: &mut Context<'_>) -> Option<bool> {
        Some(self.active && !self.waiting.is_empty())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if !self.active || self.waiting.is_empty() {
            return false;
        }
        let mut batch = context.take_batch();
        let count = self.burst.max(1).min(self.waiting.len()).min(batch.room());
        for packet in self.waiting.drain(..count) {
            // There is room.
            let _ = batch.push(packet);
        }
        self.count += count as u64;
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        true
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "dropped" => this.dropped;
        write "active" => this.active = parse("active", value)?;
    }

    keep! { this, old;
        waiting;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_wait_for_the_next_turn() {
        let mut bench = Bench::new("Pipeliner", &["CAPACITY 2", "ACTIVE false"]);
        assert!(bench.push(0, &[b"a", b"b", b"c"]).is_empty());
        bench.router.write("e.active", "true").unwrap();
        assert_eq!(bench.run(), [(0, b"a".to_vec()), (0, b"b".to_vec())]);
        assert_eq!(bench.router.read("e.dropped", ""), Ok("1".into()));
        assert_eq!(bench.router.read("e.count", ""), Ok("2".into()));
    }
}
