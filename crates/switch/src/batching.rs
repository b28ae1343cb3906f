//! How many frames leave a port at once, and which way.
//!
//! A kick costs 16 µs whatever it carries, a frame of it 85 ns; a frame by the socket
//! costs about 1.4 µs. Few frames therefore leave by the socket, sooner and cheaper,
//! many by a kick, but for segments of TCP that the device takes merged ([`crate::train`]):
//! forty of them are one packet for the socket, and one for whoever receives it. A kick never carries more than [`KICK_TIME`] of the port's rate:
//! live frames give no back-pressure, what the device cannot take is lost.

use std::time::{Duration, Instant};

use crate::orders::Ways;

/// Time of the port's rate that one kick may carry.
const KICK_TIME: Duration = Duration::from_micros(200);
/// Most frames of a kick. More would only make others wait.
pub(crate) const MAX_KICK_FRAMES: u32 = 1024;
const MIN_KICK_FRAMES: u32 = 32;
/// Up to so many frames leave by the socket.
pub(crate) const SOCKET_FRAMES: usize = 8;
/// How long a port must have been quiet before its frames take the socket after kicks, where the
/// two ways do not join: nobody says when a device has sent live frames.
const QUIET: Duration = Duration::from_millis(1);
/// Soft interrupts that take longer are put off (the kernel's `MAX_SOFTIRQ_TIME` is 2 ms): after a kick
/// that took less everything that it sent to a veth has been received.
const NOT_PUT_OFF: Duration = Duration::from_millis(1);
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
    /// All that waits goes this way, not only what can go no other.
    pub(crate) all: bool,
}

/// What a port's device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Frames may leave live.
    pub(crate) live: bool,
    pub(crate) ways: Ways,
    /// It cuts merged segments.
    pub(crate) segments: bool,
}

/// What waits for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) frames: usize,
    /// The first one can leave live.
    pub(crate) first_fits_live: bool,
    /// The first ones are segments that can be merged.
    pub(crate) stream: bool,
}

/// The state of that decision for one port.
pub(crate) struct Batching {
    pub(crate) rate_bits: Option<u64>,
    abilities: Abilities,
    /// Learned from the device's drop counters.
    pub(crate) kick_frames: u32,
    last_way: Way,
    last_sent: Option<Instant>,
    /// What went live last has been received, if the device is a veth.
    settled: bool,
    learned: Option<Instant>,
    drops_seen: u64,
}

impl Batching {
    pub(crate) fn new(rate_bits: Option<u64>, abilities: Abilities) -> Self {
        Self {
            rate_bits,
            abilities,
            kick_frames: MAX_KICK_FRAMES,
            last_way: Way::Socket,
            last_sent: None,
            settled: true,
            learned: None,
            drops_seen: 0,
        }
    }

    /// What may leave now. `None` while the way must not change. `is_out` says whether all that
    /// was sent by the socket has left it.
    pub(crate) fn plan(
        &self,
        waiting: Waiting,
        now: Instant,
        is_out: impl FnOnce() -> bool,
    ) -> Option<Plan> {
        let Waiting { frames, first_fits_live, stream } = waiting;
        let Abilities { live, ways, .. } = self.abilities;
        let all_by_socket = !live || stream || frames <= SOCKET_FRAMES;
        let wanted = if all_by_socket || !first_fits_live { Way::Socket } else { Way::Live };
        let may_change = || {
            let has_left = match (ways, self.last_way) {
                (Ways::Join, _) => true,
                (Ways::Settle, Way::Live) => self.settled,
                (Ways::Part, Way::Live) => false,
                (Ways::Settle | Ways::Part, Way::Socket) => is_out(),
            };
            has_left || self.last_sent.is_none_or(|last| now.duration_since(last) >= QUIET)
        };
        let way = if wanted == self.last_way || may_change() {
            wanted
        } else if self.last_way == Way::Live && (stream || !first_fits_live) {
            return None;
        } else {
            self.last_way
        };
        let frames = match way {
            Way::Live => self.kick_frames as usize,
            Way::Socket => crate::socket::BATCH,
        };
        let all = way == Way::Live || all_by_socket || first_fits_live;
        Some(Plan { way, frames, bytes: self.bytes(), all })
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
        (self.bytes() as u64, self.abilities.ways != Ways::Part)
    }

    /// No live frames from now on.
    pub(crate) fn stop_live(&mut self) {
        self.abilities.live = false;
    }

