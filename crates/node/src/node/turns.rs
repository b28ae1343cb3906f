//! How long turns of the loop take: other requests wait meanwhile.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A turn of more CPU time than this counts as long.
const LONG: Duration = Duration::from_millis(5);

/// A turn that has begun: the CPU time of this thread.
pub(super) struct Turn(Duration);

impl Turn {
    /// Begins one.
    pub(super) fn begin() -> Self {
        Self(spent())
    }
}

/// All turns.
#[derive(Default)]
pub(super) struct Turns {
    /// Long ones.
    pub(super) long: u64,
    longest: Duration,
}

impl Turns {
    /// A turn has ended.
    pub(super) fn note(&mut self, Turn(begun): Turn) {
        let took = spent().saturating_sub(begun);
        self.longest = self.longest.max(took);
        if took > LONG {
            self.long += 1;
            tracing::debug!("a turn of the loop took {} us", took.as_micros());
        }
    }

    /// The longest, in microseconds.
    pub(super) fn longest_us(&self) -> u64 {
        u64::try_from(self.longest.as_micros()).unwrap_or(u64::MAX)
    }
}

fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
