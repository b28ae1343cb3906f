//! # AdjustTimestamp
//!
//! ## Synopsis
//! `AdjustTimestamp(TIME [, FIRST, ALL])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Adds TIME to each packet's time, unless the packet's time is 0.
//!
//! ## Arguments
//! - TIME: seconds, may be negative.
//! - FIRST (keyword): change the time of the first packet of a set instead; default false.
//! - ALL (keyword): change times of 0 too; default false.
//!
//! ## Handlers
//! - `time` (read, write): TIME.
//!
//! ## See also
//! `SetTimestamp`, `SetTimestampDelta`

use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::values::Time;

/// Moves times.
#[derive(Default)]
pub(crate) struct AdjustTimestamp {
    time: Time,
    first: bool,
    all: bool,
}

impl Class for AdjustTimestamp {
    const INFO: ClassInfo = ClassInfo::new("AdjustTimestamp", "1/1").inline();
}

impl Element for AdjustTimestamp {
    arguments! { this, given;
        mandatory "TIME": Time => this.time;
        keyword "FIRST": bool = false => this.first;
        keyword "ALL": bool = false => this.all;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let old = if self.first { packet.first_timestamp_ns() } else { packet.timestamp_ns() };
            if old != 0 || self.all {
                let new = old.wrapping_add_signed(self.time.0);
                match self.first {
                    false => packet.set_timestamp_ns(new),
                    true => packet.set_first_timestamp_ns(new),
                }
            }
        }
    }

    handlers! { this, context, value; both "time" => this.time; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn zero_stays_unless_all_are_moved() {
        for (arguments, expected) in
            [(&["-1"][..], [4, 0]), (&["2", "ALL true"], [7, 2]), (&["-7"], [-2, 0])]
        {
            let mut bench = Bench::new("AdjustTimestamp", arguments);
            let packets = [5, 0].map(|seconds| {
                let mut packet = bench.arena.packet(b"").unwrap();
                packet.set_timestamp_ns(seconds * 1_000_000_000);
                packet
            });
            bench.push_packets(0, packets.into());
            let times: Vec<_> = bench
                .out
                .iter()
                .map(|(_, p)| p.timestamp_ns().cast_signed() / 1_000_000_000)
                .collect();
            assert_eq!(times, expected);
        }
    }
}
