//! # SetMPLSLabel
//!
//! ## Synopsis
//! `SetMPLSLabel(LABEL)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Replaces the first label of the MPLS label stack that a packet begins with, as a label switching
//! router does. Traffic class and time to live stay.
//!
//! ## Arguments
//! - LABEL: 20 bits.
//!
//! ## Handlers
//! - `label` (read, write): see LABEL.
//!
//! ## See also
//! `DecMPLSTTL`, `MPLSEncap`, `MPLSDecap`

use super::{Entry, bounded};
use crate::prelude::*;
use crate::shared::fields::set;

/// Swaps labels.
#[derive(Default)]
pub(crate) struct SetMPLSLabel(u32);

impl Class for SetMPLSLabel {
    const INFO: ClassInfo = ClassInfo::new("SetMPLSLabel", "1/1").inline();
}

impl Element for SetMPLSLabel {
    arguments! { this, given;
        let label = mandatory "LABEL": u32;
        then {
            this.0 = bounded("LABEL", label, 20)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            if let Some(entry) = Entry::of(packet.data()) {
                set(packet.data_mut(), 0, entry.with_label(self.0).bytes());
            }
        }
    }

    handlers! { this, context, value;
        both "label" => this.0, set {
            this.0 = bounded("label", parse("label", value)?, 20)
                .map_err(|error| HandlerError::Other(error.to_string()))?;
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn only_the_label_changes() {
        let mut bench = Bench::new("SetMPLSLabel", &["0xabcde"]);
        let out = bench.push(0, &[&[0, 1, 0x0f, 9, 7], &[1]]);
        assert_eq!(out, [(0, vec![0xab, 0xcd, 0xef, 9, 7]), (0, vec![1])]);
    }
}
