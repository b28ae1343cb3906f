//! Durations of turns of the loop: other requests wait during a turn.

use std::cell::Cell;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A turn of more CPU time than this counts as long.
const LONG: Duration = Duration::from_millis(5);

/// After this CPU time, further requests have their turn after other work.
const ENOUGH: Duration = Duration::from_millis(2);

/// A turn that has begun, with the CPU time of this thread after each of its parts.
pub(super) struct Turn {
    begun: Duration,
    last: Duration,
    longest: Part,
}

/// A part of a turn.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    took: Duration,
}

const NO_PART: Part = Part { name: "", took: Duration::ZERO };

impl Part {
    /// Another part has been, which may be longer.
    fn and(self, name: &'static str, took: Duration) -> Part {
        if took > self.took { Part { name, took } } else { self }
    }
}

impl Turn {
    /// Begins one.
    pub(super) fn begin() -> Self {
        Self::begun_at(spent())
    }

    fn begun_at(now: Duration) -> Self {
        Self { begun: now, last: now, longest: NO_PART }
    }

    /// A part of it has ended.
    pub(super) fn did(&mut self, part: &'static str) {
        self.did_until(part, spent());
    }

    /// Whether further requests are left for the next turn.
    pub(super) fn is_enough(&self) -> bool {
        self.last.saturating_sub(self.begun) > ENOUGH
    }

    fn did_until(&mut self, part: &'static str, now: Duration) {
        self.longest = self.longest.and(part, now.saturating_sub(self.last));
        self.last = now;
    }
}

/// All turns.
pub(super) struct Turns {
    /// Long ones.
    long: u64,
    longest: Duration,
    /// The longest piece of the change under way, in the present turn.
    piece: Cell<Part>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { long: 0, longest: Duration::ZERO, piece: Cell::new(NO_PART) }
    }
}

impl Turns {
    /// A turn has ended.
    pub(super) fn note(&mut self, turn: &Turn) {
        let took = turn.last.saturating_sub(turn.begun);
        let piece = self.piece.replace(NO_PART);
        self.longest = self.longest.max(took);
        if took > LONG {
            self.long += 1;
            let (name, of_part) = (turn.longest.name, turn.longest.took.as_micros());
            let of_piece = piece.took.as_micros();
            let took = took.as_micros();
            tracing::info!(
                "a turn of the loop took {took} us, of which {name} {of_part} us, of which {} \
                 {of_piece} us",
                piece.name
            );
        }
    }

    /// A piece of the change under way begins.
    pub(super) fn piece() -> Piece {
        Piece(spent())
    }

    /// A piece of the change under way has ended.
    pub(super) fn did(&self, name: &'static str, piece: Piece) {
        self.piece.set(self.piece.get().and(name, spent().saturating_sub(piece.0)));
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

/// A piece of the change under way: the CPU time at its begin.
pub(super) struct Piece(Duration);

fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn long_turns_are_counted_and_the_longest_is_kept() {
        let mut turns = Turns::default();
        for (took, long, longest) in [(1, 0, 1), (5, 0, 5), (6, 1, 6), (2, 1, 6), (9, 2, 9)] {
            let mut turn = Turn::begun_at(ms(100));
            turn.did_until("a request", ms(100 + took));
            turns.note(&turn);
            assert_eq!((turns.long(), turns.longest_us()), (long, longest * 1000));
        }
    }

    #[test]
    fn a_turn_knows_its_longest_part() {
        let mut turn = Turn::begun_at(ms(7));
        for (part, until) in [("answers", 8), ("the watch", 12), ("a request", 14), ("pools", 14)] {
            turn.did_until(part, ms(until));
        }
        assert_eq!((turn.longest.name, turn.longest.took), ("the watch", ms(4)));
        assert!(turn.is_enough());
        let mut short = Turn::begun_at(ms(7));
        short.did_until("a request", ms(9));
        assert!(!short.is_enough());
    }

    #[test]
    fn time_is_that_of_the_thread() {
        let turn = Turn::begin();
        std::thread::sleep(ms(60));
        let mut sum = 0_u64;
        let mut slept = turn.begun;
        while slept == turn.begun || sum < 1000 {
            sum += 1;
            slept = spent();
        }
        assert!(slept.saturating_sub(turn.begun) < ms(50), "sleep counts");
    }
}
