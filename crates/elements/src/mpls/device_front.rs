//! # DeviceFront
//!
//! ## Synopsis
//! `DeviceFront(DEVNAME)`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Hands packets to the configuration's `FromDevice(DEVNAME)`, as if they had arrived there. That
//! element then receives nothing from the interface itself. Europa adds this element, with another
//! `FromDevice(DEVNAME)` before it, to a configuration whose interface signals flows: labelled
//! packets and RSVP messages do not reach the configuration.
//!
//! The router's process connects the output when it builds the graph. If the configuration has no
//! `FromDevice(DEVNAME)`, the packets leave by the written connection. An interface that a
//! configuration receives from in two places is refused. In `europa click` the written connection
//! holds.
//!
//! ## Arguments
//! - DEVNAME: name of the interface.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `FromDevice`, `LabelSwitch`

use crate::prelude::*;

/// Hands packets to the configuration's own `FromDevice`.
#[derive(Default)]
pub(crate) struct DeviceFront;

impl Class for DeviceFront {
    const INFO: ClassInfo =
        ClassInfo::new("DeviceFront", "1/1").processing("h/h").inline().keeps_long();
}

impl Element for DeviceFront {
    arguments! { this, given;
        mandatory "DEVNAME": String => _;
    }

    fn process(&mut self, _: &mut Batch, _: &mut Context<'_>) {}
}
