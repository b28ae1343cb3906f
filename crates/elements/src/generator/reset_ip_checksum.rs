//! # ResetIPChecksum
//!
//! ## Synopsis
//! `ResetIPChecksum([L4])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the checksum of IPv4 packets. Packets without the IP header annotation pass unchanged. In
//! FastClick with DPDK the network card computes the checksum; here the element computes it.
//!
//! ## Arguments
//! - L4: set the checksum of TCP and UDP, too; default false.
//!
//! ## Handlers
//! - `drops` (read): packets without an IPv4 header, which pass.
//!
//! ## See also
//! `SetIPChecksum`, `SetTCPChecksum`, `SetUDPChecksum`

use europa_packet::checksum;

use crate::prelude::*;
use crate::shared::fields::{
    be16, is_fragment, network_mut, segment_checksum, set, set_ip_checksum,
};

/// Sets checksums.
#[derive(Default)]
pub(crate) struct ResetIPChecksum {
    transport: bool,
    drops: u64,
}

impl Class for ResetIPChecksum {
    const INFO: ClassInfo = ClassInfo::new("ResetIPChecksum", "1/1");
}

/// Sets the checksum of TCP or UDP.
fn set_transport(header: &[u8], segment: &mut [u8]) {
    let length = be16(header, 2).map_or(0, usize::from).saturating_sub(header.len());
    let Some(segment) = segment.get_mut(..length) else { return };
    let (at, is_udp) = match header.get(9) {
        Some(6) if segment.len() >= 20 => (16, false),
        Some(17) if segment.len() >= 8 => (6, true),
        _ => return,
    };
    set(segment, at, [0; 2]);
    let check = segment_checksum(header, segment);
    set(segment, at, if is_udp { checksum::udp(check) } else { check }.to_be_bytes());
}

impl Element for ResetIPChecksum {
    arguments! { this, given;
        positional "L4": bool = false => this.transport;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            match network_mut(packet) {
                Some((header, segment)) if header.first().is_some_and(|b| b >> 4 == 4) => {
                    set_ip_checksum(header);
                    if self.transport && !is_fragment(header) {
                        set_transport(header, segment);
                    }
                }
                _ => self.drops += 1,
            }
        }
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use europa_packet::{Frame, MacAddr};

    use crate::testing::Bench;

    #[test]
    fn both_checksums_are_right() {
        let frame = Frame::new(MacAddr([2; 6]), MacAddr([4; 6])).ipv4([1, 2, 3, 4], [5, 6, 7, 8]);
        let right = frame.udp(5, 53, b"payload")[14..].to_vec();
        for (arguments, wrong_at) in [(&[][..], &[10][..]), (&["L4 true"], &[10, 26])] {
            let mut bench = Bench::new("ResetIPChecksum", arguments);
            let mut wrong = right.clone();
            for at in wrong_at {
                wrong[*at] ^= 0x55;
            }
            let mut packet = bench.arena.packet(&wrong).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(bench.push_packets(0, vec![packet]), [(0, right.clone())]);
        }
    }
}
