//! # StaticPullSwitch
//!
//! ## Synopsis
//! `StaticPullSwitch(INPUT)`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Gets packets from one of its inputs only, always the same.
//!
//! ## Arguments
//! - INPUT: number of an input; negative for none.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PullSwitch`, `StaticSwitch`

use super::pull_switch::PullSwitch;
use crate::prelude::*;

/// Pulls from one input.
#[derive(Default)]
pub(crate) struct StaticPullSwitch(PullSwitch);

impl Class for StaticPullSwitch {
    const INFO: ClassInfo = ClassInfo::new("StaticPullSwitch", "-/1").processing("l/l").inline();
}

impl Element for StaticPullSwitch {
    arguments! { this, given;
        let input = mandatory "INPUT": i32;
        then {
            this.0 = PullSwitch::set_up(input, given)?;
        }
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.pull(port, max, batch, context);
    }
}
