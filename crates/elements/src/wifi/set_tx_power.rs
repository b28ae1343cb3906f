//! # SetTXPower
//!
//! ## Synopsis
//! `SetTXPower([POWER])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the annotation for the power with which the radio sends each frame.
//!
//! ## Arguments
//! - POWER: 0, the default, to 63.
//!
//! ## Handlers
//! - `power` (read, write): see the argument.
//!
//! ## See also
//! `SetTXRate`, `ExtraEncap`, `RadiotapEncap`

use super::Extra;
use crate::prelude::*;

/// Sets the power.
#[derive(Default)]
pub(crate) struct SetTXPower {
    power: u8,
}

impl Class for SetTXPower {
    const INFO: ClassInfo = ClassInfo::new("SetTXPower", "1/1");
}

impl Element for SetTXPower {
    arguments! { this, given;
        positional "POWER": u8 = 0 => this.power;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let mut extra = Extra::of(packet).marked();
            extra.power = self.power;
            extra.store(packet);
        }
    }

    handlers! { this, context, value; both "power" => this.power; }
}
