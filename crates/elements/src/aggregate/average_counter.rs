//! # AverageCounter
//!
//! ## Synopsis
//! `AverageCounter([IGNORE, LINK_FCS, MAX, THRESHOLD])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Counts packets and bytes, and measures their rates from the first packet to the last.
//!
//! ## Arguments
//! - IGNORE: seconds after the first packet that are not measured; default 0.
//! - LINK_FCS: whether a frame's checksum, 4 bytes, counts for the link; default true.
//! - MAX (keyword): stop counting this many seconds after the first packet; default 0: never.
//! - THRESHOLD (keyword): accepted; no effect.
//!
//! ## Handlers
//! - `count`, `byte_count` (read): packets and bytes.
//! - `bit_count`, `link_count` (read): bits, and bits that a link needs: with preamble, gap between
//!   frames, and checksum.
//! - `rate`, `byte_rate`, `bit_rate`, `link_rate` (read): the same counts a second.
//! - `time` (read): seconds that were measured.
//! - `reset`, `reset_now` (write): starts again.
//!
//! ## See also
//! `Counter`

use crate::prelude::*;

/// Bytes of a link between two frames, and of a frame's checksum.
const PREAMBLE_AND_GAP: u64 = 20;
const CHECKSUM: u64 = 4;

/// Measures rates.
#[derive(Default)]
pub(crate) struct AverageCounter {
    ignore_ns: u64,
    most_ns: u64,
    /// Bytes that a link needs in addition to those of a packet.
    beside: u64,
    count: u64,
    byte_count: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Class for AverageCounter {
    const INFO: ClassInfo = ClassInfo::new("AverageCounter", "1/1").processing("a/a").inline();
}

impl AverageCounter {
    /// Nanoseconds that were measured.
    fn measured_ns(&self) -> u64 {
        let begun = self.first_ns.unwrap_or(0).saturating_add(self.ignore_ns);
        self.last_ns.saturating_sub(begun)
    }

    fn reset(&mut self) {
        let (ignore_ns, most_ns, beside) = (self.ignore_ns, self.most_ns, self.beside);
        *self = AverageCounter { ignore_ns, most_ns, beside, ..AverageCounter::default() };
    }

    /// Bits that the link needs.
    fn link_count(&self) -> u64 {
        (self.byte_count + self.count * self.beside) * 8
    }

    fn rate(&self, count: u64) -> f64 {
        let gone = self.measured_ns();
        if gone == 0 { 0.0 } else { count as f64 * 1e9 / gone as f64 }
    }
}

impl Element for AverageCounter {
    arguments! { this, given;
        let seconds = positional "IGNORE": f64 = 0.0;
        let checksum = positional "LINK_FCS": bool = true;
        let most = keyword "MAX": u32 = 0;
        keyword "THRESHOLD": u32 => _;
        then {
            // A negative number becomes 0, and a number that is too large becomes the largest.
            this.ignore_ns = (seconds * 1e9) as u64;
            this.beside = PREAMBLE_AND_GAP + if checksum { CHECKSUM } else { 0 };
            this.most_ns = if most == 0 { u64::MAX } else { u64::from(most) * 1_000_000_000 };
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if batch.is_empty() {
            return;
        }
        let now_ns = context.now_ns();
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        if now_ns - first_ns >= self.most_ns {
            return;
        }
        if now_ns - first_ns >= self.ignore_ns {
            self.count += batch.len() as u64;
            self.byte_count += batch.iter().map(|packet| packet.len() as u64).sum::<u64>();
        }
        self.last_ns = now_ns;
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "byte_count" => this.byte_count;
        read "rate" => this.rate(this.count);
        read "byte_rate" => this.rate(this.byte_count);
        read "bit_count" => this.byte_count * 8;
        read "bit_rate" => this.rate(this.byte_count * 8);
        read "link_count" => this.link_count();
        read "link_rate" => this.rate(this.link_count());
        read "time" => this.measured_ns() as f64 / 1e9;
        button "reset" => this.reset();
        button "reset_now" => this.reset();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn rates_are_averages() {
        let mut bench = Bench::new("AverageCounter", &[]);
        for second in 0..11 {
            bench.now_ns = second * 1_000_000_000;
            bench.push(0, &[b"abc"]);
        }
        assert_eq!(bench.router.read("e.rate", ""), Ok("1.1".into()));
        assert_eq!(bench.router.read("e.byte_count", ""), Ok("33".into()));
        assert_eq!(bench.router.read("e.link_count", ""), Ok((8 * 11 * 27).to_string()));
        assert_eq!(bench.router.read("e.time", ""), Ok("10".into()));
        bench.router.write("e.reset", "").unwrap();
        assert_eq!(bench.router.read("e.rate", ""), Ok("0".into()));
    }
}
