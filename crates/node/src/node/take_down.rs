//! The end of everything.

use nix::sys::signal::Signal;

use super::Node;
use crate::{NodeError, grants, leftovers};

impl Node {
    /// Ends all processes. Before that, frames of the ports go to Linux.
    fn take_down_routers(&mut self) -> Result<(), NodeError> {
        // From now on, nothing new is made.
        self.kernel.wait();
        self.ports.wait();
        self.hosts.wait();
        self.slow_paths.wait();
        self.slow_paths.stop();
        self.slow_paths.uplinks().ports().end();
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

    /// Removes everything except permanent desired state.
    pub(super) fn take_down(&mut self) -> Result<Vec<String>, NodeError> {
        self.take_down_routers()?;
        self.kernel.close();
        self.switch.close();
        leftovers::remove(&self.context.instance)
    }
}
