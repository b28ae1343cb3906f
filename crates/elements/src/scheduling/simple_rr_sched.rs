//! # SimpleRRSched
//!
//! ## Synopsis
//! `SimpleRRSched`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Pulls packets from its inputs in turn. The same as `RoundRobinSched`.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `RoundRobinSched`

use super::round_robin_sched::RoundRobinSched;
use crate::prelude::*;

/// Pulls in turn.
#[derive(Default)]
pub(crate) struct SimpleRRSched(RoundRobinSched);

impl Class for SimpleRRSched {
    const INFO: ClassInfo = ClassInfo::new("SimpleRRSched", "-/1").processing("l/l").inline();
}

impl Element for SimpleRRSched {
    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.pull(port, max, batch, context);
    }
}
