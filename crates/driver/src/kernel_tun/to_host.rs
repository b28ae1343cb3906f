//! `ToHost` outside of a node: it gives packets to the device of `FromHost`, or to a device of
//! Linux.
//!
//! The manual page is that of the library's element.

use std::any::Any;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, Packet, arguments,
    handlers,
};
use nix::unistd::write;

use super::from_host::{FromHost, Shared};
use super::{ETHERNET, TAG};

/// An Ethernet header; Linux uses only its type.
const HEADER: [u8; ETHERNET] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00];

/// The destination of packets.
#[derive(Default)]
enum Way {
    /// The interface where each packet arrived.
    #[default]
    Any,
    Interface(usize),
    /// A tap device, and the longest packet that it accepts.
    Tap(Shared, usize),
}

/// Gives packets to Linux.
#[derive(Default)]
pub(crate) struct ToHost {
    name: Option<String>,
    way: Way,
    /// Whether only programs that listen to the device get the packets.
    pub(super) sniffers: bool,
    /// Packets begin with an IP header.
    ip: bool,
    count: u64,
    drops: u64,
}

impl Class for ToHost {
    const INFO: ClassInfo = ClassInfo::new("ToHost", "1/0").processing("h/h");
}

impl ToHost {
    /// Gives a batch to one interface.
    fn give(&mut self, interface: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let count = batch.len() as u64;
        let devices = context.devices();
        match self.sniffers {
            true => devices.to_sniffers(interface, batch),
            false => devices.to_host(interface, batch, 0),
        }
        let drops = devices.take_refused(interface).frames.min(count);
        self.count += count - drops;
        self.drops += drops;
    }

    /// Gives each packet to the interface where it arrived.
    fn give_each(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let mut run = context.take_batch();
        while let Some(interface) = batch.iter().next().map(Packet::interface) {
            let same = batch.iter().take_while(|packet| packet.interface() == interface).count();
            for packet in batch.drain_front(same) {
                // The batch has room: the run is not longer than the batch it comes from.
                let _ = run.push(packet);
            }
            self.give(usize::from(interface), &mut run, context);
        }
        context.give_batch(run);
    }
}

/// Puts an Ethernet header before an IP packet. `false` if there is no room.
fn encapsulate(packet: &mut Packet) -> bool {
    let version = packet.data().first().map_or(0, |byte| byte >> 4);
    let mut header = HEADER;
    if version == 6 {
        (header[12], header[13]) = (0x86, 0xdd);
    }
    packet.push_bytes(&header).is_some()
        || packet.set_headroom(64).and_then(|()| packet.push_bytes(&header)).is_some()
}

impl Element for ToHost {
    arguments! { this, given;
        positional "DEVNAME": String => this.name;
        let sniffers = keyword "SNIFFERS": bool;
        let kind = keyword "TYPE": String = "ETHER".to_owned();
        // Packets do not wait on the way to Linux here, so there are no places to keep free.
        keyword "KEEP": u32 => _;
        keyword "QUIET": bool => _;
        keyword "ALLOW_NONEXISTENT": bool => _;
        keyword "UP_CALL": String => _;
        keyword "DOWN_CALL": String => _;
        then {
            this.sniffers = sniffers.unwrap_or(this.sniffers);
            this.ip = match kind.as_str() {
                "ETHER" => false,
                "IP" => true,
                _ => return Err(ConfigError::other("TYPE must be ETHER or IP")),
            };
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some(name) = &self.name else { return Ok(()) };
        // The other element may be initialised later than this one.
        let found = (0..context.names().len()).find_map(|index| {
            let element: &mut dyn Any = context.element(index)?;
            element.downcast_mut::<FromHost>()?.share(name)
        });
        self.way = match (found, context.interface(name)) {
            (Some((made, mtu)), _) => Way::Tap(made, mtu),
            (None, Some((interface, _))) => Way::Interface(interface),
            (None, None) => {
                let message = format!("no FromHost with device '{name}', and no such interface");
                return Err(ConfigError::other(message));
            }
        };
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if self.ip {
            let before = batch.len();
            batch.retain(encapsulate);
            self.drops += (before - batch.len()) as u64;
        }
        match &self.way {
            Way::Any => self.give_each(batch, context),
            Way::Interface(interface) => self.give(*interface, batch, context),
            Way::Tap(made, mtu) => {
                let made = made.borrow();
                for packet in batch.drain() {
                    let data = packet.data();
                    let fits = (ETHERNET..=mtu + ETHERNET + TAG).contains(&data.len());
                    let taken = made.as_ref().is_some_and(|made| fits && write(made, data).is_ok());
                    *if taken { &mut self.count } else { &mut self.drops } += 1;
                }
            }
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "drops" => this.drops;
    }
}
