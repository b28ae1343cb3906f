//! # Pad
//!
//! ## Synopsis
//! `Pad([LENGTH, ZERO])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Makes packets at least LENGTH bytes long. Without LENGTH, it adds the number of bytes in the
//! extra length annotation. The annotation is 0 afterwards. Packets that have no room for this are
//! dropped.
//!
//! ## Arguments
//! - LENGTH: bytes.
//! - ZERO (keyword): accepted as in Click, without effect: added bytes are always zero.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Truncate`, `Resize`

use crate::prelude::*;
use crate::shared::fields::{Annotations, grow_tail};

/// Lengthens packets.
#[derive(Default)]
pub(crate) struct Pad {
    length: usize,
}

impl Class for Pad {
    const INFO: ClassInfo = ClassInfo::new("Pad", "1/1").inline();
}

impl Element for Pad {
    arguments! { this, given;
        positional "LENGTH": usize = 0 => this.length;
        keyword "ZERO": bool => _;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| {
            let count = match self.length {
                0 => packet.extra_length() as usize,
                length => length.saturating_sub(packet.len()),
            };
            packet.set_extra_length(0);
            count == 0 || grow_tail(packet, count).is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::Bench;

    #[test]
    fn lengthens_to_a_length_or_what_is_missing() {
        let mut bench = Bench::new("Pad", &["3"]);
        assert_eq!(
            bench.push(0, &[b"a", b"abcd"]),
            [(0, b"a\0\0".to_vec()), (0, b"abcd".to_vec())]
        );
        let mut bench = Bench::new("Pad", &[]);
        let mut packets = [b"a", b"b"].map(|data| bench.arena.packet(data).unwrap());
        packets[0].set_extra_length(2);
        packets[1].set_extra_length(1 << 20);
        assert_eq!(bench.push_packets(0, packets.into()), [(0, b"a\0\0".to_vec())]);
        assert_eq!(bench.out[0].1.extra_length(), 0);
    }
}
