//! # TimeRange
//!
//! ## Synopsis
//! `TimeRange`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Records the first and the last time of packets.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `first`, `last` (read): these times.
//! - `range` (read): both.
//! - `interval` (read): their difference.
//! - `reset` (write): forgets them.
//!
//! ## See also
//! `TimeFilter`, `SetTimestampDelta`

use crate::prelude::*;
use crate::shared::values::Time;

/// Notes times.
#[derive(Default)]
pub(crate) struct TimeRange {
    range: Option<(u64, u64)>,
}

impl Class for TimeRange {
    const INFO: ClassInfo = ClassInfo::new("TimeRange", "1/1");
}

impl TimeRange {
    fn ends(&self) -> (Time, Time) {
        let (first, last) = self.range.unwrap_or_default();
        (Time::of(first), Time::of(last))
    }
}

impl Element for TimeRange {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for time in batch.iter().map(Packet::timestamp_ns) {
            let (first, last) = self.range.unwrap_or((time, time));
            self.range = Some((first.min(time), last.max(time)));
        }
    }

    handlers! { this, context, value;
        read "first" => this.ends().0;
        read "last" => this.ends().1;
        read "range" => format!("{} {}", this.ends().0, this.ends().1);
        read "interval" => Time(this.ends().1.0 - this.ends().0.0);
        button "reset" => this.range = None;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn first_and_last() {
        let mut bench = Bench::new("TimeRange", &[]);
        let packets = [5, 3, 9].map(|time| {
            let mut packet = bench.arena.packet(b"").unwrap();
            packet.set_timestamp_ns(time);
            packet
        });
        bench.push_packets(0, packets.into());
        assert_eq!(bench.router.read("e.range", ""), Ok("0.000000003 0.000000009".into()));
        assert_eq!(bench.router.read("e.interval", ""), Ok("0.000000006".into()));
    }
}
