//! # SetIPChecksum
//!
//! ## Synopsis
//! `SetIPChecksum`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Computes the checksum of each packet's IPv4 header. The header is at the network header
//! annotation, or without annotation at the packet's start. Packets without a whole header are
//! dropped.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets dropped.
//!
//! ## See also
//! `CheckIPHeader`, `SetTCPChecksum`, `SetUDPChecksum`

use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::set_ip_checksum;

/// Sets IPv4 checksums.
#[derive(Default)]
pub(crate) struct SetIPChecksum {
    drops: u64,
}

impl Class for SetIPChecksum {
    const INFO: ClassInfo = ClassInfo::new("SetIPChecksum", "1/1").inline();
}

impl Element for SetIPChecksum {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let drops = retain(batch, |packet| match packet.network_header_mut() {
            Some(header) => set_ip_checksum(header),
            None => set_ip_checksum(packet.data_mut()),
        });
        if drops > 0 && self.drops == 0 {
            context.log("SetIPChecksum: bad input packet");
        }
        self.drops += drops;
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn the_checksum_is_right() {
        let good = ip_packet(1, 2, 3, b"");
        let mut bad = good.clone();
        bad[10..12].fill(0x55);
        let mut bench = Bench::new("SetIPChecksum", &[]);
        bench.log();
        assert_eq!(bench.push(0, &[&bad, b"short"]), [(0, good)]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
