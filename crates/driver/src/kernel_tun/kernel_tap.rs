//! # KernelTap
//!
//! ## Synopsis
//! `KernelTap(ADDR/MASK [, GATEWAY, BURST, HEADROOM, ETHER, MTU, DEVNAME, IGNORE_QUEUE_OVERFLOWS])`
//!
//! ## Ports
//! At most one input, push or pull, and one push output.
//!
//! ## Description
//! Like `KernelTun`, but with Ethernet frames: a tap device. Linux resolves the addresses of the
//! subnet by ARP, and only the configuration answers. Frames to Linux must have the address ETHER
//! as their destination.
//!
//! ## Arguments
//! See `KernelTun`.
//!
//! ## Handlers
//! See `KernelTun`.
//!
//! ## See also
//! `KernelTun`, `ARPResponder`

use europa_engine::{
    Argument, Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler,
    HandlerError, InitContext, Interest,
};

use super::KernelTun;

/// A tap device.
#[derive(Default)]
pub(crate) struct KernelTap(KernelTun);

impl Class for KernelTap {
    const INFO: ClassInfo = ClassInfo::new("KernelTap", "0-1/1-2").processing("a/h").flow("x/y");
}

impl Element for KernelTap {
    fn arguments(&self) -> &'static [Argument] {
        self.0.arguments()
    }

    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.0.make_tap();
        self.0.configure(arguments)
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.0.initialize(context)
    }

    fn descriptor_ready(&mut self, token: u32, interest: Interest, context: &mut Context<'_>) {
        self.0.descriptor_ready(token, interest, context);
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(port, batch, context);
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        self.0.run_task(context)
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

    fn cleanup(&mut self, log: &mut dyn FnMut(&str)) {
        self.0.cleanup(log);
    }
}
