//! Copies a program's output into its log. A program that floods its log loses the rest, because
//! all logs share the node's disk.

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Bytes a second that a program may print for long.
const BYTES_PER_SECOND: u64 = 1 << 20;
/// Bytes of a burst of output.
const BURST_BYTES: u64 = 4 << 20;

/// Passes on the permitted output, and adds how much was left out.
pub(crate) struct Output<W> {
    to: W,
    /// Bytes that may be printed now.
    allowed: u64,
    since: Instant,
    left_out: u64,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(to: W, now: Instant) -> Self {
        Self { to, allowed: BURST_BYTES, since: now, left_out: 0 }
    }

    /// Passes on `bytes`, as many as allowed. A log that cannot be written is no reason to end.
    pub(crate) fn pass(&mut self, bytes: &[u8], now: Instant) {
        self.earn(now);
        let length = bytes.len() as u64;
        if length > self.allowed {
            self.left_out += length;
            return;
        }
        self.tell_left_out();
        self.allowed -= length;
        let _ = self.to.write_all(bytes);
    }

    /// Whether `bytes` would be too much now.
    pub(crate) fn is_used_up(&mut self, bytes: usize, now: Instant) -> bool {
        self.earn(now);
        self.allowed < bytes as u64
    }

    fn earn(&mut self, now: Instant) {
        let passed = now.duration_since(self.since);
        let earned = passed.as_micros() as u64 * BYTES_PER_SECOND / 1_000_000;
        if earned > 0 {
            self.allowed = (self.allowed + earned).min(BURST_BYTES);
            self.since = now;
        }
    }

    /// Reports how much was left out since the last report.
    pub(crate) fn tell_left_out(&mut self) {
        let bytes = std::mem::take(&mut self.left_out);
        if bytes > 0 {
            let limit = BYTES_PER_SECOND >> 20;
            let _: io::Result<()> = writeln!(
                self.to,
                "\neuropa: {bytes} bytes were left out here: more than {limit} MB a second"
            );
        }
    }
}

/// Time for which a flood stays in its pipe if nothing may be printed: reading and dropping it
/// would use a core.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_a_burst_and_a_rate() {
        let begun = Instant::now();
        let mut output = Output::new(Vec::new(), begun);
        let chunk = vec![b'x'; 1 << 16];
        for _ in 0..1000 {
            output.pass(&chunk, begun);
        }
        assert_eq!(output.to.len() as u64, BURST_BYTES);
        output.to.clear();
        for ms in 1..=2000 {
            for _ in 0..10 {
                output.pass(&chunk, begun + Duration::from_millis(ms));
            }
        }
        let printed = output.to.iter().filter(|byte| **byte == b'x').count() as u64;
        assert!((2 * BYTES_PER_SECOND).abs_diff(printed) <= 1 << 16, "{printed}");
        output.to.clear();
        let later = begun + Duration::from_secs(10);
        output.pass(b"calm\n", later);
        let text = String::from_utf8_lossy(&output.to).into_owned();
        assert!(text.starts_with("\neuropa: ") && text.ends_with(" a second\ncalm\n"), "{text}");
        output.to.clear();
        output.pass(b"again\n", later);
        assert_eq!(output.to, b"again\n");
    }
}
