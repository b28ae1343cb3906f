//! DPDK's testpmd over AF_XDP, in user space: changes Ethernet addresses and sends.

use crate::error::Result;
use crate::sink::Hook;
use crate::systems::{Arrangement, Placement, System};
use crate::testbed::Testbed;
use crate::testpmd::{self, Running};

/// One testpmd between both ports, which does not route.
#[derive(Default)]
pub(crate) struct Testpmd(Option<Running>);

impl System for Testpmd {
    fn name(&self) -> &'static str {
        "testpmd-af-xdp"
    }

    fn available(&self) -> Result<(), String> {
        testpmd::knows_af_xdp()
    }

    fn arrangements(&self) -> Vec<Arrangement> {
        [Hook::Tcx, Hook::Xdp].map(|sink| Arrangement { placement: Placement::Own, sink }).to_vec()
    }

    fn hops(&self) -> u8 {
        0
    }

    fn sends_frames(&self) -> bool {
        // In copy mode, the only mode of a veth, each frame becomes a socket buffer.
        false
    }

    fn setup(&mut self, testbed: &Testbed) -> Result<()> {
        self.0 = Some(testpmd::between(testbed)?);
        Ok(())
    }

    fn teardown(&mut self, _: &Testbed) -> Result<()> {
        self.0.take().map_or(Ok(()), Running::end)
    }
}
