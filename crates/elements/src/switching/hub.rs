//! # Hub
//!
//! ## Synopsis
//! `Hub`
//!
//! ## Ports
//! As many push inputs as push outputs.
//!
//! ## Description
//! Sends a copy of each packet out of all outputs except the one with its input's number.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Tee`, `EtherSwitch`

use crate::prelude::*;

/// Repeats packets.
#[derive(Default)]
pub(crate) struct Hub;

impl Class for Hub {
    const INFO: ClassInfo = ClassInfo::new("Hub", "-/=").processing("h/h").flow("#/[^#]").inline();
}

impl Element for Hub {
    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let outputs = context.outputs();
        for packet in batch.drain() {
            super::push_to_all(packet, (0..outputs).filter(|output| *output != port), context);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn all_but_the_sender_hear() {
        let mut bench = Bench::new("Hub", &[]);
        let mut outputs: Vec<_> =
            bench.push(1, &[b"a"]).into_iter().map(|(output, _)| output).collect();
        outputs.sort_unstable();
        assert_eq!(outputs, [0, 2, 3]);
    }
}
