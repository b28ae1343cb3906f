//! # SetTimestamp
//!
//! ## Synopsis
//! `SetTimestamp([TIMESTAMP, FIRST])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's time.
//!
//! ## Arguments
//! - TIMESTAMP: seconds since 1970; default is now.
//! - FIRST (keyword): set the time of the first packet of a set instead; default false.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `AdjustTimestamp`, `SetTimestampDelta`, `StoreTimestamp`

use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::values::Time;

/// Sets times.
#[derive(Default)]
pub(crate) struct SetTimestamp {
    time: Option<Time>,
    first: bool,
}

impl Class for SetTimestamp {
    const INFO: ClassInfo = ClassInfo::new("SetTimestamp", "1/1").inline();
}

impl Element for SetTimestamp {
    arguments! { this, given;
        positional "TIMESTAMP": Time => this.time;
        keyword "FIRST": bool = false => this.first;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let time_ns = self.time.map_or_else(|| context.wall_ns(), Time::nanoseconds);
        for packet in batch {
            match self.first {
                false => packet.set_timestamp_ns(time_ns),
                true => packet.set_first_timestamp_ns(time_ns),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::Bench;

    #[test]
    fn now_or_as_told() {
        for (arguments, time, first) in [
            (&[][..], 7, 0),
            (&["1.5"], 1_500_000_000, 0),
            (&["1.5", "FIRST true"], 0, 1_500_000_000),
        ] {
            let mut bench = Bench::new("SetTimestamp", arguments);
            bench.now_ns = 7;
            bench.push(0, &[b"x"]);
            let packet = &bench.out[0].1;
            assert_eq!((packet.timestamp_ns(), packet.first_timestamp_ns()), (time, first));
        }
    }
}
