//! `FromHost` outside of a node: there is no slow path, so it makes the device itself.
//!
//! The library's element has its manual page.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use europa_engine::{
    Arguments, Class, ClassInfo, ConfigError, Context, Element, InitContext, Interest, handlers,
};

use super::KernelTun;

/// The device, once it is made.
pub(crate) type Shared = Rc<RefCell<Option<Rc<OwnedFd>>>>;

/// A tap device of this name.
#[derive(Default)]
pub(crate) struct FromHost {
    tap: KernelTun,
    made: Shared,
}

impl Class for FromHost {
    const INFO: ClassInfo = ClassInfo::new("FromHost", "0/1").processing("h/h");
}

impl FromHost {
    /// The device, if it has this name, and the longest packet that it accepts.
    pub(super) fn share(&self, name: &str) -> Option<(Shared, usize)> {
        (self.tap.name.as_deref() == Some(name)).then(|| (self.made.clone(), self.tap.mtu))
    }
}

impl Element for FromHost {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.tap.tap = true;
        self.tap.burst = europa_engine::BATCH;
        self.tap.mac = arguments.keyword("ETHER")?;
        self.tap.gateway = arguments.keyword("GATEWAY")?;
        self.tap.headroom = arguments.keyword("HEADROOM")?.unwrap_or(64).min(8192);
        self.tap.mtu = arguments.keyword("MTU")?.unwrap_or(1500);
        for ignored in ["TYPE", "SNIFFER", "CAPACITY"] {
            arguments.keyword::<String>(ignored)?;
        }
        self.tap.name = Some(arguments.mandatory("DEVNAME")?);
        if let Some(near) = arguments.positional("DST")? {
            self.tap.near = near;
        }
        if !(20..=65535).contains(&self.tap.mtu) {
            return Err(ConfigError::other("MTU must be greater than 20"));
        }
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.tap.initialize(context)?;
        self.made.borrow_mut().clone_from(&self.tap.descriptor);
        Ok(())
    }

    fn descriptor_ready(&mut self, token: u32, interest: Interest, context: &mut Context<'_>) {
        self.tap.descriptor_ready(token, interest, context);
    }

    handlers! { this, context, value;
        read "dev_name" => this.tap.device;
        read "count" => this.tap.packets;
    }

    fn cleanup(&mut self, log: &mut dyn FnMut(&str)) {
        self.made.borrow_mut().take();
        self.tap.cleanup(log);
    }
}
