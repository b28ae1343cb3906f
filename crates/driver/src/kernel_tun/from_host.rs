//! `FromHost` outside of a node: there is no slow path, so the element makes the device itself.
//!
//! The manual page is that of the library's element.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use europa_engine::{
    Class, ClassInfo, ConfigError, Context, Element, InitContext, Interest, Ipv4Prefix, arguments,
    handlers,
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
    arguments! { this, given;
        mandatory "DEVNAME": String, with Some => this.tap.name;
        let near = positional "DST": Ipv4Prefix;
        keyword "ETHER": [u8; 6] => this.tap.mac;
        keyword "GATEWAY": Ipv4Addr => this.tap.gateway;
        keyword "HEADROOM": usize = 64, with |bytes| bytes.min(8192) => this.tap.headroom;
        keyword "MTU": usize = 1500 => this.tap.mtu;
        keyword "TYPE": String => _;
        keyword "SNIFFER": String => _;
        keyword "CAPACITY": String => _;
        then {
            this.tap.tap = true;
            this.tap.burst = europa_engine::BATCH;
            this.tap.near = near.unwrap_or(this.tap.near);
            if !(20..=65535).contains(&this.tap.mtu) {
                return Err(ConfigError::other("MTU must be greater than 20"));
            }
        }
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
