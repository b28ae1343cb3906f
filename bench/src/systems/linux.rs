//! Linux forwarding: the kernel's own IPv4 router.

use crate::error::Result;
use crate::sink::Hook;
use crate::systems::{Arrangement, Placement, System};
use crate::testbed::Testbed;

/// Linux forwarding.
pub(crate) struct Linux;

impl System for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn available(&self) -> Result<(), String> {
        Ok(())
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        let placements =
            [Placement::Sender, Placement::RouterThread, Placement::SinkThread, Placement::Steered];
        let with = |sink| placements.map(|placement| Arrangement { placement, sink });
        [with(Hook::Tcx), with(Hook::Xdp)].concat()
    }

    fn hops(&self) -> u8 {
        1
    }

    fn sends_frames(&self) -> bool {
        false
    }

    fn setup(&mut self, testbed: &Testbed) -> Result<()> {
        testbed.configure_linux_router()
    }

    fn teardown(&mut self, _: &Testbed) -> Result<()> {
        Ok(())
    }
}
