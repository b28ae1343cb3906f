//! # FilterTX
//!
//! ## Synopsis
//! `FilterTX()`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Removes frames that this host has sent and the driver has returned: they leave by output 1, or
//! are dropped if it is not connected.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): own frames.
//!
//! ## See also
//! `ExtraDecap`, `RadiotapDecap`, `ProbeTXRate`

use super::extra::SENT;
use super::filter_phy_err::filter;
use crate::prelude::*;

/// Takes own frames out.
#[derive(Default)]
pub(crate) struct FilterTX {
    drops: u64,
}

impl Class for FilterTX {
    const INFO: ClassInfo = ClassInfo::new("FilterTX", "1/1-2").processing("a/ah");
}

impl Element for FilterTX {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.drops += filter(batch, SENT, context);
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}
