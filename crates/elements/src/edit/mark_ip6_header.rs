//! # MarkIP6Header
//!
//! ## Synopsis
//! `MarkIP6Header([OFFSET])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the network header annotation of each packet to OFFSET, without a check, and the transport
//! header annotation behind the 40 bytes of an IPv6 header.
//!
//! ## Arguments
//! - OFFSET: bytes from the start, default 0.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `CheckIP6Header`, `MarkIPHeader`

use crate::prelude::*;

/// Sets the network header annotation.
#[derive(Default)]
pub(crate) struct MarkIP6Header(usize);

impl Class for MarkIP6Header {
    const INFO: ClassInfo = ClassInfo::new("MarkIP6Header", "1/1").inline();
}

impl Element for MarkIP6Header {
    arguments! { this, given;
        positional "OFFSET": usize = 0 => this.0;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            packet.set_network_header(self.0, 40);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn marks() {
        let mut bench = Bench::new("MarkIP6Header", &["2"]);
        bench.push(0, &[&[0; 44]]);
        let packet = &bench.out[0].1;
        assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(2), Some(42)));
    }
}
