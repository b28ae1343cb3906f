//! # StripTransportHeader
//!
//! ## Synopsis
//! `StripTransportHeader`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Moves the start of each packet behind its TCP, UDP or ICMP header; for other protocols, to the
//! start of the transport header. Packets without a network header annotation pass as they are.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `StripIPHeader`, `StripToNetworkHeader`

use super::{start_at, transport_header_len};
use crate::prelude::*;

/// Lets packets start behind the transport header.
#[derive(Default)]
pub(crate) struct StripTransportHeader;

impl Class for StripTransportHeader {
    const INFO: ClassInfo = ClassInfo::new("StripTransportHeader", "1/1").inline();
}

impl Element for StripTransportHeader {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let length = transport_header_len(packet) as isize;
            let end = packet.len() as isize;
            start_at(packet, packet.transport_offset().map(|offset| (offset + length).min(end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn what_is_left_is_payload() {
        let mut bench = Bench::new("StripTransportHeader", &[]);
        let packets = [&b"12345678ab"[..], b"1234"].map(|payload| {
            let mut packet = bench.arena.packet(&ip_packet(1, 2, 3, payload)).unwrap();
            packet.set_network_header(0, 20);
            packet
        });
        assert_eq!(bench.push_packets(0, packets.into()), [(0, b"ab".to_vec()), (0, vec![])]);
    }
}
