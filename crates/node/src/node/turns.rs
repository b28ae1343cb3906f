//! How long turns of the loop take: other requests wait meanwhile.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A turn of more CPU time than this counts as long.
const LONG: Duration = Duration::from_millis(5);

/// A turn that has begun, with the CPU time of this thread after each of its parts.
pub(super) struct Turn {
    begun: Duration,
    last: Duration,
    /// The longest part.
    longest: (&'static str, Duration),
}

impl Turn {
    /// Begins one.
    pub(super) fn begin() -> Self {
        let now = spent();
        Self { begun: now, last: now, longest: ("", Duration::ZERO) }
    }

    /// A part of it has ended.
    pub(super) fn did(&mut self, part: &'static str) {
        let now = spent();
        let took = now.saturating_sub(self.last);
        if took > self.longest.1 {
            self.longest = (part, took);
        }
        self.last = now;
    }
}

/// All turns.
#[derive(Default)]
pub(super) struct Turns {
    /// Long ones.
    long: u64,
    longest: Duration,
}

impl Turns {
    /// A turn has ended.
    pub(super) fn note(&mut self, turn: &Turn) {
        let took = turn.last.saturating_sub(turn.begun);
        self.longest = self.longest.max(took);
        if took > LONG {
            self.long += 1;
            let (part, of_part) = turn.longest;
            let (took, of_part) = (took.as_micros(), of_part.as_micros());
            tracing::info!("a turn of the loop took {took} us, of which {part} {of_part} us");
        }
    }

    /// How many were long.
    pub(super) fn long(&self) -> u64 {
        self.long
    }

    /// The longest, in microseconds.
    pub(super) fn longest_us(&self) -> u64 {
        u64::try_from(self.longest.as_micros()).unwrap_or(u64::MAX)
    }
}

fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
