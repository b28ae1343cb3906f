//! # Tee
//!
//! ## Synopsis
//! `Tee([N])`
//!
//! ## Ports
//! One input, any number of outputs, push.
//!
//! ## Description
//! Sends a copy of each packet out of every output. If there is no room for a copy, that output
//! does not get the packet.
//!
//! ## Arguments
//! - N: number of outputs, which must be connected.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PaintTee`, `Switch`

use europa_engine::{Batch, Class, ClassInfo, ConfigError, Context, Element, arguments};

/// Copies packets to all outputs.
#[derive(Default)]
pub(crate) struct Tee;

impl Class for Tee {
    const INFO: ClassInfo = ClassInfo::new("Tee", "1/1-").processing("h/h").inline().keeps_long();
}

impl Element for Tee {
    arguments! { this, given;
        let wanted = positional "N": usize;
        then {
            let outputs = given.outputs();
            if let Some(wanted) = wanted
                && wanted != outputs
            {
                let message = format!("N: {outputs} outputs are connected, not {wanted}");
                return Err(ConfigError::other(message));
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let last = context.outputs().saturating_sub(1);
        for output in 0..last {
            for packet in batch.iter() {
                if let Some(copy) = packet.try_clone() {
                    context.push(output, copy);
                }
            }
        }
        context.push_batch(last, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn every_output_gets_every_packet() {
        let mut bench = Bench::with_outputs("Tee", &["3"], 3);
        let mut out = bench.push(0, &[b"a", b"b"]);
        out.sort();
        let expected = |output| [(output, b"a".to_vec()), (output, b"b".to_vec())];
        assert_eq!(out, [expected(0), expected(1), expected(2)].concat());
        assert_eq!(Bench::error("Tee", &["3"]), "N: 4 outputs are connected, not 3");
    }
}
