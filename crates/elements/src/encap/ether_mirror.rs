//! # EtherMirror
//!
//! ## Synopsis
//! `EtherMirror`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Exchanges Ethernet source and destination address.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `EtherRewrite`, `IPMirror`

use crate::prelude::*;

/// Exchanges source and destination of frames.
#[derive(Default)]
pub(crate) struct EtherMirror;

impl Class for EtherMirror {
    const INFO: ClassInfo = ClassInfo::new("EtherMirror", "1/1").inline().keeps_long();
}

impl Element for EtherMirror {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            if let Some(both) = packet.data_mut().get_mut(..12) {
                both.rotate_left(6);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn addresses_change_places() {
        let mut bench = Bench::new("EtherMirror", &[]);
        assert_eq!(bench.push(0, &[b"aaaaaabbbbbbc"]), [(0, b"bbbbbbaaaaaac".to_vec())]);
    }
}
