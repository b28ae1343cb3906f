//! Adaptive polling: what a poller does when it finds nothing to do.
//!
//! A burst is followed by a nap: more is on its way, it gathers meanwhile, and whoever
//! shares the core (often the other end of our rings) has its turn. Yielding does not
//! do: the scheduler is fair, and gives the core back to a poller that has used less
//! of it than the one that it waits for (measured: half of a shared core lost).
//! After a few packets, a poller looks on for a while, so that the next one does not
//! have to wake it, but only where that has been worth it: when it was woken soon after it
//! had gone to sleep, a few times in a row. Otherwise it sleeps at once: the other end, or
//! whoever waits for the answer, may want this very core, and the scheduler does not take it
//! from a poller (measured: three times 190 µs of a ping's 670 on a machine with one core left).

use std::time::{Duration, Instant};

/// So many packets between two rests are a burst.
const BURST: u64 = 32;
/// So many naps follow a burst, until something comes.
const NAPS: u32 = 8;
/// How long a nap is.
pub(crate) const NAP: Duration = Duration::from_micros(30);
/// How long a poller looks on after its last packet: about what it takes to sleep, be
/// woken, and be back.
const LOOK_ON: Duration = Duration::from_micros(250);
/// How long it looks on after it was woken, if only few packets come: until an answer is
/// back. Whoever waits for the answer may need this very core, and the scheduler does not
/// take it from a poller at once.
const LOOK_ON_FEW: Duration = Duration::from_micros(180);
/// So many packets are few.
const FEW: u64 = 4;
/// A poller that had something to do, slept, and was woken within [`LOOK_ON`], so many times in
/// a row, should have looked on. An answer and its way back are two such times.
const TOO_SOON: u32 = 8;

/// A poller that looks on yields every so many times: a yield is a system call, and takes
/// several times as long as a look.
const LOOKS: u32 = 8;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Look again at once.
    Look,
    /// Let others on this core run, and look again.
    Yield,
    /// Look again after `NAP`.
    Nap,
    /// Sleep until woken.
    Sleep,
}

/// Decides when a poller rests, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    burst: u64,
    naps: u32,
    looks: u32,
    /// Packets since it slept.
    packets: u64,
    /// How often in a row it was woken soon.
    soon: u32,
    /// When it found nothing for the first time: since it slept, and since something came.
    first: Option<Instant>,
    since: Option<Instant>,
}

impl Idle {
    /// Notes that there was something to do: `packets`, or something else.
    pub fn worked(&mut self, packets: u64) {
        self.burst += packets;
        self.packets += packets;
        self.since = None;
    }

    /// There is nothing to do at time `now`.
    pub fn rest(&mut self, now: Instant) -> Rest {
        if std::mem::take(&mut self.burst) >= BURST {
            self.naps = NAPS + 1;
        }
        match self.naps {
            0 => {}
            1 => return Rest::Sleep,
            _ => {
                self.naps -= 1;
                return Rest::Nap;
            }
        }
        let first = *self.first.get_or_insert(now);
        let since = *self.since.get_or_insert(now);
        let over = match self.packets <= FEW {
            true => self.soon < TOO_SOON || now.duration_since(first) >= LOOK_ON_FEW,
            false => now.duration_since(since) >= LOOK_ON,
        };
        if over {
            return Rest::Sleep;
        }
        self.looks = (self.looks + 1) % LOOKS;
        if self.looks == 0 { Rest::Yield } else { Rest::Look }
    }

    /// Notes that the poller has slept for a time.
    pub fn woken(&mut self, slept: Duration) {
        let soon = match slept < LOOK_ON {
            true => self.soon.saturating_add(u32::from(self.packets > 0)),
            false => 0,
        };
        *self = Self { soon, ..Self::default() };
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
        assert_eq!(idle.rest(start + NAP), Rest::Sleep, "nothing came");
        idle.woken(LOOK_ON);
        idle.worked(FEW + 1);
        let later = start + Duration::from_secs(1);
        let looks: Vec<Rest> = (0..LOOKS).map(|_| idle.rest(later)).collect();
        assert_eq!(looks.iter().filter(|rest| **rest == Rest::Yield).count(), 1);
        assert_eq!(looks.iter().filter(|rest| **rest == Rest::Look).count(), LOOKS as usize - 1);
        idle.worked(1);
        assert_eq!(idle.rest(later + LOOK_ON), Rest::Look, "a packet starts it anew");
        assert_eq!(idle.rest(later + LOOK_ON * 2), Rest::Sleep);
        idle.woken(LOOK_ON);
        for _ in 0..TOO_SOON {
            idle.worked(1);
            assert_eq!(idle.rest(later), Rest::Sleep, "nobody waits for it");
            idle.woken(NAP);
        }
        idle.worked(1);
        assert_eq!(idle.rest(later), Rest::Look, "it came soon");
        idle.worked(1);
        assert_eq!(idle.rest(later + LOOK_ON_FEW), Rest::Sleep, "few do not start it anew");
    }
}
