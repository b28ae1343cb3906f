//! The devices of a node: opened, made fit, attached, and given back.

use std::os::fd::OwnedFd;

use europa_api::{Documents, Selector};
use europa_port::{
    Device, Kind, Limitation, LinkState, Namespace, Undo, Wants, counter_socket, open_socket,
    prepare, refuse,
};
use europa_substrate::{PortAttachment, PortMode, Substrate};

use crate::plan::PortFacts;
use crate::{Doing, NodeError, hosts};

/// What the interfaces on a port need of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Tags are to be seen where they are.
    pub(crate) vlan: bool,
    /// Frames for any address are to be taken.
    pub(crate) promiscuous: bool,
}

impl Needs {
    /// Those of the interfaces on port `port`.
    pub(crate) fn of(documents: &Documents, port: &str) -> Needs {
        let interfaces = documents.routers.iter().flat_map(|router| &router.interfaces.0);
        let on: Vec<_> = interfaces
            .map(|(_, interface)| &interface.value)
            .filter(|i| i.port.as_ref().is_some_and(|p| *p.value.to_string() == *port))
            .collect();
        Needs {
            vlan: on.iter().any(|interface| interface.vlan().is_some()),
            // Addresses of its own, or everybody's.
            promiscuous: hosts::is_hidden(port)
                || on
                    .iter()
                    .any(|interface| matches!(interface.selector(), Selector::Mac | Selector::All)),
        }
    }
}

/// The device of a port, and the port's MTU.
fn find(document: &europa_api::Port) -> Result<(Device, u32), NodeError> {
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
    Ok((device, mtu))
}

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
    /// What it was made from.
    pub(crate) document: europa_api::Port,
    /// Its device went, and another one of this name has come.
    pub(crate) stale: bool,
    /// How its link was when last looked at.
    pub(crate) link: Option<LinkState>,
    /// VLAN matches were asked for.
    vlan: bool,
    /// Keeps the device taking frames for any address.
    promiscuous: Option<OwnedFd>,
    socket: OwnedFd,
    counters: OwnedFd,
    mode: PortMode,
    pub(crate) attachment: Option<PortAttachment>,
}

impl Port {
    /// What is known of a port before its device is touched.
    pub(crate) fn peek(document: &europa_api::Port) -> Result<PortFacts, NodeError> {
        let (device, mtu) = find(document)?;
        refuse(&device)?;
        Ok(PortFacts { mac: device.mac, mtu, vlan: Ok(()) })
    }

    /// Opens the device of a port and makes it fit. What was changed on it is in `undo`,
    /// to be noted at once.
    pub(crate) fn open(id: u32, document: &europa_api::Port) -> Result<Self, NodeError> {
        let (device, mtu) = find(document)?;
        let wants = Wants { vlan: false, generic: false };
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
            document: document.clone(),
            stale: false,
            link: None,
            vlan: false,
            promiscuous: None,
            socket: open_socket(&device, false)?,
            counters: counter_socket(&device)?,
            mode: if generic { PortMode::Generic } else { PortMode::Native },
            attachment: None,
            device,
        })
    }

    /// Whether it is what a document says, and its device the one that it was.
    pub(crate) fn is(&self, document: &europa_api::Port) -> bool {
        !self.stale && self.document == *document
    }

    /// Makes it able to do what the interfaces on it need; what was changed is added to
    /// `undo`.
    pub(crate) fn adapt(&mut self, needs: Needs) -> Result<(), NodeError> {
        if needs.vlan && !self.vlan {
            let generic = self.mode == PortMode::Generic;
            let again = prepare(&self.device, Wants { vlan: true, generic })?;
            self.undo.changes.extend(again.undo.changes);
            for limitation in again.limitations {
                if !self.limitations.contains(&limitation) {
                    self.limitations.push(limitation);
                }
            }
            self.vlan = true;
        }
        match (needs.promiscuous, &self.promiscuous) {
            (true, None) => self.promiscuous = Some(open_socket(&self.device, true)?),
            (false, Some(_)) => self.promiscuous = None,
            _ => {}
        }
        Ok(())
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
