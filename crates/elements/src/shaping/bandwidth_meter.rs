//! # BandwidthMeter
//!
//! ## Synopsis
//! `BandwidthMeter(RATE, ...)`
//!
//! ## Ports
//! One push input; one push output more than there are rates.
//!
//! ## Description
//! Measures the rate of bytes over some hundredths of a second. All packets leave by output 0
//! while the rate is below the first RATE, by output 1 while it is below the second, and so on.
//!
//! ## Arguments
//! - RATE: bandwidth, such as 10Mbps; without a unit bytes a second; each larger than the one
//!   before.
//!
//! ## Handlers
//! - `rate` (read): bytes a second.
//! - `meters` (read): the rates.
//!
//! ## See also
//! `Meter`, `BandwidthRatedSplitter`

use super::Average;
use crate::prelude::*;
use crate::shared::values::Bandwidth;

/// Sorts traffic by its rate.
#[derive(Default)]
pub(crate) struct BandwidthMeter {
    rates: Vec<f64>,
    average: Average,
}

impl Class for BandwidthMeter {
    const INFO: ClassInfo = ClassInfo::new("BandwidthMeter", "1/2-").processing("h/h").inline();
}

impl Element for BandwidthMeter {
    arguments! { this, given;
        let texts = rest "RATE": "bandwidth, such as 10Mbps";
        then {
            for (index, text) in texts {
                if text.ends_with(|c: char| c.is_ascii_digit()) {
                    let message =
                        format!("no units for bandwidth argument {}, assuming Bps", index + 1);
                    given.warn(message);
                }
                this.rates.push(given.value::<Bandwidth>("RATE", index, text)?.0 as f64);
            }
            super::check_meters(&this.rates, given.outputs())?;
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let bytes = batch.iter().map(|packet| packet.len() as u64).sum();
        let rate = self.average.add(bytes, context.now_ns());
        let output = self.rates.iter().position(|bound| rate < *bound).unwrap_or(self.rates.len());
        context.forward(output, batch);
    }

    handlers! { this, context, value;
        read "rate" => this.average.read(context.now_ns());
        read "meters" => this.rates.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
    }
}
