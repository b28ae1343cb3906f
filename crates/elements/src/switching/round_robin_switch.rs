//! # RoundRobinSwitch
//!
//! ## Synopsis
//! `RoundRobinSwitch`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Sends packets out of its outputs in turn.
//!
//! ## Arguments
//! - SPLITBATCH (keyword): accepted; each packet goes by the next output.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `StrideSwitch`, `HashSwitch`, `RandomSwitch`, `RoundRobinSched`

use crate::prelude::*;

/// Deals packets out.
#[derive(Default)]
pub(crate) struct RoundRobinSwitch {
    next: usize,
}

impl Class for RoundRobinSwitch {
    const INFO: ClassInfo =
        ClassInfo::new("RoundRobinSwitch", "1/1-").processing("h/h").inline().keeps_long();
}

impl Element for RoundRobinSwitch {
    arguments! { this, given;
        keyword "SPLITBATCH": bool => _;
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let outputs = context.outputs();
        context.push_each(batch, |_| {
            let output = self.next;
            self.next = if output + 1 >= outputs { 0 } else { output + 1 };
            Some(output)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn outputs_take_turns() {
        let mut bench = Bench::with_outputs("RoundRobinSwitch", &[], 3);
        let mut outputs: Vec<_> = bench.push(0, &[b"a", b"b", b"c", b"d"]).into_iter().collect();
        outputs.sort_by(|a, b| a.1.cmp(&b.1));
        let outputs: Vec<_> = outputs.into_iter().map(|(output, _)| output).collect();
        assert_eq!(outputs, [0, 1, 2, 0]);
    }
}
