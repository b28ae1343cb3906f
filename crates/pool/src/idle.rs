//! Adaptive polling: the actions of a poller without work.
//!
//! A poller naps after a burst: more packets gather meanwhile, and the other process on the core
//! (often the other end of its rings) has its turn. Yielding is not enough: the fair scheduler
//! returns the core to a poller that has used less of it than the process that it waits for
//! (measured: half of a shared core lost). After a few packets, a poller keeps polling for a while,
//! so that the next packet need not wake it. It does so only if it was woken soon after going to
//! sleep a few times in a row. Otherwise it sleeps at once. The other end, or the process that
//! waits for the answer, may need this core, and the scheduler does not take it from a poller
//! (measured: three times 190 µs of a ping's 670 µs on a machine with one core left).
//!
//! A nap costs its core 7 µs, and 30 µs if a hundred other processes have displaced its data from
//! the caches. Naps of many busy pollers would use up their cores. So naps grow with the number of
//! pollers, as long as not too many packets gather, and no process keeps polling. Measured on two
//! cores with naps of 30 µs: ten routers reached a tenth of one router's rate, and a hundred
//! routers a fiftieth. With the longer naps, ten reached the same rate, and a hundred half of it.

use std::time::{Duration, Instant};

/// Number of packets between two rests that makes a burst.
const BURST: u64 = 32;
/// Number of naps after a burst, until something arrives.
const NAPS: u32 = 8;
/// Length of a nap with a single poller.
const NAP: Duration = Duration::from_micros(30);
/// No nap is longer.
const LONGEST_NAP: Duration = Duration::from_millis(16);
/// Time that each busy poller, beyond one for each core, adds to the naps of all.
const NAP_EACH: Duration = Duration::from_micros(200);
/// Time for which a poller keeps polling after its last packet: about the time to sleep and be
/// woken.
const LOOK_ON: Duration = Duration::from_micros(250);
/// Time for which a poller keeps polling after it was woken, if only few packets arrive: until an
/// answer can arrive. The process that waits for the answer may need this core, and the scheduler
/// does not take it from a poller at once.
const LOOK_ON_FEW: Duration = Duration::from_micros(180);
/// Number of packets that counts as few.
const FEW: u64 = 4;
/// A poller keeps polling if this many times in a row it had work, slept, and was woken within
/// [`LOOK_ON`]. A request and its answer count as two times.
const TOO_SOON: u32 = 8;

/// A poller without work yields once in this many polls: a yield is a system call, and takes
/// several times as long as a poll.
const LOOKS: u32 = 8;

/// With this many pollers for each core, a poller cannot be woken for each packet: with cold
/// caches, a wake-up takes 120 µs.
const MANY: u32 = 8;

/// Waiting times of pollers that share their cores with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The length of a nap.
    nap: Duration,
    /// Whether they may keep polling.
    looks_on: bool,
}

impl Pace {
    /// The pace for `active` pollers with recent work, `busy` pollers with much work, and this
    /// number of cores.
    pub fn among(active: u32, busy: u32, cores: u32) -> Self {
        let pollers = if active > cores.saturating_mul(MANY) { active } else { busy };
        let others = pollers.saturating_sub(cores);
        let nap = (NAP_EACH * others / cores.max(1)).clamp(NAP, LONGEST_NAP);
        Self { nap, looks_on: active <= cores }
    }

    /// Limits naps to `longest`.
    pub fn at_most(self, longest: Duration) -> Self {
        Self { nap: self.nap.min(longest), ..self }
    }

    /// The pace as one number; 0 means unknown.
    pub fn to_bits(self) -> u64 {
        (self.nap.as_nanos() as u64) << 1 | u64::from(!self.looks_on)
    }

    /// The pace from such a number.
    pub fn from_bits(bits: u64) -> Self {
        let nap = Duration::from_nanos(bits >> 1).clamp(NAP, LONGEST_NAP);
        Self { nap, looks_on: bits & 1 == 0 }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::from_bits(0)
    }
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Look again at once.
    Look,
    /// Let other processes on this core run, then poll again.
    Yield,
    /// Look again after this time.
    Nap(Duration),
    /// Sleep until woken.
    Sleep,
}

/// Decides when a poller rests, and how.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Number of packets that may gather during a nap.
    most: u64,
    /// When it rested last.
    rested: Option<Instant>,
    burst: u64,
    naps: u32,
    looks: u32,
    /// Packets since it slept.
    packets: u64,
    /// Number of successive early wake-ups.
    soon: u32,
    /// Time of the first poll without work: since the last sleep, and since the last packet.
    first: Option<Instant>,
    since: Option<Instant>,
}

impl Idle {
    /// A poller whose ring has room for a few times `most` packets.
    pub fn new(most: u64) -> Self {
        Self {
            most,
            rested: None,
            burst: 0,
            naps: 0,
            looks: 0,
            packets: 0,
            soon: 0,
            first: None,
            since: None,
        }
    }

    /// Notes that the poller had work: `packets`, or other work.
    pub fn worked(&mut self, packets: u64) {
        self.burst += packets;
        self.packets += packets;
        self.since = None;
    }

