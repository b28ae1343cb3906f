//! # IP6Mirror
//!
//! ## Synopsis
//! `IP6Mirror`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Exchanges source and destination of IPv6 packets: addresses, and the ports of TCP and UDP.
//! Checksums stay valid. The network header annotation must be set.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IPMirror`, `EtherMirror`

use super::ip_mirror::exchange;
use crate::prelude::*;

/// Exchanges source and destination of packets.
#[derive(Default)]
pub(crate) struct IP6Mirror;

impl Class for IP6Mirror {
    const INFO: ClassInfo = ClassInfo::new("IP6Mirror", "1/1").inline();
}

impl Element for IP6Mirror {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            if let Some(header) = packet.network_header_mut() {
                exchange(header, 8, 16);
                if matches!(header.get(6), Some(6 | 17)) {
                    exchange(header, 40, 2);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn there_and_back() {
        let mut bytes: Vec<u8> = (0..44).collect();
        bytes[6] = 17;
        let mut bench = Bench::new("IP6Mirror", &[]);
        let mut packet = bench.arena.packet(&bytes).unwrap();
        packet.set_network_header(0, 40);
        let out = bench.push_packets(0, vec![packet]);
        bytes[8..40].rotate_left(16);
        bytes[40..44].rotate_left(2);
        assert_eq!(out, [(0, bytes)]);
    }
}
