//! # Discard
//!
//! ## Synopsis
//! `Discard([ACTIVE, BURST])`
//!
//! ## Ports
//! One input, push or pull.
//!
//! ## Description
//! Drops packets. On a pull input it pulls continuously.
//!
//! ## Arguments
//! - ACTIVE (keyword): whether to pull; default true.
//! - BURST (keyword): most packets pulled in a turn, default 256; 1 in a router that handles
//!   packets one by one, as Click does.
//!
//! ## Handlers
//! - `count` (read): packets dropped.
//! - `reset_counts` (write): sets `count` to zero.
//! - `active` (read, write): whether to pull.
//!
//! ## See also
//! `Idle`

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, Signal, arguments,
    handlers,
};

use crate::shared::common::pull_turn;

/// Drops packets.
#[derive(Default)]
pub(crate) struct Discard {
    count: u64,
    active: bool,
    burst: usize,
    packets: Signal,
}

impl Class for Discard {
    const INFO: ClassInfo = ClassInfo::new("Discard", "1/0").inline().consumes().keeps_long();
}

impl Element for Discard {
    arguments! { this, given;
        keyword "ACTIVE": bool = true => this.active;
        keyword "BURST": usize = 0 => this.burst;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if self.burst == 0 {
            self.burst = context.burst();
        }
        if context.is_pull(0) {
            context.add_task(1024);
            self.packets = context.upstream(0);
        }
        Ok(())
    }

    fn ready(&mut self, context: &mut Context<'_>) -> Option<bool> {
        Some(self.active && context.is_active(&self.packets))
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        self.count += batch.len() as u64;
        batch.clear();
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        let count = pull_turn(self.burst, context, |batch, _| batch.clear());
        self.count += count as u64;
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        button "reset_counts" => this.count = 0;
        both "active" [CHECKBOX] => this.active;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_and_drops() {
        let mut bench = Bench::new("Discard", &[]);
        assert_eq!(bench.push(0, &[b"a", b"b"]), []);
        assert_eq!(bench.router.read("e.count", ""), Ok("2".into()));
        assert_eq!(bench.arena.free(), bench.arena.capacity());
        bench.router.write("e.reset_counts", "").unwrap();
        assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
    }
}
