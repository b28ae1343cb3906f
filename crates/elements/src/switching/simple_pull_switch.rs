//! # SimplePullSwitch
//!
//! ## Synopsis
//! `SimplePullSwitch([INPUT])`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Gets packets from one of its inputs only. The same as `PullSwitch`.
//!
//! ## Arguments
//! - INPUT: number of an input, default 0; negative for none.
//!
//! ## Handlers
//! - `switch` (read, write): INPUT.
//!
//! ## See also
//! `PullSwitch`

use super::pull_switch::PullSwitch;
use crate::prelude::*;

/// Pulls from one input.
#[derive(Default)]
pub(crate) struct SimplePullSwitch(PullSwitch);

impl Class for SimplePullSwitch {
    const INFO: ClassInfo = ClassInfo::new("SimplePullSwitch", "-/1").processing("l/l").inline();
}

impl Element for SimplePullSwitch {
    fn notifies(&self) -> Notifies {
        Notifies::NOTHING
    }

    delegate!(but notifies);
}
