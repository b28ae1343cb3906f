//! # SetIP6DSCP
//!
//! ## Synopsis
//! `SetIP6DSCP(DSCP)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the differentiated services code point of IPv6 packets (RFC 2474). The network header
//! annotation must be set.
//!
//! ## Arguments
//! - DSCP: 0 to 63.
//!
//! ## Handlers
//! - `dscp` (read, write): DSCP.
//!
//! ## See also
//! `SetIPDSCP`

use crate::prelude::*;
use crate::shared::fields::{be16, set};

/// Sets the code point of IPv6 packets.
#[derive(Default)]
pub(crate) struct SetIP6DSCP {
    dscp: super::Bits<63>,
}

impl Class for SetIP6DSCP {
    const INFO: ClassInfo = ClassInfo::new("SetIP6DSCP", "1/1").inline();
}

impl Element for SetIP6DSCP {
    arguments! { this, given;
        mandatory "DSCP": super::Bits<63> => this.dscp;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            if let Some(header) = packet.network_header_mut()
                && let Some(first) = be16(header, 0)
            {
                // The word holds: version, six bits of code point, two bits of congestion, flow
                // label.
                let first = first & 0xf03f | u16::from(self.dscp.0) << 6;
                set(header, 0, first.to_be_bytes());
            }
        }
    }

    handlers! { this, context, value; both "dscp" => this.dscp; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_rest_of_the_word_stays() {
        let mut bench = Bench::new("SetIP6DSCP", &["46"]);
        let mut packet = bench.arena.packet(&[0x6f, 0xff, 1]).unwrap();
        packet.set_network_header(0, 0);
        assert_eq!(bench.push_packets(0, vec![packet]), [(0, vec![0x6b, 0xbf, 1])]);
    }
}
