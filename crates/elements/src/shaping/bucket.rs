//! Rates: how much may pass, and when the next may.

use std::time::Duration;

use europa_engine::{Arguments, ConfigError};

use crate::values::Bandwidth;

const SECOND_NS: i128 = 1_000_000_000;

/// A token bucket. Something may pass while it is not empty, and takes its tokens, perhaps more
/// than there are: so it does not matter how large the things are that pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// Tokens a second.
    rate: u64,
    capacity: u64,
    /// In billionths.
    tokens: i128,
    last_ns: u64,
}

impl Bucket {
    pub(crate) fn new(rate: u64, capacity: u64) -> Bucket {
        let capacity = capacity.max(1);
        Bucket { rate, capacity, tokens: i128::from(capacity) * SECOND_NS, last_ns: 0 }
    }

    /// From `RATE`, `BURST_DURATION` and the burst's size: packets a second, or bytes.
    pub(crate) fn read(arguments: &mut Arguments<'_>, bytes: bool) -> Result<Bucket, ConfigError> {
        let duration: Option<Duration> = arguments.keyword("BURST_DURATION")?;
        let size = arguments.keyword(if bytes { "BURST_BYTES" } else { "BURST_SIZE" })?;
        let rate = match bytes {
            true => arguments.mandatory::<Bandwidth>("RATE")?.0,
            false => arguments.mandatory("RATE")?,
        };
        if duration.is_some() && size.is_some() {
            return Err(ConfigError::other("cannot specify both BURST_DURATION and BURST_SIZE"));
        }
        let milliseconds = duration.map_or(20, |duration| duration.as_millis());
        let burst = u128::from(rate).saturating_mul(milliseconds) / 1000;
        Ok(Bucket::new(rate, size.unwrap_or(u64::try_from(burst).unwrap_or(u64::MAX))))
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Another rate; what is in the bucket stays.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    fn fill(&mut self, now_ns: u64) {
        let gone = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        // Both are 64 bits, so that the product fits.
        let most = i128::from(self.capacity) * SECOND_NS;
        self.tokens = (self.tokens + i128::from(gone) * i128::from(self.rate)).min(most);
    }

    /// Whether something of at least `least` tokens may pass now.
    pub(crate) fn has(&mut self, least: u64, now_ns: u64) -> bool {
        self.fill(now_ns);
        self.tokens >= i128::from(least) * SECOND_NS
    }

    pub(crate) fn take(&mut self, tokens: u64) {
        self.tokens -= i128::from(tokens) * SECOND_NS;
    }

    /// When [`Bucket::has`] will be true; `None` if never.
    pub(crate) fn next_ns(&self, least: u64) -> Option<u64> {
        let missing = (i128::from(least) * SECOND_NS - self.tokens).max(1);
        let wait = (missing - 1).checked_div(self.rate.into())? + 1;
        Some(self.last_ns.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

/// Even gaps, as far as they can be kept: what comes late is made up for, up to a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gaps {
    /// Units a second.
    pub(crate) rate: u64,
    next_ns: u64,
}

impl Gaps {
    pub(crate) fn new(rate: u64) -> Gaps {
        Gaps { rate, next_ns: 0 }
    }

    pub(crate) fn allows(&self, now_ns: u64) -> bool {
        self.rate > 0 && self.next_ns <= now_ns
    }

    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    pub(crate) fn count(&mut self, units: u64, now_ns: u64) {
        let gap = u128::from(units) * 1_000_000_000 / u128::from(self.rate.max(1));
        let from = match self.next_ns {
            0 => now_ns,
            next_ns => next_ns.max(now_ns.saturating_sub(1_000_000_000)),
        };
        self.next_ns = from.saturating_add(u64::try_from(gap).unwrap_or(u64::MAX));
    }

    pub(crate) fn reset(&mut self) {
        self.next_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_kept() {
        let mut bucket = Bucket::new(1000, 10);
        let mut passed = 0;
        for step in 0..100_000u64 {
            if bucket.has(1, step * 100_000) {
                bucket.take(1);
                passed += 1;
            }
        }
        assert!((10_000..=10_011).contains(&passed), "{passed}");
        let mut bucket = Bucket::new(10, 1);
        assert!(bucket.has(1, 5));
        bucket.take(1);
        let next_ns = bucket.next_ns(1).unwrap();
        assert!(!bucket.has(1, next_ns - 1) && bucket.has(1, next_ns), "{next_ns}");
        assert_eq!(Bucket { tokens: 0, ..Bucket::new(0, 1) }.next_ns(1), None);
        let mut gaps = Gaps::new(100);
        let count = (0..1000u64).filter(|step| {
            let now_ns = step * 1_000_000;
            let allowed = gaps.allows(now_ns);
            if allowed {
                gaps.count(1, now_ns);
            }
            allowed
        });
        assert_eq!(count.count(), 100);
    }
}
