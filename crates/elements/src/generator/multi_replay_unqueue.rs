//! # MultiReplayUnqueue
//!
//! ## Synopsis
//! `MultiReplayUnqueue([keywords])`
//!
//! ## Ports
//! At least one pull input, as many push outputs.
//!
//! ## Description
//! Replays packets as `ReplayUnqueue` does, but merges the packets of all inputs in the order of
//! their times.
//!
//! ## Arguments
//! Those of `ReplayUnqueue`.
//!
//! ## Handlers
//! Those of `ReplayUnqueue`.
//!
//! ## See also
//! `ReplayUnqueue`

use super::replay_unqueue::ReplayUnqueue;
use crate::prelude::*;

/// Replays packets of several inputs in the order of their times.
pub(crate) struct MultiReplayUnqueue(ReplayUnqueue);

impl Default for MultiReplayUnqueue {
    fn default() -> MultiReplayUnqueue {
        let mut inner = ReplayUnqueue::default();
        inner.merge = true;
        MultiReplayUnqueue(inner)
    }
}

impl Class for MultiReplayUnqueue {
    const INFO: ClassInfo =
        ClassInfo::new("MultiReplayUnqueue", "1-/=").processing("l/h").flow("#/#");
}

impl Element for MultiReplayUnqueue {
    delegate!(arguments 0);

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.0.run_task(context)
    }

    keep! { this, old;
        then {
            this.0.take_over(&mut old.0);
        }
    }

    delegate!(handlers 0);
}
