//! Chooses how many frames leave a port at once, by kick or by socket.
//!
//! A kick costs 16 µs for any number of frames, and 85 ns a frame; a frame by the socket costs
//! about 1.4 µs. So few frames are sent by the socket, sooner and cheaper, and many by a kick.
//! Segments of TCP that the device accepts merged ([`crate::train`]) are the exception: forty of
//! them are one packet for the socket, and one for the receiver. A kick never carries more than
//! [`KICK_TIME`] of the port's rate: live frames give no back-pressure, and frames that the device
//! cannot take are lost.

use std::time::{Duration, Instant};

use crate::orders::Ways;

/// Time of the port's rate that one kick may carry.
const KICK_TIME: Duration = Duration::from_micros(200);
/// Most frames of a kick: more would only make others wait.
pub(crate) const MAX_KICK_FRAMES: u32 = 1024;
const MIN_KICK_FRAMES: u32 = 32;
/// Most frames of a batch that leave by the socket.
pub(crate) const SOCKET_FRAMES: usize = 8;
/// Time for which a port must be quiet before its frames use the socket after kicks, if the kernel
/// does not report when its device has sent live frames.
const QUIET: Duration = Duration::from_millis(1);
/// Time limit for waiting for live frames: then the receiver does not run, or holds them.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time for which a device that has refused merged segments gets none; doubled after each further
/// refusal.
const REFUSED: Duration = Duration::from_secs(1);
/// Longest such time.
const LONG_REFUSED: Duration = Duration::from_secs(64);
/// Interval at which a busy port's drop counters are read.
const LEARN_EVERY: Duration = Duration::from_millis(50);

/// One of the two ways to send by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Transmit list and kick.
    Live,
    /// `sendmmsg` on a packet socket.
    Socket,
}

/// The frames that may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
    /// All waiting frames are sent this way, not only those that have no other.
    pub(crate) all: bool,
}

/// The abilities of a port's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Whether frames may be sent live.
    pub(crate) live: bool,
    pub(crate) ways: Ways,
    /// Whether it cuts merged segments.
    pub(crate) segments: bool,
}

/// The packets that wait for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) frames: usize,
    /// Whether the first frame can be sent live.
    pub(crate) first_fits_live: bool,
    /// Whether the first frames are segments that can be merged.
    pub(crate) stream: bool,
}

/// The state of that decision for one port.
pub(crate) struct Batching {
    pub(crate) rate_bits: Option<u64>,
    abilities: Abilities,
    /// Learned from the device's drop counters.
    pub(crate) kick_frames: u32,
    last_way: Way,
    last_sent: Instant,
    /// Whether live frames wait for a kick.
    in_list: bool,
    /// Until then it takes no merged segments.
    rests_until: Option<Instant>,
    /// Time for which it avoids them after a refusal.
    rests: Duration,
    learned: Option<Instant>,
    drops_seen: u64,
}

impl Batching {
    pub(crate) fn new(rate_bits: Option<u64>, abilities: Abilities) -> Self {
        Self {
            rate_bits,
            abilities,
            kick_frames: MAX_KICK_FRAMES,
            // A former switch may just have sent live frames.
            last_way: Way::Live,
            last_sent: Instant::now(),
            in_list: false,
            rests_until: None,
            rests: REFUSED,
            learned: None,
            drops_seen: 0,
        }
    }

