//! # SimplePrioSched
//!
//! ## Synopsis
//! `SimplePrioSched`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Pulls packets from the first input that has a packet. The same as `PrioSched`.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PrioSched`

use super::prio_sched::PrioSched;
use crate::prelude::*;

/// Pulls in order of rank.
#[derive(Default)]
pub(crate) struct SimplePrioSched(PrioSched);

impl Class for SimplePrioSched {
    const INFO: ClassInfo = ClassInfo::new("SimplePrioSched", "-/1").processing("l/l").inline();
}

impl Element for SimplePrioSched {
    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.pull(port, max, batch, context);
    }
}
