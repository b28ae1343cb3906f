//! The other parts, as far as work on routers needs them.

use europa_substrate::{PortAttachment, Substrate};

use super::Router;
use crate::NodeError;
use crate::context::Context;
use crate::filters::Filtering;
use crate::link_tunnels::LinkTunnels;
use crate::objects::Objects;
use crate::pools::Pools;
use crate::ports::Ports;
use crate::relays::Relays;
use crate::slow_path::SlowPaths;
use crate::switch::{Switch, Switching};

/// See the file.
pub(crate) struct Around<'a> {
    pub(crate) context: &'a Context,
    pub(crate) substrate: Option<&'a Substrate>,
    pub(crate) ports: &'a Ports,
    pub(crate) relays: &'a Relays,
    pub(crate) filters: &'a Filtering,
    pub(crate) slow_paths: &'a SlowPaths,
    pub(crate) tunnels: &'a mut LinkTunnels,
    pub(crate) switch: &'a mut Switching,
    pub(crate) pools: &'a mut Pools,
}

impl<'a> Around<'a> {
    /// All objects, with these routers, and the switch that runs.
    pub(super) fn split<'s>(
        &'s mut self,
        routers: &'s [Router],
    ) -> (Objects<'s>, Option<&'s mut Switch>) {
        let objects = Objects {
            substrate: self.substrate,
            ports: self.ports,
            routers,
            relays: self.relays,
            tunnels: &*self.tunnels,
            filters: self.filters,
        };
        (objects, self.switch.get())
    }

    /// The maps and programs.
    pub(super) fn up(&self) -> Result<&'a Substrate, NodeError> {
        self.substrate.ok_or_else(|| NodeError::Refused("this node is not up".into()))
    }
}

/// The attachment of a port, if it is there.
pub(super) fn attachment<'p>(ports: &'p Ports, port: Option<&str>) -> Option<&'p PortAttachment> {
    let port = port?;
    ports.iter().find(|other| other.name == *port)?.attachment.as_ref()
}
