//! # MPLSDecap
//!
//! ## Synopsis
//! `MPLSDecap([LABEL])`
//!
//! ## Ports
//! One input. Output 0 gets packets whose last label was removed. Output 1, if connected, gets
//! packets with more labels; otherwise these leave by output 0 too.
//!
//! ## Description
//! Removes the first entry of the MPLS label stack (RFC 3032) that a packet begins with. Packets
//! that are too short, or have another label than LABEL, are dropped.
//!
//! ## Arguments
//! - LABEL: the label; default any.
//!
//! ## Handlers
//! - `drops` (read): packets dropped.
//!
//! ## See also
//! `MPLSEncap`, `SetMPLSLabel`, `DecMPLSTTL`

use super::{Entry, bounded};
use crate::prelude::*;

/// Takes labels off packets.
#[derive(Default)]
pub(crate) struct MPLSDecap {
    label: Option<u32>,
    apart: bool,
    drops: u64,
}

impl Class for MPLSDecap {
    const INFO: ClassInfo = ClassInfo::new("MPLSDecap", "1/1-2").processing("a/ah").inline();
}

impl Element for MPLSDecap {
    arguments! { this, given;
        let label = positional "LABEL": u32;
        then {
            this.label = label.map(|label| bounded("LABEL", label, 20)).transpose()?;
            this.apart = given.outputs() > 1;
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let (mut drops, wanted) = (0, self.label);
        batch.retain(|packet| {
            let entry = Entry::of(packet.data());
            let fits = entry.is_some_and(|entry| wanted.is_none_or(|label| entry.0 >> 12 == label));
            drops += u64::from(!fits);
            fits
        });
        self.drops += drops;
        let apart = self.apart;
        batch.filter(
            |packet| {
                let last = Entry::of(packet.data()).is_some_and(Entry::is_last);
                // It was long enough.
                let _ = packet.pull(4);
                last || !apart
            },
            |packet| context.push(1, packet),
        );
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn labels_come_off() {
        let (last, more) = ([0, 1, 0x01, 9, b'x'], [0, 1, 0x00, 9, b'y']);
        let mut bench = Bench::with_outputs("MPLSDecap", &["16"], 2);
        let out = bench.push(0, &[&last, &more, &[0, 2, 1, 9], &[0, 1, 1]]);
        assert_eq!(out, [(1, b"y".to_vec()), (0, b"x".to_vec())]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("2".into()));
        let mut bench = Bench::with_outputs("MPLSDecap", &[], 1);
        assert_eq!(bench.push(0, &[&last, &more]).len(), 2);
    }
}