    /// There is no work at time `now`.
    pub fn rest(&mut self, now: Instant, pace: Pace) -> Rest {
        let came = std::mem::take(&mut self.burst);
        let nap = self.nap(now, came, pace.nap);
        if came >= BURST || (came > 0 && pace.nap > NAP) {
            self.naps = NAPS + 1;
        }
        match self.naps {
            0 => {}
            1 => return Rest::Sleep,
            _ => {
                self.naps -= 1;
                return Rest::Nap(nap);
            }
        }
        if !pace.looks_on {
            return Rest::Sleep;
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

    /// Notes the lack of work at time `now`: another process has to act first.
    pub fn give_way(&mut self, now: Instant, pace: Pace) -> Rest {
        Rest::Nap(self.nap(now, 0, pace.nap))
    }

    /// The length of a nap, `nap` at most, after `came` packets since the last rest.
    fn nap(&mut self, now: Instant, came: u64, nap: Duration) -> Duration {
        let before = self.rested.replace(now);
        let gathers = before.filter(|_| came > 0).map(|before| {
            let period = now.duration_since(before).as_nanos() as u64;
            Duration::from_nanos(period.saturating_mul(self.most) / came)
        });
        nap.min(gathers.unwrap_or(LONGEST_NAP)).clamp(NAP, LONGEST_NAP)
    }

    /// Notes that the poller has slept for a time.
    pub fn woken(&mut self, slept: Duration) {
        let soon = match slept < LOOK_ON {
            true => self.soon.saturating_add(u32::from(self.packets > 0)),
            false => 0,
        };
        *self = Self { soon, ..Self::new(self.most) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_nap_trickles_look_on_silence_sleeps() {
        let start = Instant::now();
        let mut idle = Idle::new(64);
        idle.worked(BURST);
        for _ in 0..NAPS {
            assert_eq!(idle.rest(start, Pace::default()), Rest::Nap(NAP));
        }
        assert_eq!(idle.rest(start + NAP, Pace::default()), Rest::Sleep, "nothing came");
        idle.woken(LOOK_ON);
        idle.worked(FEW + 1);
        let later = start + Duration::from_secs(1);
        let looks: Vec<Rest> = (0..LOOKS).map(|_| idle.rest(later, Pace::default())).collect();
        assert_eq!(looks.iter().filter(|rest| **rest == Rest::Yield).count(), 1);
        assert_eq!(looks.iter().filter(|rest| **rest == Rest::Look).count(), LOOKS as usize - 1);
        idle.worked(1);
        assert_eq!(
            idle.rest(later + LOOK_ON, Pace::default()),
            Rest::Look,
            "a packet starts it anew"
        );
        assert_eq!(idle.rest(later + LOOK_ON * 2, Pace::default()), Rest::Sleep);
        idle.woken(LOOK_ON);
        for _ in 0..TOO_SOON {
            idle.worked(1);
            assert_eq!(idle.rest(later, Pace::default()), Rest::Sleep, "nobody waits for it");
            idle.woken(NAP);
        }
        idle.worked(1);
        assert_eq!(idle.rest(later, Pace::default()), Rest::Look, "it came soon");
        idle.worked(1);
        assert_eq!(
            idle.rest(later + LOOK_ON_FEW, Pace::default()),
            Rest::Sleep,
            "few do not start it anew"
        );
    }

    #[test]
    fn many_nap_longer_until_enough_gathers() {
        let alone = Pace::default();
        assert_eq!(Pace::among(0, 0, 0), alone);
        assert_eq!(Pace::among(2, 2, 2), alone, "each has a core");
        assert_eq!(Pace::among(3, 2, 2), Pace { looks_on: false, ..alone });
        assert_eq!(Pace::among(4, 4, 2).nap, NAP_EACH);
        assert_eq!(Pace::among(16, 4, 2).nap, NAP_EACH);
        assert_eq!(Pace::among(20, 4, 2).nap, NAP_EACH * 9, "too many to be woken for each packet");
        assert_eq!(Pace::among(100_000, 100_000, 2).nap, LONGEST_NAP);
        for pace in [alone, Pace::among(3, 0, 2), Pace::among(100, 100, 2)] {
            assert_eq!(Pace::from_bits(pace.to_bits()), pace);
        }

        let pace = Pace::among(100, 100, 2);
        let crowd = pace.nap;
        let mut now = Instant::now();
        let mut idle = Idle::new(64);
        idle.worked(1);
        for _ in 0..NAPS {
            assert_eq!(idle.rest(now, pace), Rest::Nap(crowd), "few come: it waits for more");
            now += crowd;
        }
        assert_eq!(idle.rest(now, pace), Rest::Sleep);
        idle.woken(NAP);
        assert_eq!(idle.rest(now, pace), Rest::Sleep, "it does not look on");
        now += crowd;
        idle.worked(128);
        assert_eq!(idle.rest(now, pace), Rest::Nap(crowd / 2), "a ring would overflow");
        now += NAP;
        idle.worked(1000);
        assert_eq!(idle.rest(now, pace), Rest::Nap(NAP));
    }
}
