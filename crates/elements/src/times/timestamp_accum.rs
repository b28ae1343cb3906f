//! # TimestampAccum
//!
//! ## Synopsis
//! `TimestampAccum()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sums up the age of packets: the time since their timestamp.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `count` (read): packets.
//! - `time`, `average_time`, `min`, `max` (read): sum, mean, minimum and maximum of the ages, in
//!   seconds.
//! - `reset_counts` (write): starts again.
//!
//! ## See also
//! `SetTimestamp`, `SetTimestampDelta`

use crate::prelude::*;

/// Adds up ages of packets.
#[derive(Default)]
pub(crate) struct TimestampAccum {
    count: u64,
    sum_ns: i128,
    least_ns: i64,
    most_ns: i64,
}

impl Class for TimestampAccum {
    const INFO: ClassInfo = ClassInfo::new("TimestampAccum", "1/1");
}

/// Seconds as a number.
fn seconds(nanoseconds: i128) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Element for TimestampAccum {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.wall_ns();
        for packet in batch.iter() {
            // The clock may have been set back since.
            let age_ns = now_ns.wrapping_sub(packet.timestamp_ns()).cast_signed();
            let first = self.count == 0;
            self.least_ns = if first { age_ns } else { self.least_ns.min(age_ns) };
            self.most_ns = if first { age_ns } else { self.most_ns.max(age_ns) };
            self.sum_ns += i128::from(age_ns);
            self.count += 1;
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "time" => seconds(this.sum_ns);
        read "average_time" => seconds(this.sum_ns) / this.count as f64;
        read "min" => seconds(this.least_ns.into());
        read "max" => seconds(this.most_ns.into());
        button "reset_counts" => *this = TimestampAccum::default();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn ages_are_added_up() {
        let mut bench = Bench::new("TimestampAccum", &[]);
        bench.now_ns = 5_000_000_000;
        for time_ns in [4_000_000_000, 2_000_000_000] {
            let mut packet = bench.arena.packet(b"x").unwrap();
            packet.set_timestamp_ns(time_ns);
            bench.push_packets(0, vec![packet]);
        }
        for (handler, value) in
            [("count", "2"), ("time", "4"), ("average_time", "2"), ("min", "1"), ("max", "3")]
        {
            assert_eq!(bench.router.read(&format!("e.{handler}"), ""), Ok(value.into()));
        }
        bench.router.write("e.reset_counts", "").unwrap();
        assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
    }
}
