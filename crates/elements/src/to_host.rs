//! # ToHost
//!
//! ## Synopsis
//! `ToHost([DEVNAME, SNIFFERS, TYPE])`
//!
//! ## Ports
//! One push input.
//!
//! ## Description
//! Gives packets (whole Ethernet frames) to the router's own Linux, its slow path, as if they had
//! arrived by an interface there.
//!
//! In `europa click`, gives them to the tap device that `FromHost` has made under this name.
//!
//! ## Arguments
//! - DEVNAME: name of the interface; without it, in a node, the one that each packet came in by.
//! - SNIFFERS, TYPE (keywords): accepted for Click's sake; no effect.
//!
//! ## Handlers
//! - `count` (read): packets given.
//! - `drops` (read): of a tap device, packets that Linux did not take.
//!
//! ## See also
//! `FromHost`, `FromDevice`

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler, HandlerError,
    InitContext, Packet,
};

/// Number of the interface that goes to Linux's side of one of this name.
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
    count: u64,
}

impl Class for ToHost {
    const INFO: ClassInfo = ClassInfo::new("ToHost", "1/0").processing("h/h");
}

impl Element for ToHost {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.name = arguments.positional("DEVNAME")?;
        arguments.keyword::<bool>("SNIFFERS")?;
        arguments.keyword::<String>("TYPE")?;
        arguments.finish()
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
            context.devices().to_host(interface, batch);
            return;
        }
        let mut run = context.take_batch();
        while let Some(interface) = batch.iter().next().map(Packet::interface) {
            let same = batch.iter().take_while(|packet| packet.interface() == interface).count();
            for packet in batch.drain_front(same) {
                // A run is no longer than the batch it is taken from.
                let _ = run.push(packet);
            }
            context.devices().to_host(usize::from(interface), &mut run);
        }
        context.give_batch(run);
    }

    fn handlers(&self) -> &'static [Handler] {
        const { &[Handler::read("count")] }
    }

    fn read(&mut self, _: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(self.count.to_string())
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
