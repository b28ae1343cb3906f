//! `ToHost` outside of a node: the other side of what `FromHost` has made.
//!
//! Its manual page is the library's.

use std::any::Any;

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, handlers,
};
use nix::unistd::write;

use super::from_host::{FromHost, Shared};
use super::{ETHERNET, TAG};

/// Gives packets to Linux.
#[derive(Default)]
pub(crate) struct ToHost {
    name: String,
    made: Shared,
    mtu: usize,
    count: u64,
    drops: u64,
}

impl Class for ToHost {
    const INFO: ClassInfo = ClassInfo::new("ToHost", "1/0").processing("h/h");
}

impl Element for ToHost {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        arguments.keyword::<bool>("SNIFFERS")?;
        arguments.keyword::<String>("TYPE")?;
        self.name = arguments.mandatory("DEVNAME")?;
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        // It may be initialised later than this.
        let found = (0..context.names().len()).find_map(|index| {
            let element: &mut dyn Any = context.element(index)?;
            element.downcast_mut::<FromHost>()?.share(&self.name)
        });
        let none = || ConfigError::other(format!("no FromHost with device '{}'", self.name));
        (self.made, self.mtu) = found.ok_or_else(none)?;
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        let made = self.made.borrow();
        for packet in batch.drain() {
            let data = packet.data();
            let fits = (ETHERNET..=self.mtu + ETHERNET + TAG).contains(&data.len());
            let taken = made.as_ref().is_some_and(|made| fits && write(made, data).is_ok());
            *if taken { &mut self.count } else { &mut self.drops } += 1;
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "drops" => this.drops;
    }
}
