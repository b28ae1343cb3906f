//! # IPsecEncap
//!
//! ## Synopsis
//! `IPsecEncap(PROTO)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts an IPv4 header before packets, to their destination annotation. The source address is 0,
//! and packets are marked for `FixIPSrc`, which sets the interface's address. The time to live is
//! 250.
//!
//! ## Arguments
//! - PROTO: protocol, by number or name.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IPsecESPEncap`, `FixIPSrc`, `IPEncap`

use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::{grow_front, set, set_ip_checksum};
use crate::shared::values::Protocol;

/// Bytes of the header.
const HEADER: usize = 20;

/// Puts packets into IP.
#[derive(Default)]
pub(crate) struct IPsecEncap {
    protocol: u8,
    number: u16,
}

impl Class for IPsecEncap {
    const INFO: ClassInfo = ClassInfo::new("IPsecEncap", "1/1");
}

impl IPsecEncap {
    fn encapsulate(&mut self, packet: &mut Packet) -> Option<()> {
        let total = u16::try_from(packet.len() + HEADER).ok()?;
        let to = packet.dst_ip();
        let header = grow_front(packet, HEADER)?;
        set(header, 0, [0x45]);
        set(header, 2, total.to_be_bytes());
        set(header, 4, self.number.to_be_bytes());
        set(header, 8, [250, self.protocol]);
        set(header, 16, to.to_be_bytes());
        set_ip_checksum(header);
        self.number = self.number.wrapping_add(1);
        packet.set_network_header(0, HEADER);
        packet.set_annotation(annotation::FIX_IP_SRC, [1]);
        Some(())
    }
}

impl Element for IPsecEncap {
    arguments! { this, given;
        let protocol = mandatory "PROTO": Protocol;
        then {
            this.protocol = protocol.0;
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        retain(batch, |packet| self.encapsulate(packet).is_some());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn the_header_is_sound() {
        let mut bench = Bench::new("IPsecEncap", &["50"]);
        let mut packet = bench.arena.packet(b"abc").unwrap();
        packet.set_dst_ip(0x0102_0304);
        let out = bench.push_packets(0, vec![packet]);
        let mut wanted = ip_packet(0, 0x0102_0304, 250, b"abc");
        wanted[9] = 50;
        crate::shared::fields::set_ip_checksum(&mut wanted);
        assert_eq!(out, [(0, wanted)]);
    }
}
