//! # RoundRobinSched
//!
//! ## Synopsis
//! `RoundRobinSched`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Pulls packets from its inputs in turn. An input without packets loses its turn.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PrioSched`, `StrideSched`, `DRRSched`, `RoundRobinSwitch`

use crate::prelude::*;

/// Pulls in turn.
#[derive(Default)]
pub(crate) struct RoundRobinSched {
    next: usize,
}

impl Class for RoundRobinSched {
    const INFO: ClassInfo =
        ClassInfo::new("RoundRobinSched", "-/1").processing("l/l").inline().keeps_long();
}

impl Element for RoundRobinSched {
    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let inputs = context.inputs();
        let (mut count, mut empty) = (0, 0);
        while count < max && empty < inputs {
            match context.pull(self.next, 1, batch) {
                0 => empty += 1,
                _ => (count, empty) = (count + 1, 0),
            }
            self.next = if self.next + 1 >= inputs { 0 } else { self.next + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn inputs_take_turns() {
        for class in ["RoundRobinSched", "SimpleRRSched"] {
            let mut bench = pull_bench(class, &[], 3);
            bench.give(0, &[b"a", b"b"]);
            bench.give(2, &[b"c"]);
            assert_eq!(bench.pull(9), [b"a".to_vec(), b"c".to_vec(), b"b".to_vec()]);
        }
    }
}
