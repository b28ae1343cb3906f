//! # StripToNetworkHeader
//!
//! ## Synopsis
//! `StripToNetworkHeader`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Moves the start of each packet to its network header, wherever that is. Packets without a
//! network header annotation pass as they are.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Strip`, `StripIPHeader`, `StripTransportHeader`

use super::start_at;
use crate::prelude::*;

/// Lets packets start with the network header.
#[derive(Default)]
pub(crate) struct StripToNetworkHeader;

impl Class for StripToNetworkHeader {
    const INFO: ClassInfo = ClassInfo::new("StripToNetworkHeader", "1/1").inline();
}

impl Element for StripToNetworkHeader {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            start_at(packet, packet.network_offset());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_start_with_the_network_header() {
        let mut bench = Bench::new("StripToNetworkHeader", &[]);
        let mut behind = bench.arena.packet(b"abc").unwrap();
        behind.set_network_header(2, 0);
        let mut before = bench.arena.packet(b"abc").unwrap();
        before.set_network_header(0, 0);
        before.pull(2).unwrap();
        let none = bench.arena.packet(b"abc").unwrap();
        let out = bench.push_packets(0, vec![behind, before, none]);
        assert_eq!(out, [(0, b"c".to_vec()), (0, b"abc".to_vec()), (0, b"abc".to_vec())]);
    }
}
