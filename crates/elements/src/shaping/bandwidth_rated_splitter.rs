//! # BandwidthRatedSplitter
//!
//! ## Synopsis
//! `BandwidthRatedSplitter(RATE [, BURST_DURATION, BURST_BYTES])`
//!
//! ## Ports
//! One push input, one or two push outputs.
//!
//! ## Description
//! Lets packets pass up to RATE, with bursts after a pause (token bucket). The excess leaves by
//! output 1, or is dropped.
//!
//! ## Arguments
//! - RATE: bandwidth, such as 10Mbps; without a unit bytes a second.
//! - BURST_DURATION (keyword): a burst is the traffic of RATE in this time, default 20 ms.
//! - BURST_BYTES (keyword): bytes of a burst, in place of BURST_DURATION.
//!
//! ## Handlers
//! - `rate` (read, write): RATE.
//!
//! ## See also
//! `RatedSplitter`, `BandwidthMeter`, `RatedUnqueue`

use super::rated_split::RatedSplit;
use crate::prelude::*;

/// Splits off the excess over a rate of bytes.
pub(crate) type BandwidthRatedSplitter = RatedSplit<true>;

impl Class for BandwidthRatedSplitter {
    const INFO: ClassInfo =
        ClassInfo::new("BandwidthRatedSplitter", "1/1-2").processing("h/h").inline();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_is_too_much_goes_elsewhere() {
        let mut bench = Bench::new("BandwidthRatedSplitter", &["800", "BURST_BYTES 8"]);
        let mut passed = 0;
        for step in 0..1000u64 {
            bench.now_ns = step * 1_000_000;
            passed += bench.push(0, &[&[0; 8]]).iter().filter(|(output, _)| *output == 0).count();
        }
        assert!((99..=102).contains(&passed), "{passed}");
    }
}
