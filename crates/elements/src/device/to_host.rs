//! # ToHost
//!
//! ## Synopsis
//! `ToHost([DEVNAME, SNIFFERS, TYPE, KEEP])`
//!
//! ## Ports
//! One push input.
//!
//! ## Description
//! Gives packets (whole Ethernet frames) to the router's own Linux, its slow path, as if they had
//! arrived by an interface there.
//!
//! In `europa click`, gives packets to the tap device that `FromHost` has made under this name, or
//! to Linux as if they had arrived by a device of this name. Linux handles a packet according to
//! its type, as `FromDevice` or `SetPacketType` sets it, with any Ethernet address. This needs
//! Linux 6.6.
//!
//! ## Arguments
//! - DEVNAME: name of the interface. Without it, the interface that each packet came in by is used.
//!   Packets that the router has made count as packets of its first interface.
//! - KEEP (keyword): places of the queue to Linux that stay free for other elements; default 0, at
//!   most a quarter of all places. `europa click` accepts it without effect.
//! - SNIFFERS (keyword): in `europa click`, if true, only programs that listen to the device, such
//!   as tcpdump, get the packets; default false.
//! - TYPE (keyword): in `europa click`, ETHER, the default, or IP for packets without an Ethernet
//!   header.
//! - QUIET, ALLOW_NONEXISTENT, UP_CALL, DOWN_CALL (keywords): accepted as in Click, without
//!   effect.
//!
//! ## Handlers
//! - `count` (read): packets given.
//! - `drops` (read): in `europa click`, packets that Linux did not take.
//!
//! ## See also
//! `FromHost`, `FromDevice`, `ToHostSniffers`, `PollDevice`

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, Packet, arguments,
    handlers,
};

/// Number of the interface to Linux's side of the interface with this name.
pub(crate) fn host_side(name: &str, context: &InitContext<'_>) -> Result<usize, ConfigError> {
    context.interface(&format!("{name}@host")).map(|(index, _)| index).ok_or_else(|| {
        let message = format!("DEVNAME: this router has no interface '{name}' in a slow path");
        ConfigError::other(message)
    })
}

/// Gives packets to Linux.
#[derive(Default)]
pub(crate) struct ToHost {
    name: Option<String>,
    interface: Option<usize>,
    keep: u32,
    count: u64,
}

impl Class for ToHost {
    const INFO: ClassInfo = ClassInfo::new("ToHost", "1/0").processing("h/h").inline().keeps_long();
}

impl Element for ToHost {
    arguments! { this, given;
        positional "DEVNAME": String => this.name;
        keyword "KEEP": u32 = 0 => this.keep;
        keyword "SNIFFERS": bool => _;
        keyword "QUIET": bool => _;
        keyword "ALLOW_NONEXISTENT": bool => _;
        keyword "TYPE": String => _;
        keyword "UP_CALL": String => _;
        keyword "DOWN_CALL": String => _;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some(name) = &self.name else { return Ok(()) };
        let Some((index, _)) = context.interface(name) else {
            let message = format!("DEVNAME: this router has no interface '{name}'");
            return Err(ConfigError::other(message));
        };
        self.interface = Some(index);
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.count += batch.len() as u64;
        if let Some(interface) = self.interface {
            context.devices().to_host(interface, batch, self.keep);
            return;
        }
        let mut run = context.take_batch();
        while let Some(interface) = batch.iter().next().map(Packet::interface) {
            let same = batch.iter().take_while(|packet| packet.interface() == interface).count();
            for packet in batch.drain_front(same) {
                // The batch has room: the run is not longer than the batch it comes from.
                let _ = run.push(packet);
            }
            context.devices().to_host(usize::from(interface), &mut run, self.keep);
        }
        context.give_batch(run);
    }

    handlers! { this, context, value;
        read "count" => this.count;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::device_router;

    #[test]
    fn goes_to_the_interface_it_came_by_unless_told_otherwise() {
        for (arguments, interface) in [(&[][..], 1), (&["eth0"], 0)] {
            let (mut router, mut devices) =
                device_router(&[("from", "FromDevice", &["eth1"]), ("to", "ToHost", arguments)]);
            devices.received[1] = vec![b"a".to_vec(), b"b".to_vec()];
            router.run_once(0, &mut devices);
            assert_eq!(devices.host[interface], [b"a".to_vec(), b"b".to_vec()]);
        }
    }
}
