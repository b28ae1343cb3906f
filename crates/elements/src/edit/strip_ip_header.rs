//! # StripIPHeader
//!
//! ## Synopsis
//! `StripIPHeader`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Moves the start of each packet behind its IP header. Packets without a network header annotation
//! pass as they are.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `UnstripIPHeader`, `CheckIPHeader`

use super::start_at;
use crate::prelude::*;

/// Lets packets start behind the IP header.
#[derive(Default)]
pub(crate) struct StripIPHeader;

impl Class for StripIPHeader {
    const INFO: ClassInfo = ClassInfo::new("StripIPHeader", "1/1").inline();
}

impl Element for StripIPHeader {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            start_at(packet, packet.network_offset().and(packet.transport_offset()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_header_comes_back() {
        let mut bench = Bench::new("StripIPHeader", &[]);
        let mut packet = bench.arena.packet(b"xabcdefyz").unwrap();
        packet.set_network_header(1, 6);
        assert_eq!(bench.push_packets(0, vec![packet]), [(0, b"yz".to_vec())]);
        let stripped = bench.out.remove(0).1;
        let mut bench = Bench::new("UnstripIPHeader", &[]);
        assert_eq!(bench.push_packets(0, vec![stripped]), [(0, b"abcdefyz".to_vec())]);
    }
}
