//! A limit on the rate of an action.

/// Tokens that are refilled with time, up to a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    per_second: u32,
    /// Largest number of saved tokens, in billionths of a token.
    burst: u64,
    tokens: u64,
    last_ns: u64,
}

/// A token.
const ONE: u64 = 1_000_000_000;

impl Rate {
    /// Allows this number a second, with bursts of a tenth of it; 0 for no limit.
    pub(crate) fn new(per_second: u32) -> Rate {
        let burst = u64::from(per_second / 10).max(1) * ONE;
        Rate { per_second, burst, tokens: burst, last_ns: 0 }
    }

    /// Whether the action is allowed once more now; if so, counts it.
    pub(crate) fn allows(&mut self, now_ns: u64) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let gone = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        let back = gone.saturating_mul(u64::from(self.per_second));
        self.tokens = self.tokens.saturating_add(back).min(self.burst);
        match self.tokens.checked_sub(ONE) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_bounded_and_the_rate_is_kept() {
        for (per_second, burst, in_ten_seconds) in [(1000, 100, 10_100), (5, 1, 51)] {
            let mut rate = Rate::new(per_second);
            assert_eq!((0..500).filter(|_| rate.allows(7)).count(), burst);
            let mut rate = Rate::new(per_second);
            let allowed = (0..100_000u64).filter(|n| rate.allows(n * 100_000)).count();
            assert!(allowed.abs_diff(in_ten_seconds) <= 1, "{allowed}");
        }
        let mut rate = Rate::new(0);
        assert!((0..1000).all(|_| rate.allows(0)));
    }
}
