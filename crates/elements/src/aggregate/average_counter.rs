//! # AverageCounter
//!
//! ## Synopsis
//! `AverageCounter([IGNORE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Counts packets and bytes, and measures their rates from the first packet to the last.
//!
//! ## Arguments
//! - IGNORE: seconds after the first packet that are not measured; default 0.
//!
//! ## Handlers
//! - `count`, `byte_count` (read): packets and bytes.
//! - `rate`, `byte_rate` (read): the same a second.
//! - `reset` (write): starts anew.
//!
//! ## See also
//! `Counter`

use crate::prelude::*;

/// Measures rates.
#[derive(Default)]
pub(crate) struct AverageCounter {
    ignore_ns: u64,
    count: u64,
    byte_count: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Class for AverageCounter {
    const INFO: ClassInfo = ClassInfo::new("AverageCounter", "1/1").processing("a/a");
}

impl AverageCounter {
    fn rate(&self, count: u64) -> f64 {
        let begun = self.first_ns.unwrap_or(0).saturating_add(self.ignore_ns);
        let gone = self.last_ns.saturating_sub(begun);
        if gone == 0 { 0.0 } else { count as f64 * 1e9 / gone as f64 }
    }
}

impl Element for AverageCounter {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let seconds: u32 = arguments.positional("IGNORE")?.unwrap_or(0);
        self.ignore_ns = u64::from(seconds) * 1_000_000_000;
        arguments.finish()
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if batch.is_empty() {
            return;
        }
        let now_ns = context.now_ns();
        let first_ns = *self.first_ns.get_or_insert(now_ns);
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
        button "reset" => {
            let ignore_ns = this.ignore_ns;
            *this = AverageCounter { ignore_ns, ..AverageCounter::default() };
        };
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
        bench.router.write("e.reset", "").unwrap();
        assert_eq!(bench.router.read("e.rate", ""), Ok("0".into()));
    }
}
