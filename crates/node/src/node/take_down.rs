//! The end of everything.

use nix::sys::signal::Signal;

use super::Node;
use crate::{NodeError, grants, leftovers};

impl Node {
    /// Ends all processes. Frames of the ports go to Linux before that.
    fn take_down_routers(&mut self) -> Result<(), NodeError> {
        // Nothing is made any more.
        self.kernel.wait();
        self.ports.wait();
        self.hosts.wait();
        self.slow_paths.wait();
        self.slow_paths.stop();
        if let Some(substrate) = self.kernel.substrate() {
            self.ports.detach(substrate);
        }
        let granted: Vec<_> =
            self.routers.iter().flat_map(|router| router.plan.grants.clone()).collect();
        let mut children = self.routers.take_down();
        children.extend(self.switch.take_down());
        children.extend(self.signallers.take_down());
        for child in &children {
            child.kill(Signal::SIGKILL)?;
        }
        for child in &mut children {
            child.wait()?;
        }
        grants::clear(&granted);
        self.pools.clear();
        self.ports.clear();
        self.relays.clear();
        self.tunnels.clear();
        self.hosts.take_down(&self.context)
    }

    /// Ends everything, and leaves only permanent desired state.
    pub(super) fn take_down(&mut self) -> Result<Vec<String>, NodeError> {
        self.take_down_routers()?;
        self.kernel.close();
        self.switch.close();
        leftovers::remove(&self.context.instance)
    }
}
