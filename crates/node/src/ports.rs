//! The devices of a node: opened, made fit, attached, and given back.

use std::os::fd::OwnedFd;

use europa_port::{
    Device, Kind, Limitation, Namespace, Undo, Wants, counter_socket, open_socket, prepare,
};
use europa_substrate::{PortAttachment, PortMode, Substrate};

use crate::plan::PortFacts;
use crate::{Doing, NodeError};

/// A port of this node.
pub(crate) struct Port {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) device: Device,
    pub(crate) rate_bits: Option<u64>,
    pub(crate) mtu: u32,
    /// Live frames may leave by it.
    pub(crate) live: bool,
    pub(crate) limitations: Vec<Limitation>,
    pub(crate) undo: Undo,
    socket: OwnedFd,
    counters: OwnedFd,
    mode: PortMode,
    pub(crate) attachment: Option<PortAttachment>,
}

impl Port {
    /// Opens the device of a port and makes it fit. What was changed on it is handed to
    /// `note` at once, so that it can be undone even if this process dies.
    pub(crate) fn open(
        id: u32,
        document: &europa_api::Port,
        wants_vlan: bool,
        promiscuous: bool,
    ) -> Result<Self, NodeError> {
        let namespace = match &document.namespace {
            None => Namespace::current().doing("opening our network namespace")?,
            Some(name) => Namespace::named(&name.value).doing(format!(
                "port {}: opening the network namespace {}",
                document.name.value, name.value
            ))?,
        };
        let device = Device::open(&namespace, &document.device.value)?;
        let mtu = document.mtu.as_ref().map_or(device.mtu, |mtu| mtu.value);
        if mtu > device.mtu {
            return Err(NodeError::Refused(format!(
                "port {}: an MTU of {mtu} does not fit the device {}, which has {}; \
                 raise it with `ip link set {} mtu {mtu}`",
                document.name.value, device.name, device.mtu, device.name
            )));
        }
        let wants = Wants { vlan: wants_vlan, generic: false };
        let mut prepared = prepare(&device, wants)?;
        let generic = prepared
            .limitations
            .iter()
            .any(|limitation| matches!(limitation, Limitation::GenericOnly { .. }));
        if generic {
            let again = prepare(&device, Wants { generic: true, ..wants })?;
            prepared.undo.changes.extend(again.undo.changes);
            for limitation in again.limitations {
                if !prepared.limitations.contains(&limitation) {
                    prepared.limitations.push(limitation);
                }
            }
        }
        let live = !generic
            && !prepared
                .limitations
                .iter()
                .any(|limitation| matches!(limitation, Limitation::SocketOnly { .. }));
        Ok(Self {
            id,
            name: document.name.value.to_string(),
            rate_bits: document.rate.as_ref().map(|rate| rate.value.bits_per_second),
            mtu,
            live,
            limitations: prepared.limitations,
            undo: prepared.undo,
            socket: open_socket(&device, promiscuous)?,
            counters: counter_socket(&device)?,
            mode: if generic { PortMode::Generic } else { PortMode::Native },
            attachment: None,
            device,
        })
    }

    /// Attaches the receive program.
    pub(crate) fn attach(&mut self, substrate: &mut Substrate) -> Result<(), NodeError> {
        // Whoever sends to a device made of software may be on this machine, or its host.
        let local_sender = match &self.device.kind {
            Kind::Physical { driver } => driver == "virtio_net",
            _ => true,
        };
        let attached = substrate.attach_port(
            self.id,
            &self.device.namespace,
            self.device.index,
            self.device.mac,
            self.mode,
            local_sender,
        );
        self.attachment = Some(attached.map_err(|error| match error {
            europa_substrate::Error::Busy => {
                let (port, device) = (&self.name, &self.device.name);
                NodeError::Refused(format!(
                    "port {port}: {device} has another XDP program (see `ip link show {device}`); \
                     is it a port of another node?"
                ))
            }
            other => other.into(),
        })?);
        Ok(())
    }

    /// Whether both ways out join in one queue of the device.
    pub(crate) fn ways_join(&self) -> bool {
        matches!(self.device.kind, Kind::Veth | Kind::Tap)
    }

    /// Descriptors for a switch: where frames leave, where their losses are counted.
    pub(crate) fn sockets(&self) -> [&OwnedFd; 2] {
        [&self.socket, &self.counters]
    }

    /// What a plan must know.
    pub(crate) fn facts(&self) -> PortFacts {
        let untrusted = self
            .limitations
            .iter()
            .find(|limitation| matches!(limitation, Limitation::VlanUntrusted { .. }));
        PortFacts {
            mac: self.device.mac,
            mtu: self.mtu,
            vlan: untrusted.map_or(Ok(()), |limitation| Err(limitation.to_string())),
        }
    }
}