    /// Whether the device cuts merged segments.
    pub(crate) fn segments(&self) -> bool {
        self.abilities.segments
    }

    /// Nothing is merged from now on.
    pub(crate) fn stop_segments(&mut self) {
        self.abilities.segments = false;
    }

    /// Notes that frames have left.
    pub(crate) fn sent(&mut self, way: Way, now: Instant) {
        self.last_way = way;
        self.last_sent = Some(now);
        self.settled = false;
    }

    /// Notes that a kick has taken all that was to leave live, and how long it took.
    pub(crate) fn kicked(&mut self, took: Duration) {
        self.settled = took < NOT_PUT_OFF;
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

    const VETH: Abilities = Abilities { live: true, ways: Ways::Join, segments: true };
    const CARD: Abilities = Abilities { ways: Ways::Part, ..VETH };
    const LONG: Waiting = Waiting { frames: 1000, first_fits_live: false, stream: false };

    fn frames(frames: usize) -> Waiting {
        Waiting { frames, first_fits_live: true, stream: false }
    }

    #[test]
    fn few_frames_take_the_socket_many_the_kick() {
        let now = Instant::now();
        let port = Batching::new(None, VETH);
        let way = |waiting| port.plan(waiting, now, || false).unwrap().way;
        assert_eq!(way(frames(SOCKET_FRAMES)), Way::Socket);
        assert_eq!(way(frames(SOCKET_FRAMES + 1)), Way::Live);
        assert_eq!(way(LONG), Way::Socket, "too long for live");
        let generic = Batching::new(None, Abilities { live: false, ..VETH });
        assert_eq!(generic.plan(frames(1000), now, || false).unwrap().way, Way::Socket);
    }

    #[test]
    fn where_ways_do_not_join_they_change_only_when_nothing_is_on_the_other_one() {
        let start = Instant::now();
        let (soon, later) = (start + Duration::from_micros(10), start + QUIET);
        let mut port = Batching::new(None, CARD);
        let plan = |port: &Batching, waiting, now, is_out| {
            port.plan(waiting, now, || is_out).map(|plan| (plan.way, plan.all))
        };
        port.sent(Way::Live, start);
        port.kicked(Duration::ZERO);
        assert_eq!(plan(&port, frames(1), soon, true), Some((Way::Live, true)));
        assert_eq!(plan(&port, LONG, soon, true), None, "a long frame waits");
        assert_eq!(plan(&port, LONG, later, true), Some((Way::Socket, false)));
        port.sent(Way::Socket, start);
        let many = frames(1000);
        assert_eq!(plan(&port, many, soon, false), Some((Way::Socket, true)), "and none waits");
        assert_eq!(plan(&port, many, soon, true), Some((Way::Live, true)));
        assert_eq!(plan(&port, many, later, false), Some((Way::Live, true)));
        // A veth's peer has what a kick has sent, if that did not take long.
        for (took, way) in [(Duration::ZERO, Way::Socket), (NOT_PUT_OFF, Way::Live)] {
            let mut port = Batching::new(None, Abilities { ways: Ways::Settle, ..VETH });
            port.sent(Way::Live, start);
            assert_eq!(plan(&port, frames(1), soon, true), Some((Way::Live, true)), "not kicked");
            port.kicked(took);
            assert_eq!(plan(&port, frames(1), soon, true), Some((way, true)), "{took:?}");
        }
    }

    #[test]
    fn a_stream_leaves_by_the_socket_and_waits_until_it_may() {
        let now = Instant::now();
        let stream = Waiting { stream: true, ..frames(1000) };
        let way = |port: &Batching| Some(port.plan(stream, now, || false)?.way);
        let mut port = Batching::new(None, VETH);
        port.sent(Way::Live, now);
        assert_eq!(way(&port), Some(Way::Socket));
        let mut card = Batching::new(None, CARD);
        card.sent(Way::Live, now);
        assert_eq!(way(&card), None);
        card.sent(Way::Socket, now);
        assert_eq!(way(&card), Some(Way::Socket));
    }

    #[test]
    fn a_kick_carries_200_microseconds_of_the_rate() {
        let port = Batching::new(Some(1_000_000_000), VETH);
        assert_eq!(port.plan(frames(1000), Instant::now(), || false).unwrap().bytes, 25_000);
    }

    #[test]
    fn drops_halve_kicks_and_quiet_times_grow_them() {
        let now = Instant::now();
        let mut port = Batching::new(None, VETH);
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
