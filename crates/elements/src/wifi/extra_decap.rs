//! # ExtraDecap
//!
//! ## Synopsis
//! `ExtraDecap()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Removes the 24 bytes that drivers made for Click put before an IEEE 802.11 frame. It records
//! their contents as annotations: signal, noise, rate, whether this host sent the frame. Frames
//! without these bytes pass unchanged.
//!
//! ## Arguments
//! - DEBUG (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `ExtraEncap`, `Prism2Decap`, `RadiotapDecap`, `FilterTX`

use super::Extra;
use crate::prelude::*;

/// Takes notes off frames.
#[derive(Default)]
pub(crate) struct ExtraDecap {
    debug: bool,
}

impl Class for ExtraDecap {
    const INFO: ClassInfo = ClassInfo::new("ExtraDecap", "1/1");
}

impl Element for ExtraDecap {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            if let Some(extra) = Extra::before(packet.data())
                && packet.pull(Extra::BYTES).is_some()
            {
                extra.store(packet);
            }
        }
    }

    handlers! { this, context, value; both "debug" [CHECKBOX] => this.debug; }
}
