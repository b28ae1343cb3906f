//! Restores devices to their former state.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

use crate::device::identity;
use crate::error::PortError;
use crate::ethtool::Ethtool;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::steering::{self, Steering};

/// One offload that was switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Inode of the device's namespace.
    pub namespace: u64,
    /// The device's number there.
    pub index: u32,
    /// Its name at the time.
    pub device: String,
    /// The device's Ethernet address at that time.
    pub mac: [u8; 6],
    /// The offload, by the kernel's name (`rx-gro`).
    pub feature: String,
    /// Its former value.
    pub was: bool,
}

/// The changes made for a port. Record it for later processes: any process can undo the changes,
/// even after the process that made them was killed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The changes, in the order in which they were made. If a port is prepared again, append only
    /// new changes.
    pub changes: Vec<Change>,
    /// The former steering of receive queues.
    #[serde(default)]
    pub steering: Vec<Steering>,
}

impl Undo {
    /// Undoes as many changes as possible, the last one first. Removed devices and namespaces need
    /// no undo; repeating it does no harm.
    ///
    /// # Errors
    /// The first refusal.
    pub fn undo(&self) -> Result<(), PortError> {
        let namespaces: HashMap<u64, Namespace> =
            Namespace::visible().map(|namespace| (namespace.inode, namespace)).collect();
        let mut result = Ok(());
        // One request for each device: features that depend on each other (LRO on checksums,
        // segmentation on scatter-gather) are restored together.
        let mut rest: Vec<&Change> = self.changes.iter().collect();
        while let Some(last) = rest.last() {
            let place = (last.namespace, last.index);
            let (of_device, others): (Vec<&Change>, Vec<&Change>) =
                rest.iter().partition(|change| (change.namespace, change.index) == place);
            if let Some(namespace) = namespaces.get(&place.0)
                && let Err(error) = restore(namespace, &of_device)
            {
                result = result.and(Err(error));
            }
            rest = others;
        }
        result.and(self.put_steering_back(&namespaces))
    }

    /// Restores the steering of receive queues, from the oldest record of each.
    fn put_steering_back(&self, namespaces: &HashMap<u64, Namespace>) -> Result<(), PortError> {
        for (at, one) in self.steering.iter().enumerate() {
            let same = |other: &&Steering| {
                (other.namespace, other.index, &other.queue)
                    == (one.namespace, one.index, &one.queue)
            };
            let older = self.steering.iter().take(at).find(same);
            let namespace = namespaces.get(&one.namespace).filter(|_| older.is_none());
            let Some(namespace) = namespace else { continue };
            let Ok(mut netlink) = Netlink::route(namespace) else { continue };
            // A removed device needs no undo.
            let Ok(device) = identity(&mut netlink, one.index) else { continue };
            steering::write(namespace, &device.name, &[one]).map_err(|source| {
                PortError::Kernel {
                    device: device.name.clone(),
                    namespace: namespace.label(),
                    doing: "put back who works on what it receives".to_owned(),
                    source,
                }
            })?;
        }
        Ok(())
    }
}

/// Undoes the changes of one device.
fn restore(namespace: &Namespace, changes: &[&Change]) -> Result<(), PortError> {
    let Some(&first) = changes.first() else { return Ok(()) };
    let refused = |source| PortError::Kernel {
        device: first.device.clone(),
        namespace: namespace.label(),
        doing: "restore its offloads".to_owned(),
        source,
    };
    let mut netlink = Netlink::route(namespace).map_err(refused)?;
    let device = match identity(&mut netlink, first.index) {
        Ok(identity) => identity,
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
        Err(error) => return Err(refused(error)),
    };
    // Numbers of namespaces and devices are reused: a device that differs is another one.
    if device.name != first.device && device.mac != first.mac {
        return Ok(());
    }
    let ethtool = Ethtool::new(netlink.as_fd(), &device.name);
    // The oldest change of a feature contains its first state, so it is read first.
    let mut orders: Vec<(&str, bool)> = Vec::new();
    for change in changes {
        if !orders.iter().any(|(feature, _)| *feature == change.feature) {
            orders.push((&change.feature, change.was));
        }
    }
    ethtool.set_features(&orders).map_err(refused)?;
    let now = ethtool.features().map_err(refused)?;
    let stuck = now.iter().find(|feature| {
        orders.iter().any(|(order, was)| *order == feature.name && *was != feature.requested)
    });
    match stuck {
        Some(feature) => Err(refused(io::Error::other(format!("{} stays", feature.name)))),
        None => Ok(()),
    }
}
