//! # MarkIPCE
//!
//! ## Synopsis
//! `MarkIPCE([FORCE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Marks IPv4 packets as having met congestion (RFC 3168) and corrects the header's checksum.
//! Packets whose ECN field is 0 (not ECN-capable) are dropped. The network header annotation must
//! be set.
//!
//! ## Arguments
//! - FORCE: mark packets with an ECN field of 0 as well; default false.
//!
//! ## Handlers
//! - `drops` (read): packets dropped.
//!
//! ## See also
//! `SetIPECN`, `RED`

use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::{network, set_tos};

/// Marks congestion.
#[derive(Default)]
pub(crate) struct MarkIPCE {
    force: bool,
    drops: u64,
}

impl Class for MarkIPCE {
    const INFO: ClassInfo = ClassInfo::new("MarkIPCE", "1/1").inline();
}

impl Element for MarkIPCE {
    arguments! { this, given;
        positional "FORCE": bool = false => this.force;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        self.drops += retain(batch, |packet| {
            let capable = network(packet)
                .is_some_and(|(header, _)| header.get(1).is_some_and(|tos| tos & 3 != 0));
            let marked = self.force || capable;
            if marked {
                set_tos(packet, 3, 3);
            }
            marked
        });
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn marks_the_capable_or_all() {
        for (force, passed) in [("false", 1), ("true", 2)] {
            let mut bench = Bench::new("MarkIPCE", &[force]);
            let packets = [0, 1].map(|tos| {
                let mut bytes = ip_packet(1, 2, 3, b"");
                bytes[1] = tos;
                let mut packet = bench.arena.packet(&bytes).unwrap();
                packet.set_network_header(0, 20);
                packet
            });
            let out = bench.push_packets(0, packets.into());
            assert_eq!(out.iter().filter(|(_, bytes)| bytes[1] == 3).count(), passed);
            assert_eq!(bench.router.read("e.drops", ""), Ok((2 - passed).to_string()));
        }
    }
}
