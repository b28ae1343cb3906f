//! # EnsureEther
//!
//! ## Synopsis
//! `EnsureEther([ETHERTYPE, SRC, DST])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Makes IP packets start with an Ethernet header. A packet that starts with one stays unchanged. A
//! packet whose Ethernet header was stripped gets it back. Others get a new one. Packets without a
//! network header annotation stay unchanged.
//!
//! ## Arguments
//! - ETHERTYPE: default 0x0800.
//! - SRC, DST: default 1:1:1:1:1:1 and 2:2:2:2:2:2.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `EtherEncap`, `EtherRewrite`

use crate::prelude::*;
use crate::shared::fields::be16;

/// Adds an Ethernet header to packets without one.
pub(crate) struct EnsureEther([u8; 14]);

impl Default for EnsureEther {
    fn default() -> EnsureEther {
        EnsureEther([2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 8, 0])
    }
}

impl Class for EnsureEther {
    const INFO: ClassInfo = ClassInfo::new("EnsureEther", "1/1").inline();
}

fn is_ip(frame: &[u8]) -> bool {
    matches!(be16(frame, 12), Some(0x0800 | 0x86dd))
}

impl EnsureEther {
    fn ensure(&self, packet: &mut Packet) -> Option<()> {
        let at = match packet.network_offset() {
            Some(at) if at >= 0 => at as usize,
            _ => return Some(()),
        };
        if at == 14 && is_ip(packet.data()) {
            return Some(());
        }
        if at == 0 && packet.headroom() >= 14 {
            let length = packet.len();
            packet.push(14)?;
            if is_ip(packet.data()) {
                return Some(());
            }
            packet.pull(packet.len() - length)?;
        }
        packet.pull(at)?;
        crate::shared::made::encapsulate(packet, &self.0).then_some(())
    }
}

impl Element for EnsureEther {
    arguments! { this, given;
        let kind = positional "ETHERTYPE": u16 = 0x0800;
        let source = positional "SRC": [u8; 6] = [1; 6];
        let destination = positional "DST": [u8; 6] = [2; 6];
        then {
            let header = [&destination[..], &source, &kind.to_be_bytes()].concat();
            this.0 = header.first_chunk().copied().unwrap_or_default();
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.ensure(packet).is_some());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn headers_stay_come_back_or_are_made() {
        let own = b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x08\x00".to_vec();
        let frame = b"aaaaaabbbbbb\x08\x00ip".to_vec();
        for (at, strip, bytes, expected) in [
            (14, 0, &frame[..], frame.clone()),
            (14, 14, &frame, frame.clone()),
            (2, 0, b"xxip", [&own[..], b"ip"].concat()),
            (0, 0, b"ip", [&own[..], b"ip"].concat()),
        ] {
            let mut bench = Bench::new("EnsureEther", &[]);
            let mut packet = bench.arena.packet(bytes).unwrap();
            packet.set_network_header(at, 0);
            packet.pull(strip).unwrap();
            assert_eq!(bench.push_packets(0, vec![packet]), [(0, expected)]);
        }
    }
}
