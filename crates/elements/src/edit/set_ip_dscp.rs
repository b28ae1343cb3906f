//! # SetIPDSCP
//!
//! ## Synopsis
//! `SetIPDSCP(DSCP)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the differentiated services code point of IPv4 packets (RFC 2474) and corrects the header's
//! checksum. The network header annotation must be set.
//!
//! ## Arguments
//! - DSCP: 0 to 63.
//!
//! ## Handlers
//! - `dscp` (read, write): DSCP.
//!
//! ## See also
//! `SetIPECN`, `MarkIPCE`, `SetIP6DSCP`

use crate::prelude::*;
use crate::shared::fields::set_tos;

/// Sets the code point of IPv4 packets.
#[derive(Default)]
pub(crate) struct SetIPDSCP {
    dscp: super::Bits<63>,
}

impl Class for SetIPDSCP {
    const INFO: ClassInfo = ClassInfo::new("SetIPDSCP", "1/1").inline();
}

impl Element for SetIPDSCP {
    arguments! { this, given;
        mandatory "DSCP": super::Bits<63> => this.dscp;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            set_tos(packet, 0xfc, self.dscp.0 << 2);
        }
    }

    handlers! { this, context, value; both "dscp" => this.dscp; }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn both_parts_of_the_byte_are_set_apart() {
        for (class, argument, before, after) in [
            ("SetIPDSCP", "46", 0xff, 0xbb),
            ("SetIPDSCP", "0", 0x03, 0x03),
            ("SetIPECN", "ce", 0xfc, 0xff),
            ("SetIPECN", "1", 0xff, 0xfd),
        ] {
            let tos = |value: u8| {
                let mut packet = ip_packet(1, 2, 3, b"");
                packet[1] = value;
                crate::shared::fields::set_ip_checksum(&mut packet);
                packet
            };
            let mut bench = Bench::new(class, &[argument]);
            let mut packet = bench.arena.packet(&tos(before)).unwrap();
            packet.set_network_header(0, 20);
            assert_eq!(bench.push_packets(0, vec![packet]), [(0, tos(after))]);
        }
        assert_eq!(
            Bench::error("SetIPDSCP", &["64"]),
            "DSCP: expected small unsigned integer, found '64'"
        );
    }
}
