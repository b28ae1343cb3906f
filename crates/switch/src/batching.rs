//! How many frames leave a port at once, and which way.
//!
//! A kick costs 16 µs whatever it carries, a frame of it 85 ns; a frame by the socket
//! costs about 1.4 µs. Few frames therefore leave by the socket, sooner and cheaper,
//! many by a kick. A kick never carries more than [`KICK_TIME`] of the port's rate:
//! live frames give no back-pressure, what the device cannot take is lost.

use std::time::{Duration, Instant};

/// Time of the port's rate that one kick may carry.
const KICK_TIME: Duration = Duration::from_micros(200);
/// Most frames of a kick. More would only make others wait.
pub(crate) const MAX_KICK_FRAMES: u32 = 1024;
const MIN_KICK_FRAMES: u32 = 32;
/// Up to so many frames leave by the socket.
pub(crate) const SOCKET_FRAMES: usize = 8;
/// How long a port must have been quiet before its frames take the other way, where
/// the two ways do not join in one queue.
const QUIET: Duration = Duration::from_millis(1);
/// How often a port's drop counters are read while it is busy.
const LEARN_EVERY: Duration = Duration::from_millis(50);

/// One of the two ways out of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Transmit list and kick.
    Live,
    /// `sendmmsg` on a packet socket.
    Socket,
}

/// What may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

/// The state of that decision for one port.
pub(crate) struct Batching {
    pub(crate) rate_bits: Option<u64>,
    live: bool,
    ways_join: bool,
    /// Learned from the device's drop counters.
    pub(crate) kick_frames: u32,
    last_way: Way,
    last_sent: Option<Instant>,
    learned: Option<Instant>,
    drops_seen: u64,
}

impl Batching {
    pub(crate) fn new(rate_bits: Option<u64>, live: bool, ways_join: bool) -> Self {
        Self {
            rate_bits,
            live,
            ways_join,
            kick_frames: MAX_KICK_FRAMES,
            last_way: Way::Socket,
            last_sent: None,
            learned: None,
            drops_seen: 0,
        }
    }

    /// What may leave now of `waiting` frames, the first of which can or cannot go
    /// live. `None` while the way must not change.
    pub(crate) fn plan(&self, waiting: usize, first_fits_live: bool, now: Instant) -> Option<Plan> {
        let wanted = if !self.live || !first_fits_live || waiting <= SOCKET_FRAMES {
            Way::Socket
        } else {
            Way::Live
        };
        let quiet = self.last_sent.is_none_or(|last| now.duration_since(last) >= QUIET);
        let way = if self.ways_join || quiet || wanted == self.last_way {
            wanted
        } else if self.last_way == Way::Live && !first_fits_live {
            return None;
        } else {
            self.last_way
        };
        let frames = match way {
            Way::Live => self.kick_frames as usize,
            Way::Socket => crate::socket::BATCH,
        };
        Some(Plan { way, frames, bytes: self.bytes() })
    }

    /// Bytes that may leave at once.
    fn bytes(&self) -> usize {
        match self.rate_bits {
            Some(bits) => (bits as u128 * KICK_TIME.as_nanos() / 8_000_000_000) as usize,
            None => usize::MAX,
        }
    }

    /// Bytes of a batch, and whether the device takes the next one whenever it comes: where both
    /// ways join in a queue of the kernel's, the receiver has the packets at once.
    pub(crate) fn most(&self) -> (u64, bool) {
        (self.bytes() as u64, self.ways_join)
    }

    /// Whether live frames may leave at all.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// No live frames from now on.
    pub(crate) fn stop_live(&mut self) {
        self.live = false;
    }

    /// Notes that frames have left.
    pub(crate) fn sent(&mut self, way: Way, now: Instant) {
        self.last_way = way;
        self.last_sent = Some(now);
    }

    /// Whether it is time to look at the device's drop counters: it has been kicked to.
    pub(crate) fn wants_to_learn(&self, now: Instant) -> bool {
        self.last_way == Way::Live
            && self.learned.is_none_or(|at| now.duration_since(at) >= LEARN_EVERY)
    }

    /// Adapts the size of kicks to what the device has lost in all.
    pub(crate) fn learn(&mut self, drops: u64, now: Instant) {
        if self.learned.is_some() {
            self.kick_frames = if drops > self.drops_seen {
                (self.kick_frames / 2).max(MIN_KICK_FRAMES)
            } else {
                (self.kick_frames + 16).min(MAX_KICK_FRAMES)
            };
        }
        self.drops_seen = drops;
        self.learned = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_frames_take_the_socket_many_the_kick() {
        let now = Instant::now();
        let port = Batching::new(None, true, true);
        let way = |waiting, fits| port.plan(waiting, fits, now).unwrap().way;
        assert_eq!(way(SOCKET_FRAMES, true), Way::Socket);
        assert_eq!(way(SOCKET_FRAMES + 1, true), Way::Live);
        assert_eq!(way(1000, false), Way::Socket, "too long for live");
        let generic = Batching::new(None, false, true);
        assert_eq!(generic.plan(1000, true, now).unwrap().way, Way::Socket);
    }

    #[test]
    fn where_ways_do_not_join_they_change_only_when_it_is_quiet() {
        let start = Instant::now();
        let mut port = Batching::new(None, true, false);
        port.sent(Way::Live, start);
        let soon = start + Duration::from_micros(10);
        assert_eq!(port.plan(1, true, soon).unwrap().way, Way::Live);
        assert_eq!(port.plan(1, false, soon), None, "a long frame waits");
        let later = start + QUIET;
        assert_eq!(port.plan(1, false, later).unwrap().way, Way::Socket);
        port.sent(Way::Socket, later);
        assert_eq!(port.plan(1000, true, later).unwrap().way, Way::Socket);
    }

    #[test]
    fn a_kick_carries_200_microseconds_of_the_rate() {
        let port = Batching::new(Some(1_000_000_000), true, true);
        assert_eq!(port.plan(1000, true, Instant::now()).unwrap().bytes, 25_000);
    }

    #[test]
    fn drops_halve_kicks_and_quiet_times_grow_them() {
        let now = Instant::now();
        let mut port = Batching::new(None, true, true);
        port.learn(5, now);
        assert_eq!(port.kick_frames, MAX_KICK_FRAMES, "what was lost before is not ours");
        port.learn(6, now);
        assert_eq!(port.kick_frames, MAX_KICK_FRAMES / 2);
        for _ in 0..20 {
            port.learn(1000 + u64::from(port.kick_frames), now);
            port.learn(1_000_000, now);
        }
        assert!(port.kick_frames >= MIN_KICK_FRAMES);
        for _ in 0..100 {
            port.learn(1_000_000, now);
        }
        assert_eq!(port.kick_frames, MAX_KICK_FRAMES);
    }
}
