//! # RatedSplitter
//!
//! ## Synopsis
//! `RatedSplitter(RATE [, BURST_DURATION, BURST_SIZE])`
//!
//! ## Ports
//! One push input, one or two push outputs.
//!
//! ## Description
//! Lets packets pass up to RATE, with bursts after a pause (token bucket). The excess leaves by
//! output 1, or is dropped.
//!
//! ## Arguments
//! - RATE: packets a second.
//! - BURST_DURATION (keyword): a burst is the traffic of RATE in this time, default 20 ms.
//! - BURST_SIZE (keyword): packets of a burst, in place of BURST_DURATION.
//!
//! ## Handlers
//! - `rate` (read, write): RATE.
//!
//! ## See also
//! `BandwidthRatedSplitter`, `Meter`, `RatedUnqueue`

use super::rated_split::RatedSplit;
use crate::prelude::*;

/// Splits off the excess over a rate of packets.
pub(crate) type RatedSplitter = RatedSplit<false>;

impl Class for RatedSplitter {
    const INFO: ClassInfo = ClassInfo::new("RatedSplitter", "1/1-2").processing("h/h").inline();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_is_too_much_goes_elsewhere() {
        let mut bench = Bench::new("RatedSplitter", &["100", "BURST_SIZE 1"]);
        let mut passed = 0;
        for step in 0..1000u64 {
            bench.now_ns = step * 1_000_000;
            passed += bench.push(0, &[&[0; 8]]).iter().filter(|(output, _)| *output == 0).count();
        }
        // As in Click, a full bucket loses the tokens that arrive; this happens here with a burst
        // of one packet.
        assert!((90..=92).contains(&passed), "{passed}");
    }
}
