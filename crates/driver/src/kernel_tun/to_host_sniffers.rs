//! # ToHostSniffers
//!
//! ## Synopsis
//! `ToHostSniffers([DEVNAME, TYPE, ...])`
//!
//! ## Ports
//! One push input.
//!
//! ## Description
//! Shows packets to programs that listen to a device of Linux, such as tcpdump, as if they had
//! arrived by it. Linux itself does not get them, nor does a `FromDevice` of `europa click`.
//!
//! A program that listens for only one protocol does not see them, because Linux passes packets to
//! such programs later.
//!
//! A program that listens to all frames already sees those that arrive at a device. If
//! `FromDevice`'s frames come here, it sees them twice, as with Click's module in a kernel without
//! Click's patch.
//!
//! Only in `europa click`.
//!
//! ## Arguments
//! - DEVNAME: name of the interface. Without it, the interface that each packet came in by is used.
//!   Packets that the router has made count as packets of the configuration's first interface.
//! - SNIFFERS (keyword): if false, packets go to Linux, as with `ToHost`; default true.
//! - TYPE, QUIET, ALLOW_NONEXISTENT, UP_CALL, DOWN_CALL (keywords): see `ToHost`.
//!
//! ## Handlers
//! - `count` (read): packets shown.
//! - `drops` (read): packets that could not be shown.
//!
//! ## See also
//! `ToHost`, `FromDevice`, `PollDevice`

use europa_engine::{
    Argument, Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler,
    HandlerError, InitContext,
};

use super::to_host::ToHost;

/// Shows packets to programs that listen to a device.
pub(crate) struct ToHostSniffers(ToHost);

impl Default for ToHostSniffers {
    fn default() -> ToHostSniffers {
        let mut inner = ToHost::default();
        inner.sniffers = true;
        ToHostSniffers(inner)
    }
}

impl Class for ToHostSniffers {
    const INFO: ClassInfo = ClassInfo::new("ToHostSniffers", "1/0").processing("h/h");
}

impl Element for ToHostSniffers {
    fn arguments(&self) -> &'static [Argument] {
        self.0.arguments()
    }

    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.0.configure(arguments)
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(port, batch, context);
    }

    fn handlers(&self) -> &'static [Handler] {
        self.0.handlers()
    }

    fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        self.0.read(handler, parameter, context)
    }
}
