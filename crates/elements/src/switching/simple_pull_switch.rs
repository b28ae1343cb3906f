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
    const INFO: ClassInfo = ClassInfo::new("SimplePullSwitch", "-/1").processing("l/l");
}

impl Element for SimplePullSwitch {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.0.configure(arguments)
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.pull(port, max, batch, context);
    }

    fn handlers(&self) -> &'static [Handler] {
        self.0.handlers()
    }

    fn read(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        self.0.read(handler, value, context)
    }

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        self.0.write(handler, value, context)
    }
}
