//! # VXLANEncap
//!
//! ## Synopsis
//! `VXLANEncap(VNI)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts a VXLAN header (RFC 7348) before Ethernet frames. `UDPIPEncap(SRC, SPORT, DST, 4789, false)`
//! behind it makes the outer packet. Packets without room for the header are dropped.
//!
//! ## Arguments
//! - VNI: number of the network, 24 bits.
//!
//! ## Handlers
//! - `vni` (read, write): see VNI.
//!
//! ## See also
//! `VXLANDecap`, `UDPIPEncap`, `GREEncap`

use super::bounded;
use crate::prelude::*;
use crate::shared::fields::{grow_front, set};

/// Puts VXLAN headers before frames.
#[derive(Default)]
pub(crate) struct VXLANEncap(u32);

impl Class for VXLANEncap {
    const INFO: ClassInfo = ClassInfo::new("VXLANEncap", "1/1").inline();
}

impl Element for VXLANEncap {
    arguments! { this, given;
        let network = mandatory "VNI": u32;
        then {
            this.0 = bounded("VNI", network, 24)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let number = (self.0 << 8).to_be_bytes();
        batch.retain(|packet| {
            let Some(header) = grow_front(packet, 8) else { return false };
            set(header, 0, [8]);
            set(header, 4, number)
        });
    }

    handlers! { this, context, value;
        both "vni" => this.0, set {
            this.0 = bounded("vni", parse("vni", value)?, 24)
                .map_err(|error| HandlerError::Other(error.to_string()))?;
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_header_is_right() {
        let mut bench = Bench::new("VXLANEncap", &["0x010203"]);
        let out = bench.push(0, &[b"frame"]);
        assert_eq!(out, [(0, b"\x08\0\0\0\x01\x02\x03\0frame".to_vec())]);
        assert!(bench.router.write("e.vni", "16777216").is_err());
        let error = Bench::error("VXLANEncap", &["16777216"]);
        assert_eq!(error, "VNI: expected 0 to 16777215, found '16777216'");
    }
}
