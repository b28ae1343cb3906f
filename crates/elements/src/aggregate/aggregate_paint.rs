//! # AggregatePaint
//!
//! ## Synopsis
//! `AggregatePaint([BITS, INCREMENTAL])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's aggregate annotation to its paint annotation.
//!
//! ## Arguments
//! - BITS: lowest bits that count, 1 to 8, default 8.
//! - INCREMENTAL (keyword): shift the packet's present aggregate left and add these bits behind
//!   it; default false.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `AggregateCounter`, `Paint`

use crate::prelude::*;
use crate::shared::fields::Annotations;

/// Aggregates by paint.
#[derive(Default)]
pub(crate) struct AggregatePaint {
    bits: u32,
    incremental: bool,
}

impl Class for AggregatePaint {
    const INFO: ClassInfo = ClassInfo::new("AggregatePaint", "1/1");
}

impl Element for AggregatePaint {
    arguments! { this, given;
        positional "BITS": u32 = 8 => this.bits;
        keyword "INCREMENTAL": bool = false => this.incremental;
        then {
            if !(1..=8).contains(&this.bits) {
                return Err(ConfigError::at(0, "BITS: expected 1 to 8"));
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let paint = u32::from(packet.paint()) & ((1 << self.bits) - 1);
            let front = if self.incremental { packet.aggregate() << self.bits } else { 0 };
            packet.set_aggregate(front | paint);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::Bench;

    #[test]
    fn paint_is_the_aggregate() {
        for (arguments, expected) in
            [(&[][..], 0x13), (&["4"], 3), (&["4", "INCREMENTAL true"], 0x53)]
        {
            let mut bench = Bench::new("AggregatePaint", arguments);
            let mut packet = bench.arena.packet(b"x").unwrap();
            packet.set_aggregate(5);
            packet.set_paint(0x13);
            bench.push_packets(0, vec![packet]);
            assert_eq!(bench.out[0].1.aggregate(), expected);
        }
    }
}
