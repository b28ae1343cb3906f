//! # BandwidthShaper
//!
//! ## Synopsis
//! `BandwidthShaper(RATE)`
//!
//! ## Ports
//! One pull input, one pull output.
//!
//! ## Description
//! Lets packets be pulled at most at RATE, at even intervals.
//!
//! ## Arguments
//! - RATE: bandwidth, such as 10Mbps; without a unit bytes a second.
//!
//! ## Handlers
//! - `rate` (read, write): RATE.
//! - `reset` (write): forgets past packets, and starts the rate again.
//!
//! ## See also
//! `Shaper`, `RatedUnqueue`, `DelayShaper`

use super::bucket::Gaps;
use crate::prelude::*;
use crate::shared::values::Bandwidth;

/// Spaces pulls.
#[derive(Default)]
pub(crate) struct BandwidthShaper {
    gaps: Gaps,
}

impl Class for BandwidthShaper {
    const INFO: ClassInfo = ClassInfo::new("BandwidthShaper", "1/1").processing("l/l").inline();
}

impl Element for BandwidthShaper {
    arguments! { this, given;
        mandatory "RATE": Bandwidth, with |rate| Gaps::new(rate.0) => this.gaps;
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let mut left = max;
        while left > 0 && self.gaps.allows(now_ns) && context.pull(0, 1, batch) > 0 {
            self.gaps
                .count(batch.as_slice().last().map_or(0, |packet| packet.len() as u64), now_ns);
            left -= 1;
        }
        if self.gaps.rate > 0 && !self.gaps.allows(now_ns) {
            // The pulling element may be asleep at that time.
            context.schedule(0, self.gaps.next_ns());
        }
    }

    handlers! { this, context, value;
        both "rate" => Bandwidth(this.gaps.rate), set this.gaps.rate = parse::<Bandwidth>("rate", value)?.0;
        button "reset" => this.gaps.reset();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn pulls_are_spaced() {
        let mut bench = pull_bench("BandwidthShaper", &["100"], 1);
        bench.give(0, &[&[0; 10][..]; 50]);
        let mut count = 0;
        for step in 0..2000 {
            bench.now_ns = step * 1_000_000;
            count += bench.pull(9).len();
        }
        assert_eq!(count, 20);
    }
}
