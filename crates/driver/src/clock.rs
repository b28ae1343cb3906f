//! The clock of a router: real or simulated time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds by which simulated time advances in a round that found work, so that timers expire
/// even if every round finds work.
const ROUND_NS: u64 = 100;

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// Seconds of simulated time in a second.
    Linear(f64),
    /// Real time, without waits.
    NoWait,
    /// Time advances only by waits, which take no real time.
    Simulated,
}

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pace: Pace,
    /// Time at `since`.
    base_ns: u64,
    since: Instant,
    /// The difference to nanoseconds since 1970.
    pub(crate) wall_offset_ns: u64,
}

impl Clock {
    /// Real time.
    pub(crate) fn real() -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            pace: Pace::Linear(1.0),
            base_ns: 0,
            since: Instant::now(),
            wall_offset_ns: wall.as_nanos() as u64,
        }
    }

    /// Simulated time that begins at this second since 1970.
    pub(crate) fn simulated(start_seconds: f64) -> Clock {
        Clock {
            pace: Pace::Simulated,
            base_ns: (start_seconds * 1e9) as u64,
            since: Instant::now(),
            wall_offset_ns: 0,
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// Continues at another pace.
    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.base_ns = self.now_ns();
        self.since = Instant::now();
        self.pace = pace;
    }

    /// The time now.
    pub(crate) fn now_ns(&self) -> u64 {
        let passed = self.since.elapsed();
        self.base_ns
            + match self.pace {
                Pace::Simulated => 0,
                Pace::NoWait => passed.as_nanos() as u64,
                Pace::Linear(speed) => passed.mul_f64(speed).as_nanos() as u64,
            }
    }

    /// Notes the end of a round that found work.
    pub(crate) fn worked(&mut self) {
        if self.pace == Pace::Simulated {
            self.base_ns += ROUND_NS;
        }
    }

    /// Waits until `at_ns` if that takes no real time; otherwise returns how long it takes.
    pub(crate) fn wait(&mut self, at_ns: u64) -> Option<Duration> {
        let now_ns = self.now_ns();
        let left = Duration::from_nanos(at_ns.saturating_sub(now_ns));
        match self.pace {
            Pace::Linear(speed) => Some(left.div_f64(speed)),
            Pace::NoWait | Pace::Simulated => {
                self.base_ns += left.as_nanos() as u64;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_passes_by_waiting() {
        let mut clock = Clock::simulated(1e9);
        assert_eq!(clock.now_ns(), 1_000_000_000_000_000_000);
        assert_eq!(clock.wait(1_000_000_005_000_000_000), None);
        assert_eq!(clock.now_ns(), 1_000_000_005_000_000_000);
        clock.worked();
        assert_eq!(clock.now_ns(), 1_000_000_005_000_000_000 + ROUND_NS);
    }

    #[test]
    fn faster_time_makes_waits_shorter() {
        let mut clock = Clock::real();
        clock.set_pace(Pace::Linear(10.0));
        let left = clock.wait(clock.now_ns() + 1_000_000_000).unwrap();
        assert!(left <= Duration::from_millis(100) && left > Duration::from_millis(50));
        clock.set_pace(Pace::NoWait);
        assert_eq!(clock.wait(clock.now_ns() + 1_000_000_000), None);
    }
}
