//! # SetTXRate
//!
//! ## Synopsis
//! `SetTXRate([RATE, TRIES, ETHTYPE, OFFSET])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the annotations for the rate at which the radio sends each frame, and for how often it may
//! try.
//!
//! ## Arguments
//! - RATE: in units of 500 kb/s; 0, the default, stands for 2, which is 1 Mb/s.
//! - TRIES (keyword): default 12.
//! - ETHTYPE (keyword): handle only frames of this Ethernet type; default 0: all.
//! - OFFSET (keyword): offset of their Ethernet header, default 0.
//!
//! ## Handlers
//! - `rate`, `tries` (read, write): see the arguments.
//!
//! ## See also
//! `SetTXPower`, `ProbeTXRate`, `ExtraEncap`, `RadiotapEncap`

use super::Extra;
use crate::prelude::*;
use crate::shared::fields::be16;

/// Sets rates.
#[derive(Default)]
pub(crate) struct SetTXRate {
    rate: u8,
    tries: u8,
    ether_type: u16,
    offset: usize,
}

impl Class for SetTXRate {
    const INFO: ClassInfo = ClassInfo::new("SetTXRate", "1/1");
}

impl Element for SetTXRate {
    arguments! { this, given;
        positional "RATE": u8 = 0 => this.rate;
        keyword "TRIES": u8 = 12 => this.tries;
        keyword "ETHTYPE": u16 = 0 => this.ether_type;
        keyword "OFFSET": usize = 0 => this.offset;
        then {
            if this.tries == 0 {
                return Err(ConfigError::other("TRIES must be > 0"));
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let at = self.offset.saturating_add(12);
        for packet in batch {
            if self.ether_type != 0 && be16(packet.data(), at) != Some(self.ether_type) {
                continue;
            }
            let mut extra = Extra::of(packet).marked();
            extra.rates[0] = if self.rate == 0 { 2 } else { self.rate };
            extra.tries[0] = self.tries;
            extra.store(packet);
        }
    }

    handlers! { this, context, value;
        both "rate" => this.rate;
        both "tries" => this.tries;
    }
}
