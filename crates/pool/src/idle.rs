//! Adaptive polling: what a poller does when it finds nothing to do.
//!
//! A burst is followed by a nap: more is on its way, it gathers meanwhile, and whoever
//! shares the core (often the other end of our rings) has its turn. Yielding does not
//! do: the scheduler is fair, and gives the core back to a poller that has used less
//! of it than the one that it waits for (measured: half of a shared core lost).
//! After a few packets, a poller looks on for a while, so that the next one does not
//! have to wake it; then it sleeps.

use std::time::{Duration, Instant};

/// So many packets between two rests are a burst.
const BURST: u64 = 32;
/// So many naps follow a burst, until something comes.
const NAPS: u32 = 3;
/// How long a nap is.
pub const NAP: Duration = Duration::from_micros(30);
/// How long a poller looks on after its last packet: about what it takes to sleep, be
/// woken, and be back.
const LOOK_ON: Duration = Duration::from_micros(250);

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Let others on this core run, and look again.
    Yield,
    /// Look again after [`NAP`].
    Nap,
    /// Sleep until woken.
    Sleep,
}

/// Decides when a poller rests, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    burst: u64,
    naps: u32,
    since: Option<Instant>,
}

impl Idle {
    /// Notes that there was something to do: `packets`, or something else.
    pub fn worked(&mut self, packets: u64) {
        self.burst += packets;
        self.since = None;
    }

    /// There is nothing to do at time `now`.
    pub fn rest(&mut self, now: Instant) -> Rest {
        if std::mem::take(&mut self.burst) >= BURST {
            self.naps = NAPS;
        }
        if self.naps > 0 {
            self.naps -= 1;
            return Rest::Nap;
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < LOOK_ON { Rest::Yield } else { Rest::Sleep }
    }

    /// Notes that the poller has slept.
    pub fn woken(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_nap_trickles_look_on_silence_sleeps() {
        let start = Instant::now();
        let mut idle = Idle::default();
        idle.worked(BURST);
        for _ in 0..NAPS {
            assert_eq!(idle.rest(start), Rest::Nap);
        }
        assert_eq!(idle.rest(start + NAP), Rest::Yield, "nothing came");
        assert_eq!(idle.rest(start + NAP + LOOK_ON), Rest::Sleep);
        idle.woken();
        idle.worked(1);
        let later = start + Duration::from_secs(1);
        assert_eq!(idle.rest(later), Rest::Yield);
        idle.worked(1);
        assert_eq!(idle.rest(later + LOOK_ON), Rest::Yield, "a packet starts it anew");
        assert_eq!(idle.rest(later + LOOK_ON * 2), Rest::Sleep);
    }
}
