//! # Block
//!
//! ## Synopsis
//! `Block(THRESH)`
//!
//! ## Ports
//! One push input, two push outputs.
//!
//! ## Description
//! Sends packets by output 0 if their rate annotation, as `IPRateMonitor` sets it, is at most
//! THRESH; others by output 1.
//!
//! ## Arguments
//! - THRESH: the rate; 0 sends all by output 0.
//!
//! ## Handlers
//! - `thresh` (read, write): THRESH.
//!
//! ## See also
//! `IPRateMonitor`, `Meter`

use crate::prelude::*;
use crate::shaping::ip_rate_monitor::FORWARD_RATE;

/// Parts packets by their rate.
#[derive(Default)]
pub(crate) struct Block {
    threshold: i32,
}

impl Class for Block {
    const INFO: ClassInfo = ClassInfo::new("Block", "1/2").processing("h/h");
}

impl Element for Block {
    arguments! { this, given;
        mandatory "THRESH": i32 => this.threshold;
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let threshold = self.threshold;
        context.push_each(batch, |packet| {
            let rate = i32::from_ne_bytes(packet.annotation(FORWARD_RATE));
            Some(usize::from(threshold != 0 && rate > threshold))
        });
    }

    handlers! { this, context, value; both "thresh" => this.threshold; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn fast_packets_leave_by_output_1() {
        let mut bench = Bench::new("Block", &["10"]);
        let outputs = |bench: &mut Bench, rate: i32| {
            let mut packet = bench.arena.packet(b"x").unwrap();
            packet.set_annotation(super::FORWARD_RATE, rate.to_ne_bytes());
            bench.push_packets(0, vec![packet])[0].0
        };
        assert_eq!([9, 10, 11].map(|rate| outputs(&mut bench, rate)), [0, 0, 1]);
        bench.router.write("e.thresh", "0").unwrap();
        assert_eq!(outputs(&mut bench, 11), 0);
    }
}
