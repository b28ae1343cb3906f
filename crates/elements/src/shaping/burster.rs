//! # Burster
//!
//! ## Synopsis
//! `Burster(INTERVAL [, BURST])`
//!
//! ## Ports
//! One pull input, one push output.
//!
//! ## Description
//! Every INTERVAL, pulls up to BURST packets and pushes them on. `TimedUnqueue` with another BURST.
//!
//! ## Arguments
//! - INTERVAL: seconds.
//! - BURST: packets, default 8.
//!
//! ## Handlers
//! - `interval`, `burst` (read, write): see the arguments.
//!
//! ## See also
//! `TimedUnqueue`

use super::timed_unqueue::TimedUnqueue;
use crate::prelude::*;

/// Pulls now and then.
pub(crate) struct Burster(TimedUnqueue);

impl Default for Burster {
    fn default() -> Burster {
        Burster(TimedUnqueue { burst: 8, ..TimedUnqueue::default() })
    }
}

impl Class for Burster {
    const INFO: ClassInfo = ClassInfo::new("Burster", "1/1").processing("l/h");
}

impl Element for Burster {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.0.configure(arguments)
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        self.0.run_timer(timer, context);
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
