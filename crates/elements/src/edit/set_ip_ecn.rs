//! # SetIPECN
//!
//! ## Synopsis
//! `SetIPECN(ECN)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the congestion field of IPv4 packets (RFC 3168) and corrects the header's checksum. The
//! network header annotation must be set.
//!
//! ## Arguments
//! - ECN: 0 to 3, or `no` (0), `ect1` (1), `ect2` (2), `ce` (3).
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `MarkIPCE`, `SetIPDSCP`

use super::Bits;
use crate::prelude::*;
use crate::shared::fields::set_tos;

/// Sets the congestion field of IPv4 packets.
#[derive(Default)]
pub(crate) struct SetIPECN {
    ecn: u8,
}

impl Class for SetIPECN {
    const INFO: ClassInfo = ClassInfo::new("SetIPECN", "1/1").inline();
}

impl Element for SetIPECN {
    arguments! { this, given;
        let word = mandatory "ECN": String;
        then {
            this.ecn = match word.as_str() {
                "no" => 0,
                "ect1" => 1,
                "ect2" => 2,
                "ce" => 3,
                other => given.value::<Bits<3>>("ECN", 0, other)?.0,
            };
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            set_tos(packet, 3, self.ecn);
        }
    }
}
