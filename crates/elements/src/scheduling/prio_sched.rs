//! # PrioSched
//!
//! ## Synopsis
//! `PrioSched`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Pulls packets from the first input that has a packet: the first input has the highest priority.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `RoundRobinSched`, `StrideSched`

use crate::prelude::*;

/// Pulls in order of rank.
#[derive(Default)]
pub(crate) struct PrioSched;

impl Class for PrioSched {
    const INFO: ClassInfo =
        ClassInfo::new("PrioSched", "-/1").processing("l/l").inline().keeps_long();
}

impl Element for PrioSched {
    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut left = max;
        for input in 0..context.inputs() {
            left -= context.pull(input, left, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn the_first_goes_first() {
        for class in ["PrioSched", "SimplePrioSched"] {
            let mut bench = pull_bench(class, &[], 2);
            bench.give(1, &[b"c"]);
            bench.give(0, &[b"a", b"b"]);
            assert_eq!(bench.pull(2), [b"a".to_vec(), b"b".to_vec()]);
            assert_eq!(bench.pull(2), [b"c".to_vec()]);
        }
    }
}
