//! The router's interfaces as its elements see them: rings of its packet pool.

use europa_engine::{Batch, Devices, Interface};
use europa_pool::Endpoint;

pub(crate) struct PoolDevices {
    pub(crate) endpoint: Endpoint,
    interfaces: Vec<Interface>,
    /// Something was sent since the switch was last told.
    pub(crate) sent: bool,
}

impl PoolDevices {
    pub(crate) fn new(endpoint: Endpoint, interfaces: Vec<Interface>) -> Self {
        Self { endpoint, interfaces, sent: false }
    }
}

impl Devices for PoolDevices {
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        self.endpoint.receive(interface, batch, max);
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        self.sent = true;
        self.endpoint.send(interface, batch);
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|interface| interface.name == name)
    }

    fn interface(&self, index: usize) -> Option<&Interface> {
        self.interfaces.get(index)
    }
}
