//! Parts of the node, borrowed apart.

use super::Node;
use crate::objects::Objects;
use crate::routers::{Around, Routers};
use crate::switch::Switch;

impl Node {
    /// The routers, and the parts that work on them needs.
    pub(crate) fn with_routers(&mut self) -> (&mut Routers, Around<'_>) {
        let around = Around {
            context: &self.context,
            substrate: self.kernel.substrate(),
            ports: &self.ports,
            relays: &self.relays,
            filters: &self.filters,
            slow_paths: &self.slow_paths,
            tunnels: &mut self.tunnels,
            switch: &mut self.switch,
            pools: &mut self.pools,
        };
        (&mut self.routers, around)
    }

    /// The objects that the switch serves.
    pub(crate) fn objects(&self) -> Objects<'_> {
        Objects {
            substrate: self.kernel.substrate(),
            ports: &self.ports,
            routers: &self.routers,
            relays: &self.relays,
            tunnels: &self.tunnels,
            filters: &self.filters,
        }
    }

    /// The same, and the switch that runs.
    pub(crate) fn with_switch(&mut self) -> (Objects<'_>, Option<&mut Switch>) {
        let objects = Objects {
            substrate: self.kernel.substrate(),
            ports: &self.ports,
            routers: &self.routers,
            relays: &self.relays,
            tunnels: &self.tunnels,
            filters: &self.filters,
        };
        (objects, self.switch.get())
    }
}