    /// The frames that may be sent now. `None` while the way must not change. `has_left` tells
    /// whether all frames of one way have left, `None` if unknown.
    pub(crate) fn plan(
        &self,
        waiting: Waiting,
        now: Instant,
        has_left: impl FnOnce(Way) -> Option<bool>,
    ) -> Option<Plan> {
        let Waiting { frames, first_fits_live, stream } = waiting;
        let Abilities { live, ways, .. } = self.abilities;
        let all_by_socket = !live || stream || frames <= SOCKET_FRAMES;
        let wanted = if all_by_socket || !first_fits_live { Way::Socket } else { Way::Live };
        let rests = |time| now.duration_since(self.last_sent) >= time;
        let may_change = || {
            let has_left = || has_left(self.last_way).unwrap_or_else(|| rests(QUIET));
            ways == Ways::Join || !self.in_list && (has_left() || rests(PATIENCE))
        };
        let way = if wanted == self.last_way || may_change() {
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
        let all = way == Way::Live || all_by_socket || first_fits_live;
        Some(Plan { way, frames, bytes: self.bytes(), all })
    }

    /// Bytes that may leave at once; one packet may, however slow the port is.
    fn bytes(&self) -> usize {
        match self.rate_bits {
            Some(bits) => (bits as u128 * KICK_TIME.as_nanos() / 8_000_000_000).max(1) as usize,
            None => usize::MAX,
        }
    }

    /// Bytes of a batch, and whether the device accepts the next one at any time: if both ways join
    /// in a queue of the kernel, the receiver gets the packets at once.
    pub(crate) fn most(&self) -> (u64, bool) {
        (self.bytes() as u64, self.abilities.ways != Ways::Part)
    }

    /// Stops sending live frames.
    pub(crate) fn stop_live(&mut self) {
        self.abilities.live = false;
    }

    /// Whether the device cuts merged segments, as far as known.
    pub(crate) fn segments(&self, now: Instant) -> bool {
        self.abilities.segments && self.rests_until.is_none_or(|until| now >= until)
    }

    /// Notes that it refused some, which stops merging for a time.
    pub(crate) fn rest_segments(&mut self, now: Instant) -> Duration {
        let rests = self.rests;
        self.rests_until = now.checked_add(rests);
        self.rests = (2 * rests).min(LONG_REFUSED);
        rests
    }

    /// Notes that it accepted some.
    pub(crate) fn takes_segments(&mut self) {
        (self.rests_until, self.rests) = (None, REFUSED);
    }

    /// Notes that frames have left, or are in the transmit list.
    pub(crate) fn sent(&mut self, way: Way, now: Instant) {
        self.last_way = way;
        self.last_sent = now;
        self.in_list = way == Way::Live;
    }

    /// Notes that a kick has taken all that was in the transmit list.
    pub(crate) fn kicked(&mut self) {
        self.in_list = false;
    }

    /// Whether it is time to look at the device's drop counters: it has been kicked to.
    pub(crate) fn wants_to_learn(&self, now: Instant) -> bool {
        self.last_way == Way::Live
            && self.learned.is_none_or(|at| now.duration_since(at) >= LEARN_EVERY)
    }

    /// Adapts the size of kicks to the device's losses.
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

    const TAP: Abilities = Abilities { live: true, ways: Ways::Join, segments: true };
    const VETH: Abilities = Abilities { ways: Ways::Ask, ..TAP };
    const CARD: Abilities = Abilities { ways: Ways::Part, ..TAP };
    const LONG: Waiting = Waiting { frames: 1000, first_fits_live: false, stream: false };
    const STREAM: Waiting = Waiting { frames: 1000, first_fits_live: true, stream: true };

    fn frames(frames: usize) -> Waiting {
        Waiting { frames, first_fits_live: true, stream: false }
    }

    #[test]
    fn few_frames_and_streams_take_the_socket_many_the_kick() {
        let now = Instant::now();
        let port = Batching::new(None, TAP);
        let way = |waiting| port.plan(waiting, now, |_| None).unwrap().way;
        assert_eq!(way(frames(SOCKET_FRAMES)), Way::Socket);
        assert_eq!(way(frames(SOCKET_FRAMES + 1)), Way::Live);
        assert_eq!(way(LONG), Way::Socket, "too long for live");
        assert_eq!(way(STREAM), Way::Socket);
        let generic = Batching::new(None, Abilities { live: false, ..TAP });
        assert_eq!(generic.plan(frames(1000), now, |_| None).unwrap().way, Way::Socket);
    }

    /// The way and `all` for `waiting` frames, `after` the last ones were sent by `last`.
    fn planned(
        abilities: Abilities,
        last: Way,
        waiting: Waiting,
        after: Duration,
        has_left: Option<bool>,
    ) -> Option<(Way, bool)> {
        let start = Instant::now();
        let mut port = Batching::new(None, abilities);
        port.sent(last, start);
        port.kicked();
        let plan = port.plan(waiting, start + after, |way| {
            assert_eq!(way, last);
            has_left
        });
        plan.map(|plan| (plan.way, plan.all))
    }

    #[test]
    fn where_ways_do_not_join_they_change_only_when_nothing_is_on_the_other_one() {
        use Way::{Live, Socket};
        let soon = Duration::from_micros(10);
        let (many, few) = (frames(1000), frames(1));
        for (abilities, last, waiting, after, has_left, wanted) in [
            (TAP, Live, few, soon, Some(false), Some((Socket, true))),
            (VETH, Live, few, soon, Some(true), Some((Socket, true))),
            (VETH, Live, few, soon, Some(false), Some((Live, true))),
            (VETH, Live, few, 10 * QUIET, Some(false), Some((Live, true))),
            (VETH, Live, LONG, soon, Some(true), Some((Socket, false))),
            (VETH, Live, LONG, 10 * QUIET, Some(false), None),
            (VETH, Live, LONG, PATIENCE, Some(false), Some((Socket, false))),
            (VETH, Live, STREAM, soon, Some(true), Some((Socket, true))),
            // It does not wait for a change of the way.
            (VETH, Live, STREAM, soon, Some(false), Some((Live, true))),
            (VETH, Socket, STREAM, soon, Some(false), Some((Socket, true))),
            (VETH, Socket, many, soon, Some(false), Some((Socket, true))),
            (VETH, Socket, many, soon, Some(true), Some((Live, true))),
            // The kernel does not report when a card has sent live frames.
            (CARD, Live, few, soon, None, Some((Live, true))),
            (CARD, Live, few, QUIET, None, Some((Socket, true))),
            (CARD, Live, LONG, soon, None, None),
            (CARD, Live, LONG, QUIET, None, Some((Socket, false))),
            (CARD, Socket, many, soon, Some(false), Some((Socket, true))),
            (CARD, Socket, many, soon, Some(true), Some((Live, true))),
        ] {
            let plan = planned(abilities, last, waiting, after, has_left);
            assert_eq!(plan, wanted, "{abilities:?} {last:?} {waiting:?} {after:?} {has_left:?}");
        }
    }

    #[test]
    fn what_waits_for_a_kick_has_not_left() {
        let now = Instant::now();
        let mut port = Batching::new(None, VETH);
        port.sent(Way::Live, now);
        let way = |port: &Batching| port.plan(frames(1), now, |_| Some(true)).unwrap().way;
        assert_eq!(way(&port), Way::Live);
        port.kicked();
        assert_eq!(way(&port), Way::Socket);
    }

    #[test]
    fn a_kick_carries_200_microseconds_of_the_rate() {
        let port = Batching::new(Some(1_000_000_000), TAP);
        assert_eq!(port.plan(frames(1000), Instant::now(), |_| None).unwrap().bytes, 25_000);
        let slow = Batching::new(Some(1000), TAP);
        assert_eq!(slow.plan(frames(1), Instant::now(), |_| None).unwrap().bytes, 1);
    }

    #[test]
    fn a_device_that_refuses_merged_segments_is_asked_again_later_and_later() {
        let mut now = Instant::now();
        let mut port = Batching::new(None, VETH);
        assert!(port.segments(now));
        assert!(!Batching::new(None, Abilities { segments: false, ..VETH }).segments(now));
        for seconds in [1, 2, 4, 8, 16, 32, 64, 64] {
            let rests = port.rest_segments(now);
            assert_eq!(rests, Duration::from_secs(seconds));
            assert!(!port.segments(now + rests - Duration::from_millis(1)));
            now += rests;
            assert!(port.segments(now));
        }
        port.takes_segments();
        assert_eq!(port.rest_segments(now), REFUSED, "it took some since");
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
