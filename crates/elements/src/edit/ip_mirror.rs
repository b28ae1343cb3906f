//! # IPMirror
//!
//! ## Synopsis
//! `IPMirror([DST_ANNO])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Exchanges source and destination of IPv4 packets: addresses, the ports of TCP and UDP, and the
//! sequence numbers of TCP. Checksums stay valid. The network header annotation must be set.
//!
//! ## Arguments
//! - DST_ANNO: set the destination address annotation too; default true.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IP6Mirror`, `EtherMirror`

use crate::prelude::*;
use crate::shared::fields::{bytes, is_first, network_mut};

/// Exchanges source and destination of packets.
#[derive(Default)]
pub(crate) struct IPMirror {
    annotate: bool,
}

impl Class for IPMirror {
    const INFO: ClassInfo = ClassInfo::new("IPMirror", "1/1").inline();
}

/// Exchanges two neighbouring fields of `length` bytes each.
pub(super) fn exchange(data: &mut [u8], at: usize, length: usize) {
    if let Some(both) = data.get_mut(at..at + 2 * length) {
        both.rotate_left(length);
    }
}

impl Element for IPMirror {
    arguments! { this, given;
        positional "DST_ANNO": bool = true => this.annotate;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let Some((header, rest)) = network_mut(packet) else { continue };
            exchange(header, 12, 4);
            let protocol = header.get(9).copied();
            if matches!(protocol, Some(6 | 17)) && is_first(header) && rest.len() >= 8 {
                exchange(rest, 0, 2);
                if protocol == Some(6) {
                    exchange(rest, 4, 4);
                }
            }
            let destination = bytes::<4>(header, 16);
            if self.annotate
                && let Some(destination) = destination
            {
                packet.set_annotation(annotation::DST_IP, destination);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn there_and_back() {
        let mut bench = Bench::new("IPMirror", &[]);
        let mut packet = bench.arena.packet(&ip_packet(1, 2, 3, b"abcdefgh")).unwrap();
        packet.set_network_header(0, 20);
        let out = bench.push_packets(0, vec![packet]);
        assert_eq!(out, [(0, ip_packet(2, 1, 3, b"cdabefgh"))]);
        assert_eq!(bench.out[0].1.dst_ip(), 1);
    }
}
