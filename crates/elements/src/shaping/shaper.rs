//! # Shaper
//!
//! ## Synopsis
//! `Shaper(RATE)`
//!
//! ## Ports
//! One pull input, one or two pull outputs.
//!
//! ## Description
//! Lets packets be pulled at most at RATE, evenly. By output 1, if it is connected, packets can be
//! pulled whenever there is none for output 0.
//!
//! ## Arguments
//! - RATE: packets a second.
//!
//! ## Handlers
//! - Lets packets be pulled at most at RATE, at even intervals. Whenever none is due for output 0,
//!   packets can be pulled by output 1, if it is connected.
//! - `reset` (write): forgets past packets, and starts the rate again.
//!
//! ## See also
//! `BandwidthShaper`, `RatedUnqueue`, `DelayShaper`

use super::bucket::Gaps;
use crate::prelude::*;

/// Spaces pulls.
#[derive(Default)]
pub(crate) struct Shaper {
    gaps: Gaps,
}

impl Class for Shaper {
    const INFO: ClassInfo = ClassInfo::new("Shaper", "1/1-2").processing("l/l").inline();
}

impl Element for Shaper {
    arguments! { this, given;
        mandatory "RATE": u64, with Gaps::new => this.gaps;
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        if port == 1 {
            if !self.gaps.allows(now_ns) {
                context.pull(0, max, batch);
            }
            return;
        }
        let mut left = max;
        while left > 0 && self.gaps.allows(now_ns) && context.pull(0, 1, batch) > 0 {
            self.gaps.count(1, now_ns);
            left -= 1;
        }
        if self.gaps.rate > 0 && !self.gaps.allows(now_ns) {
            // The pulling element may be asleep at that time.
            context.schedule(0, self.gaps.next_ns());
        }
    }

    handlers! { this, context, value;
        both "rate" => this.gaps.rate;
        button "reset" => this.gaps.reset();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn pulls_are_spaced() {
        let mut bench = pull_bench("Shaper", &["10"], 1);
        bench.give(0, &[&[0; 10][..]; 50]);
        let mut count = 0;
        for step in 0..2000 {
            bench.now_ns = step * 1_000_000;
            count += bench.pull(9).len();
        }
        assert_eq!(count, 20);
    }
}
