//! # MarkIPHeader
//!
//! ## Synopsis
//! `MarkIPHeader([OFFSET])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the IP header annotation of each packet to OFFSET, without a check. The length of the
//! header is read from its first byte.
//!
//! ## Arguments
//! - OFFSET: bytes from the start of the packet, default 0.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `CheckIPHeader`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, arguments};

/// Sets the network header without a check.
#[derive(Default)]
pub(crate) struct MarkIPHeader(usize);

impl Class for MarkIPHeader {
    const INFO: ClassInfo = ClassInfo::new("MarkIPHeader", "1/1").inline().keeps_long();
}

impl Element for MarkIPHeader {
    arguments! { this, given;
        positional "OFFSET": usize = 0 => this.0;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let first = packet.data().get(self.0).copied().unwrap_or(0);
            packet.set_network_header(self.0, usize::from(first & 15) * 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn marks_without_checking() {
        let mut bench = Bench::new("MarkIPHeader", &["2"]);
        bench.push(0, &[b"xx\x41abcd", b"xx\x41abc", b"x"]);
        let offsets: Vec<_> = bench
            .out
            .iter()
            .map(|(_, packet)| (packet.network_offset(), packet.transport_offset()))
            .collect();
        assert_eq!(offsets, [(Some(2), Some(6)), (Some(2), Some(6)), (None, None)]);
    }
}
