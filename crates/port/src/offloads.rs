//! Switches the offloads of one device.

use std::os::fd::AsFd;

use crate::device::{Identity, identity};
use crate::error::PortError;
use crate::ethtool::{Ethtool, Feature};
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::undo::{Change, Undo};

/// A device whose offloads are being switched.
pub(crate) struct End<'a> {
    namespace: &'a Namespace,
    netlink: Netlink,
    index: u32,
    name: String,
    mac: [u8; 6],
    features: Vec<Feature>,
    orders: Vec<(String, bool)>,
}

impl<'a> End<'a> {
    /// Reads the offloads of device `index`.
    pub(crate) fn open(namespace: &'a Namespace, index: u32) -> Result<Self, PortError> {
        let read = || {
            let mut netlink = Netlink::route(namespace)?;
            let Identity { name, mac, .. } = identity(&mut netlink, index)?;
            let features = Ethtool::new(netlink.as_fd(), &name).features()?;
            Ok(Self { namespace, netlink, index, name, mac, features, orders: Vec::new() })
        };
        read().map_err(|source| PortError::Kernel {
            device: format!("device {index}"),
            namespace: namespace.label(),
            doing: "read its offloads".to_owned(),
            source,
        })
    }

    /// Requests that the features that `which` selects by name are on or off.
    pub(crate) fn want(&mut self, on: bool, which: impl Fn(&str) -> bool) {
        for feature in self.features.iter().filter(|feature| which(&feature.name)) {
            // Also turns off features that were only requested: they might take effect later.
            let differs = feature.active != on || feature.requested && !on;
            if differs {
                self.orders.push((feature.name.clone(), on));
            }
        }
    }

    /// Whether a feature was on when the offloads were read.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.features.iter().any(|feature| feature.name == name && feature.active)
    }

    /// Records the present state of the features that `which` selects by name.
    pub(crate) fn note(&self, undo: &mut Undo, which: impl Fn(&str) -> bool) {
        let picked =
            self.features.iter().filter(|feature| feature.changeable && which(&feature.name));
        undo.changes.extend(picked.map(|feature| Change {
            namespace: self.namespace.inode,
            index: self.index,
            device: self.name.clone(),
            mac: self.mac,
            feature: feature.name.clone(),
            was: feature.requested,
        }));
    }

    /// Sends the requests. Returns the features that did not change.
    pub(crate) fn apply(self, undo: &mut Undo) -> Result<Vec<String>, PortError> {
        let find = |name: &str| self.features.iter().find(move |feature| feature.name == name);
        let possible: Vec<(&str, bool)> = self
            .orders
            .iter()
            .filter(|(name, _)| find(name).is_some_and(|feature| feature.changeable))
            .map(|(name, on)| (name.as_str(), *on))
            .collect();
        // The state is recorded first, because a record without a change does no harm.
        self.note(undo, |feature| possible.iter().any(|(name, _)| *name == feature));
        let ethtool = Ethtool::new(self.netlink.as_fd(), &self.name);
        let set = || {
            if !possible.is_empty() {
                ethtool.set_features(&possible)?;
            }
            ethtool.features()
        };
        let now = set().map_err(|source| PortError::Kernel {
            device: self.name.clone(),
            namespace: self.namespace.label(),
            doing: "switch its offloads".to_owned(),
            source,
        })?;
        let stuck = now.into_iter().filter(|feature| {
            self.orders.iter().any(|(name, on)| *name == feature.name && feature.active != *on)
        });
        Ok(stuck.map(|feature| feature.name).collect())
    }
}
