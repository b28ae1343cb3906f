//! Events from outside: devices, the switch, other programs.

use std::time::Duration;

use europa_plan::{RouterId, hosts};
use fastrand::Rng;

use super::{Event, SimMachine};

impl SimMachine {
    /// The switch ends, with all routers inside it; the switch and these routers start again.
    pub(crate) fn kill_switch(&mut self) {
        if !self.world.switch {
            return;
        }
        self.world.switch = false;
        self.later(Duration::from_secs(1), Event::SwitchBack);
        let inside: Vec<RouterId> = self
            .world
            .routers
            .iter()
            .filter(|(_, router)| router.plan.is_inline())
            .map(|(name, _)| name.clone())
            .collect();
        inside.iter().for_each(|name| self.end_process(name));
    }

    /// A device disappears, and returns after this time.
    pub(crate) fn lose_device(&mut self, number: u8, wait: Duration) {
        if let Some(device) = self.world.devices.get_mut(&format!("d{number}"))
            && device.there
        {
            device.there = false;
            device.generation += 1;
            self.later(wait, Event::DeviceBack(number));
        }
    }

    /// The generations of the existing devices: a device that was missing for a time counts as
    /// another one.
    pub(crate) fn generations(&self) -> Vec<u64> {
        self.world.devices.values().map(|device| device.generation).collect()
    }

    /// A device is back.
    pub(crate) fn device_back(&mut self, number: u8) {
        if let Some(device) = self.world.devices.get_mut(&format!("d{number}")) {
            device.there = true;
        }
    }

    /// The switch is back.
    pub(crate) fn switch_back(&mut self) {
        self.world.switch = true;
    }

    /// Another program changes objects, and the node is not informed.
    pub(crate) fn by_hand(&mut self, rng: &mut Rng) {
        match rng.u8(..4) {
            0 => {
                if let Some(host) = self.world.hosts.iter_mut().next() {
                    host.gateway.clear();
                }
            }
            1 => {
                let ports = self
                    .world
                    .hosts
                    .first()
                    .map(|host| hosts::cut_ports(std::slice::from_ref(host), &[]));
                let open = |port: &europa_plan::PortId| self.world.ports.contains_key(port);
                if ports.is_some_and(|ports| !ports.iter().any(open)) {
                    self.world.hosts.remove(0);
                }
            }
            2 => {
                self.world.filters.pop();
            }
            _ => self.world.uplinks.clear(),
        }
    }
}
