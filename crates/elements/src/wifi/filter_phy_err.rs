//! # FilterPhyErr
//!
//! ## Synopsis
//! `FilterPhyErr()`
//!
//! ## Ports
//! One input, one to three outputs; output 0 push or pull, others push.
//!
//! ## Description
//! Removes frames that the radio marked as damaged: they leave by output 1 if the element has
//! exactly two outputs, otherwise they are dropped.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): damaged frames.
//!
//! ## See also
//! `ExtraDecap`, `RadiotapDecap`, `FilterTX`

use super::Extra;
use super::extra::DAMAGED;
use crate::prelude::*;

/// Takes damaged frames out.
#[derive(Default)]
pub(crate) struct FilterPhyErr {
    drops: u64,
}

impl Class for FilterPhyErr {
    const INFO: ClassInfo = ClassInfo::new("FilterPhyErr", "1/1-3").processing("a/ah");
}

/// Sends packets with a flag to output 1, if there is one. Returns their number.
pub(super) fn filter(batch: &mut Batch, flag: u32, context: &mut Context<'_>) -> u64 {
    let (mut count, second) = (0, context.outputs() == 2);
    batch.filter(
        |packet| !Extra::is_flagged(packet, flag),
        |packet| {
            count += 1;
            if second {
                context.push(1, packet);
            }
        },
    );
    count
}

impl Element for FilterPhyErr {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.drops += filter(batch, DAMAGED, context);
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}
