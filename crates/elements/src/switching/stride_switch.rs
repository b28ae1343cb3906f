//! # StrideSwitch
//!
//! ## Synopsis
//! `StrideSwitch(TICKETS, ...)`
//!
//! ## Ports
//! One push input, as many push outputs as arguments.
//!
//! ## Description
//! Sends packets out of its outputs in the proportion of their tickets, as evenly as can be (stride
//! scheduling).
//!
//! ## Arguments
//! - TICKETS: one for each output, 0 to 32768.
//!
//! ## Handlers
//! - `tickets0`, `tickets1`, ... `tickets7` (read, write): tickets of an output.
//!
//! ## See also
//! `StrideSched`, `RoundRobinSwitch`

use crate::prelude::*;
use crate::scheduling::stride::Strides;

/// Deals packets out by tickets.
#[derive(Default)]
pub(crate) struct StrideSwitch(Strides);

impl Class for StrideSwitch {
    const INFO: ClassInfo = ClassInfo::new("StrideSwitch", "1/1-").processing("h/h").inline();
}

impl Element for StrideSwitch {
    arguments! { this, given;
        let texts = rest "TICKETS": "number of tickets";
        then {
            let ports = given.outputs();
            this.0.set_all(texts, given, ports, "output")?;
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        context.push_each(batch, |_| self.0.next(|_| true));
    }

    delegate!(handlers 0);
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn tickets_are_kept() {
        let mut bench = Bench::with_outputs("StrideSwitch", &["1", "2", "0"], 3);
        let out = bench.push(0, &[&b"a"[..]; 30]);
        for (output, expected) in [(0, 10), (1, 20), (2, 0)] {
            assert_eq!(out.iter().filter(|(o, _)| *o == output).count(), expected);
        }
        bench.router.write("e.tickets1", "0").unwrap();
        assert!(bench.push(0, &[&b"a"[..]; 5]).iter().all(|(output, _)| *output == 0));
        assert_eq!(Bench::error("StrideSwitch", &["1"]), "need 4 arguments, one per output port");
    }
}
