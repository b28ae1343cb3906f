//! # StaticSwitch
//!
//! ## Synopsis
//! `StaticSwitch(OUTPUT)`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Sends all packets out of one output, or drops them if there is no such output.
//!
//! ## Arguments
//! - OUTPUT: number of an output; negative to drop.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Switch`, `StaticPullSwitch`

use crate::prelude::*;

/// Has one way out.
#[derive(Default)]
pub(crate) struct StaticSwitch(Option<usize>);

impl Class for StaticSwitch {
    const INFO: ClassInfo =
        ClassInfo::new("StaticSwitch", "1/-").processing("h/h").inline().keeps_long();
}

impl Element for StaticSwitch {
    arguments! { this, given;
        mandatory "OUTPUT": i32, with |output| usize::try_from(output).ok() => this.0;
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        match self.0 {
            Some(output) => context.forward(output, batch),
            None => batch.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn one_way_or_none() {
        for (argument, expected) in [("1", vec![(1, b"a".to_vec())]), ("-1", vec![]), ("9", vec![])]
        {
            let mut bench = Bench::with_outputs("StaticSwitch", &[argument], 2);
            assert_eq!(bench.push(0, &[b"a"]), expected);
        }
    }
}
