//! Settings of devices from netlink: forwarding, checks of sources, proxies of neighbours.

use std::collections::HashMap;

use europa_port::netlink::{attributes, number};

use crate::message::{INET, INET6};

const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_FORWARDING: u16 = 2;
const NETCONFA_RP_FILTER: u16 = 3;
const NETCONFA_PROXY_NEIGH: u16 = 5;

/// The number for the settings of all devices.
const ALL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Setting {
    forwarding: u32,
    rp_filter: u32,
    proxy: u32,
}

/// Settings by family and device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    all: HashMap<(u8, u32), Setting>,
}

impl Settings {
    /// Takes in a message.
    pub(crate) fn hear(&mut self, message: &[u8], is_gone: bool) {
        let Some(family) = message.first() else { return };
        let mut device = None;
        for (kind, value) in attributes(message, 4) {
            if kind == NETCONFA_IFINDEX {
                device = number(value, 0);
            }
        }
        let Some(device) = device else { return };
        if is_gone {
            self.all.remove(&(*family, device));
            return;
        }
        // A message has only the changes.
        let setting = self.all.entry((*family, device)).or_default();
        for (kind, value) in attributes(message, 4) {
            let value = number(value, 0).unwrap_or(0);
            match kind {
                NETCONFA_FORWARDING => setting.forwarding = value,
                NETCONFA_RP_FILTER => setting.rp_filter = value,
                NETCONFA_PROXY_NEIGH => setting.proxy = value,
                _ => {}
            }
        }
    }

    fn of(&self, family: u8, device: u32) -> Setting {
        self.all.get(&(family, device)).copied().unwrap_or_default()
    }

    /// The reason why Linux gets IPv4 packets from a device.
    pub(crate) fn reason4(&self, device: u32) -> Option<&'static str> {
        let (all, own) = (self.of(INET, ALL), self.of(INET, device));
        if own.forwarding == 0 {
            return Some("forwarding is off");
        }
        (all.rp_filter.max(own.rp_filter) != 0).then_some("rp_filter is on")
    }

    /// The reason why Linux gets IPv6 packets from a device.
    pub(crate) fn reason6(&self, device: u32) -> Option<&'static str> {
        let (all, own) = (self.of(INET6, ALL), self.of(INET6, device));
        if all.forwarding == 0 {
            return Some("forwarding is off");
        }
        (all.proxy | own.proxy != 0).then_some("proxy_ndp is on")
    }
}
