//! # AverageCounterIMP
//!
//! ## Synopsis
//! `AverageCounterIMP([IGNORE, ...])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Counts and measures as `AverageCounter` does. In Click several threads can use this class; a
//! router of Europa has one thread.
//!
//! ## Arguments
//! Those of `AverageCounter`.
//!
//! ## Handlers
//! Those of `AverageCounter`.
//!
//! ## See also
//! `AverageCounter`

use crate::aggregate::average_counter::AverageCounter;
use crate::prelude::*;

/// Measures rates.
#[derive(Default)]
pub(crate) struct AverageCounterIMP(AverageCounter);

impl Class for AverageCounterIMP {
    const INFO: ClassInfo = ClassInfo::new("AverageCounterIMP", "1/1");
}

impl Element for AverageCounterIMP {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.process(batch, context);
    }

    delegate!(arguments 0);

    delegate!(handlers 0);
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_as_averagecounter_does() {
        let mut bench = Bench::new("AverageCounterIMP", &["IGNORE 0"]);
        bench.push(0, &[b"abc"]);
        assert_eq!(bench.router.read("e.byte_count", ""), Ok("3".into()));
    }
}
