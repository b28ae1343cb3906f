//! The router's interfaces as its elements see them: rings of its packet pool.

use std::io;
use std::os::fd::OwnedFd;

use europa_engine::{Batch, Devices, Interface};
use europa_pool::Endpoint;
use europa_resource::Resource;

use crate::grants::Grants;

pub(crate) struct PoolDevices {
    pub(crate) endpoint: Endpoint,
    interfaces: Vec<Interface>,
    /// For each interface, the interface to the router's own Linux.
    host: Vec<Option<usize>>,
    /// Whether packets were sent since the switch was last woken.
    pub(crate) sent: bool,
    /// Whether packets could not be sent in this round: an element may still hold them.
    pub(crate) blocked: bool,
    /// The descriptors that a graph may take while it is built.
    pub(crate) grants: Grants,
}

impl PoolDevices {
    pub(crate) fn new(endpoint: Endpoint, interfaces: Vec<Interface>) -> Self {
        let position = |name: String| interfaces.iter().position(|other| other.name == name);
        let host = interfaces.iter().map(|one| position(format!("{}@host", one.name))).collect();
        Self { endpoint, interfaces, host, sent: false, blocked: false, grants: Grants::default() }
    }
}

impl Devices for PoolDevices {
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        self.endpoint.receive(interface, batch, max);
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        self.sent = true;
        self.endpoint.send(interface, batch);
        self.blocked |= !batch.is_empty();
    }

    fn to_host(&mut self, interface: usize, batch: &mut Batch, keep: u32) {
        if let Some(host) = self.host.get(interface).copied().flatten() {
            self.sent = true;
            self.endpoint.send_keeping(host, batch, keep);
        }
        // Linux is slower than the fast path: packets that it cannot accept are lost here and not
        // later.
        batch.clear();
    }

    fn open(&self, resource: &Resource) -> io::Result<OwnedFd> {
        self.grants.take(resource)
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|interface| interface.name == name)
    }

    fn interface(&self, index: usize) -> Option<&Interface> {
        self.interfaces.get(index)
    }
}
