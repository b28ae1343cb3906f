//! # MultiReplayUnqueue
//!
//! ## Synopsis
//! `MultiReplayUnqueue([keywords])`
//!
//! ## Ports
//! At least one pull input, as many push outputs.
//!
//! ## Description
//! Replays packets as `ReplayUnqueue` does, those of all inputs in the order of their times.
//!
//! ## Arguments
//! Those of `ReplayUnqueue`.
//!
//! ## Handlers
//! Those of `ReplayUnqueue`.
//!
//! ## See also
//! `ReplayUnqueue`

use std::any::Any;

use super::replay_unqueue::ReplayUnqueue;
use crate::prelude::*;

/// Replays packets of several inputs in the order of their times.
#[derive(Default)]
pub(crate) struct MultiReplayUnqueue(ReplayUnqueue);

impl Class for MultiReplayUnqueue {
    const INFO: ClassInfo =
        ClassInfo::new("MultiReplayUnqueue", "1-/=").processing("l/h").flow("#/#");
}

impl Element for MultiReplayUnqueue {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.0.merge = true;
        self.0.configure(arguments)
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.0.run_task(context)
    }

    fn take_state(&mut self, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut::<Self>() {
            self.0.take_over(&mut old.0);
        }
    }

    delegate!(reading 0);

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        self.0.write(handler, value, context)
    }
}
