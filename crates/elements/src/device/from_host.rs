//! # FromHost
//!
//! ## Synopsis
//! `FromHost(DEVNAME [, ADDRESS, keywords])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Receives the frames that the router's own Linux, its slow path, sends on one of the router's
//! interfaces: whole Ethernet frames, usually for `ToDevice` of the same interface. Packets carry
//! the place of the Ethernet header.
//!
//! In `europa click`, which has no slow path, it makes a tap device of this name. The device gets
//! the address and subnet ADDRESS if it is given. The element receives the frames that Linux sends
//! on it.
//!
//! ## Arguments
//! - DEVNAME: name of the interface.
//! - ADDRESS, and ETHER, GATEWAY, MTU, HEADROOM (keywords): settings of a tap device. In a node the
//!   YAML has the settings of the slow path's devices.
//! - TYPE, SNIFFER, CAPACITY (keywords): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `count` (read): packets received.
//! - `dev_name` (read): the name of the tap device.
//!
//! ## See also
//! `ToHost`, `FromDevice`

use europa_engine::{
    BATCH, Class, ClassInfo, ConfigError, Context, Element, InitContext, arguments, handlers,
};

use crate::device::to_host::host_side;

/// Receives from Linux.
#[derive(Default)]
pub(crate) struct FromHost {
    name: String,
    interface: usize,
    count: u64,
}

impl Class for FromHost {
    const INFO: ClassInfo =
        ClassInfo::new("FromHost", "0/1").processing("h/h").inline().keeps_long();
}

impl Element for FromHost {
    arguments! { this, given;
        mandatory "DEVNAME": String => this.name;
        positional "ADDRESS": String => _;
        keyword "ETHER": String => _;
        keyword "GATEWAY": String => _;
        keyword "TYPE": String => _;
        keyword "MTU": String => _;
        keyword "HEADROOM": String => _;
        keyword "SNIFFER": String => _;
        keyword "CAPACITY": String => _;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.interface = host_side(&self.name, context)?;
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        context.devices().rx(self.interface, &mut batch, BATCH);
        let count = batch.len();
        if count > 0 {
            self.count += count as u64;
            for packet in &mut batch {
                packet.set_mac_header(0);
            }
            context.push_batch(0, &mut batch);
        }
        context.give_batch(batch);
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_is_missing_is_named() {
        let error = Bench::error("FromHost", &["eth9"]);
        assert_eq!(error, "DEVNAME: this router has no interface 'eth9' in a slow path");
    }
}
