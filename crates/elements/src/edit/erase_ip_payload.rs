//! # EraseIPPayload
//!
//! ## Synopsis
//! `EraseIPPayload`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Overwrites the payload of TCP and UDP packets with zeros. Their network header annotation must
//! be set. Lengths and checksums stay.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `TruncateIPPayload`

use super::transport_header_len;
use crate::prelude::*;
use crate::shared::fields::network;

/// Erases payload.
#[derive(Default)]
pub(crate) struct EraseIPPayload;

impl Class for EraseIPPayload {
    const INFO: ClassInfo = ClassInfo::new("EraseIPPayload", "1/1").inline();
}

impl Element for EraseIPPayload {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let known =
                network(packet).is_some_and(|(header, _)| matches!(header.get(9), Some(6 | 17)));
            let headers = transport_header_len(packet);
            if known
                && let Some(payload) =
                    packet.transport_header_mut().and_then(|t| t.get_mut(headers..))
            {
                payload.fill(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn headers_stay() {
        let bytes = ip_packet(1, 2, 3, b"12345678payload");
        let mut bench = Bench::new("EraseIPPayload", &[]);
        let mut packet = bench.arena.packet(&bytes).unwrap();
        packet.set_network_header(0, 20);
        let out = bench.push_packets(0, vec![packet]);
        assert_eq!((&out[0].1[..28], &out[0].1[28..]), (&bytes[..28], &[0; 7][..]));
    }
}
