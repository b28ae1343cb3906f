//! Stores that other CPUs cannot see yet.
//!
//! The sleeper sets its flag, then checks the ring; the publisher writes the ring, then reads the
//! flag. This is correct only if the write is visible before the flag is read. Receive programs and
//! DPDK omit the fence for this, which would cost 10 to 100 ns for each packet: their processor may
//! read the flag while their stores are still in its buffer. So the sleeper keeps checking for
//! longer than stores can stay in that buffer.

use std::time::{Duration, Instant};

/// A processor makes buffered stores visible within some hundred nanoseconds, and at the latest
/// when it is interrupted. In 300 cases where DPDK 22.11 sent no interrupt right after it was
/// requested, about one in a hundred, the delay was 0.9 µs at most.
pub const UNSEEN: Duration = Duration::from_micros(4);

/// Whether an entry is there now, or appears because of an earlier store.
pub fn look_on(mut is_there: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        // The last check comes after that time, even if the process loses its core meanwhile.
        let is_last = begun.elapsed() >= UNSEEN;
        if is_there() {
            return true;
        }
        if is_last {
            return false;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_nothing_more_can_come_and_once_after_that() {
        let begun = Instant::now();
        let mut last = begun;
        assert!(!look_on(|| {
            last = Instant::now();
            false
        }));
        assert!(last - begun >= UNSEEN);
        let mut looks = 0;
        assert!(look_on(|| {
            looks += 1;
            looks == 2
        }));
    }
}
