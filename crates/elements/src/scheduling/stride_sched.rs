//! # StrideSched
//!
//! ## Synopsis
//! `StrideSched(TICKETS, ...)`
//!
//! ## Ports
//! As many pull inputs as arguments, one pull output.
//!
//! ## Description
//! Pulls packets from its inputs in the proportion of their tickets, as evenly as can be (stride
//! scheduling). An input without packets loses its turn.
//!
//! ## Arguments
//! - TICKETS: one for each input, 0 to 32768.
//!
//! ## Handlers
//! - `tickets0`, `tickets1`, ... `tickets7` (read, write): tickets of an input.
//!
//! ## See also
//! `StrideSwitch`, `RoundRobinSched`, `PrioSched`

use super::stride::Strides;
use crate::prelude::*;

/// Pulls by tickets.
#[derive(Default)]
pub(crate) struct StrideSched(Strides);

impl Class for StrideSched {
    const INFO: ClassInfo = ClassInfo::new("StrideSched", "-/1").processing("l/l").inline();
}

impl Element for StrideSched {
    arguments! { this, given;
        let texts = rest "TICKETS": "number of tickets";
        then {
            let ports = given.inputs();
            this.0.set_all(texts, given, ports, "input")?;
        }
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for _ in 0..max {
            if self.0.next(|port| context.pull(port, 1, batch) > 0).is_none() {
                break;
            }
        }
    }

    delegate!(handlers 0);
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn tickets_are_kept() {
        let mut bench = pull_bench("StrideSched", &["1", "3"], 2);
        bench.give(0, &[&b"a"[..]; 20]);
        bench.give(1, &[&b"b"[..]; 20]);
        let out = bench.pull(20);
        assert_eq!(out.iter().filter(|data| **data == b"a").count(), 5);
        bench.router.write("e.tickets1", "0").unwrap();
        assert!(bench.pull(5).iter().all(|data| data == b"a"));
        // An empty input does not stop the others.
        bench.router.write("e.tickets1", "3").unwrap();
        assert_eq!(bench.pull(99).len(), 15);
    }
}
