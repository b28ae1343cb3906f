//! # Meter
//!
//! ## Synopsis
//! `Meter(RATE, ...)`
//!
//! ## Ports
//! One push input; one push output more than there are rates.
//!
//! ## Description
//! Measures the rate of packets over some hundredths of a second. All packets leave by output 0
//! while the rate is below the first RATE, by output 1 while it is below the second, and so on.
//!
//! ## Arguments
//! - RATE: packets a second, rising.
//!
//! ## Handlers
//! - `rate` (read): packets a second.
//! - `meters` (read): the rates.
//!
//! ## See also
//! `BandwidthMeter`, `RatedSplitter`

use super::Average;
use crate::prelude::*;

/// Sorts traffic by its rate.
#[derive(Default)]
pub(crate) struct Meter {
    rates: Vec<f64>,
    average: Average,
}

impl Class for Meter {
    const INFO: ClassInfo = ClassInfo::new("Meter", "1/2-").processing("h/h").inline();
}

impl Element for Meter {
    arguments! { this, given;
        let rates = each "RATE": u32;
        then {
            this.rates = rates.into_iter().map(f64::from).collect();
            super::check_meters(&this.rates, given.outputs())?;
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let rate = self.average.add(batch.len() as u64, context.now_ns());
        let output = self.rates.iter().position(|bound| rate < *bound).unwrap_or(self.rates.len());
        context.forward(output, batch);
    }

    handlers! { this, context, value;
        read "rate" => this.average.read(context.now_ns());
        read "meters" => this.rates.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn outputs_are_rates() {
        for (class, arguments) in
            [("Meter", ["100", "10000"]), ("BandwidthMeter", ["1000", "100000"])]
        {
            let mut bench = Bench::with_outputs(class, &arguments, 3);
            let mut last = Vec::new();
            // Packets of 10 bytes: 10, 1000 and 100000 a second.
            for (count, gap_ns) in [(1, 100_000_000), (1, 1_000_000), (100, 1_000_000)] {
                for _ in 0..6000 {
                    bench.now_ns += gap_ns;
                    let out = bench.push(0, &vec![&[0u8; 10][..]; count]);
                    last.push(out[0].0);
                }
            }
            assert_eq!([last[5999], last[11_999], last[17_999]], [0, 1, 2], "{class}");
        }
        // It settles as fast as in Click.
        let mut bench = Bench::with_outputs("Meter", &["500"], 2);
        let first = (1..100).find(|step| {
            bench.now_ns = step * 1_000_000;
            bench.push(0, &[b"x"])[0].0 == 1
        });
        assert_eq!(first, Some(11));
        assert_eq!(Bench::error("Meter", &["1", "1"]), "rates must rise");
    }
}
