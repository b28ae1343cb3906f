//! Delays for restarting a program that keeps failing.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// All routers wait for the switch.
const LONGEST_OF_SWITCH: Duration = Duration::from_millis(500);
/// A process that ran for this time has recovered.
const RECOVERED: Duration = Duration::from_secs(10);

/// At once after the first failure, then later and later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    failures: u32,
    longest: Duration,
}

impl Backoff {
    /// For a router.
    pub(crate) fn new() -> Self {
        Self { failures: 0, longest: LONGEST }
    }

    /// For a switch.
    pub(crate) fn of_switch() -> Self {
        Self { failures: 0, longest: LONGEST_OF_SWITCH }
    }

    /// Starts again: the failed object has changed.
    pub(crate) fn forget(&mut self) {
        self.failures = 0;
    }

    /// Notes an end after `ran`; when to start again.
    pub(crate) fn failed(&mut self, ran: Duration, now: Instant) -> Instant {
        if ran >= RECOVERED {
            self.failures = 0;
        }
        let wait = match self.failures {
            0 => Duration::ZERO,
            n => FIRST.saturating_mul(1 << (n - 1).min(10)).min(self.longest),
        };
        self.failures += 1;
        now + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_forgotten() {
        let now = Instant::now();
        for (mut backoff, wanted) in [
            (Backoff::new(), [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]),
            (Backoff::of_switch(), [0, 100, 200, 400, 500, 500, 500, 500, 500]),
        ] {
            let waits: Vec<u128> = (0..9)
                .map(|_| backoff.failed(Duration::ZERO, now).duration_since(now).as_millis())
                .collect();
            assert_eq!(waits, wanted);
            assert_eq!(backoff.failed(RECOVERED, now), now);
        }
    }
}
