//! Ends everything that a node has started.

use std::sync::Arc;

use nix::sys::signal::Signal;

use super::Node;
use crate::link_tunnels::LinkTunnels;
use crate::{Doing, NodeError, grants, hosts, leftovers};

impl Node {
    /// Ends all processes, after the ports' frames have been directed to Linux.
    pub(super) fn take_down_routers(&mut self) -> Result<(), NodeError> {
        // From here on nothing is made.
        self.substrate_work.wait();
        self.port_work.wait();
        self.hosts_work.wait();
        self.slow_path_work.wait();
        self.slow_paths.stop();
        if let Some(substrate) = &self.substrate {
            for port in &mut self.ports {
                // A machine that shuts down may have unmounted the pins before; the other objects
                // must end.
                if let Some(attachment) = port.attachment.take()
                    && let Err(error) = substrate.detach_port(attachment)
                {
                    tracing::warn!("port {}: {error}", port.name);
                }
            }
        }
        let granted: Vec<_> =
            self.routers.iter().flat_map(|router| router.plan.grants.clone()).collect();
        let children = self
            .routers
            .drain(..)
            .flat_map(|router| {
                let successor = router.successor.map(|successor| successor.process);
                router
                    .process
                    .into_iter()
                    .chain(successor)
                    .filter_map(|process| process.body.into_child())
            })
            .chain(self.switch.take().map(|switch| switch.child))
            .chain(self.switch_begun.take().map(|begun| begun.switch.child))
            .chain(self.signallers.take_down());
        let mut children: Vec<_> = children.collect();
        for child in &children {
            child.kill(Signal::SIGKILL)?;
        }
        for child in &mut children {
            child.wait()?;
        }
        grants::clear(&granted);
        self.stock.clear();
        self.orphans.clear();
        self.ports.clear();
        self.hosts.clear();
        self.hosts_made = Arc::default();
        self.hosts_failed.clear();
        self.relays.clear();
        self.link_tunnels = LinkTunnels::default();
        hosts::remove(&self.instance)?;
        for (_, mut shell) in self.running.drain(..) {
            shell.wait().doing("waiting for a host's commands")?;
        }
        Ok(())
    }

    /// Ends everything, and leaves only permanent desired state.
    pub(super) fn take_down(&mut self) -> Result<Vec<String>, NodeError> {
        self.take_down_routers()?;
        self.substrate = None;
        self.lasting = None;
        leftovers::remove(&self.instance)
    }
}
