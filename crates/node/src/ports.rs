//! The devices of a node: opened, made fit, attached, and given back.

use std::os::fd::OwnedFd;

use europa_api::{Documents, Fault, Key, Selector};
use europa_port::{
    Device, DropCounters, Kind, Limitation, LinkState, Namespace, Prepared, Undo, Wants, before,
    counter_socket, open_socket, prepare, refuse, set_promiscuous,
};
use europa_substrate::{PortAttachment, PortMode, Substrate};
use europa_switch::orders::Ways;
use serde::{Deserialize, Serialize};

use crate::leftovers::Noted;
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

/// What a port's document asks of the machine in vain.
fn fault(document: &europa_api::Port, field: &str, why: impl std::fmt::Display) -> Fault {
    Fault::new(Key::new("port", document.name.to_string()), &[field], why)
}

/// Reads what a port's device has lost.
fn losses(device: &Device) -> Result<DropCounters, NodeError> {
    DropCounters::new(counter_socket(device)?, device.index).doing("reading a device's counters")
}

/// The device of a port, and the port's MTU.
fn find(document: &europa_api::Port) -> Result<(Device, u32), NodeError> {
    let namespace = match &document.namespace {
        None => Namespace::current().doing("opening our network namespace")?,
        Some(name) => Namespace::named(&name.value).map_err(|error| {
            let why = format!("there is no network namespace {name} ({error})");
            fault(document, "namespace", why).label("not there").help("see `ip netns list`")
        })?,
    };
    let device = Device::open(&namespace, &document.device.value)
        .map_err(|error| fault(document, "device", error).label("not there"))?;
    let mtu = document.mtu.as_ref().map_or(device.mtu, |mtu| mtu.value);
    if mtu > device.mtu {
        let Device { name, mtu: most, .. } = &device;
        let why = format!("an MTU of {mtu} does not fit the device {name}, which has {most}");
        return Err(fault(document, "mtu", why)
            .label(format!("more than the device's {most}"))
            .help(format!("raise it with `ip link set {name} mtu {mtu}`"))
            .into());
    }
    Ok((device, mtu))
}

/// Changes with [`PortRecord`], and with what is pinned.
const FORMAT: u32 = 3;

/// What the next node must know of a port.
#[derive(Serialize, Deserialize)]
struct PortRecord {
    format: u32,
    id: u32,
    /// The document that it was made from.
    document: String,
    /// Inode of its device's namespace.
    namespace: u64,
    /// Number of its device there.
    device: u32,
    live: bool,
    segments: bool,
    generic: bool,
    vlan: bool,
    limitations: Vec<Limitation>,
}

fn text(document: &europa_api::Port) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

/// Whether this kernel says if live frames have arrived behind a veth.
fn can_ask(substrate: &Substrate) -> bool {
    let loaded = substrate.drained_program();
    if let Err(error) = &loaded {
        tracing::warn!("{error}; no TCP segments are merged on veth pairs");
    }
    loaded.is_ok()
}

fn rate(document: &europa_api::Port) -> Option<u64> {
    document.rate.as_ref().map(|rate| rate.value.bits_per_second)
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
    /// Its device cuts merged TCP segments into what they were.
    pub(crate) segments: bool,
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
    /// The device takes frames for any address, as long as `socket` is open, here or in the
    /// switch.
    promiscuous: bool,
    socket: OwnedFd,
    counters: OwnedFd,
    /// What the device has lost, for statistics.
    losses: DropCounters,
    mode: PortMode,
    pub(crate) attachment: Option<PortAttachment>,
}

impl Port {
    /// What is known of a port before its device is touched.
    pub(crate) fn peek(document: &europa_api::Port) -> Result<PortFacts, NodeError> {
        let (device, mtu) = find(document)?;
        refuse(&device)
            .map_err(|error| fault(document, "device", error).label("cannot be a port"))?;
        Ok(PortFacts { mac: device.mac, mtu, vlan: Ok(()) })
    }

    /// How the device of a port is before it is opened.
    pub(crate) fn before(document: &europa_api::Port) -> Result<Noted, NodeError> {
        let (device, _) = find(document)?;
        let undo = before(&device).map_err(|error| fault(document, "device", error))?;
        Ok(Noted { undo, port: serde_json::Value::Null })
    }

    /// Adds to `undo` what may be changed by becoming able to do what interfaces need.
    pub(crate) fn expect(&mut self, needs: Needs) -> Result<(), NodeError> {
        if needs.vlan && !self.vlan {
            // Of what has been changed already, the older state counts.
            self.undo.changes.extend(before(&self.device)?.changes);
        }
        Ok(())
    }

    /// Opens the device of a port and makes it fit. What was changed on it is in `undo`.
    pub(crate) fn open(
        id: u32,
        document: &europa_api::Port,
        substrate: &Substrate,
    ) -> Result<Self, NodeError> {
        let (device, mtu) = find(document)?;
        let two_queues = matches!(device.kind, Kind::Veth) && can_ask(substrate);
        let wants = Wants { two_queues, ..Wants::default() };
        let mut prepared =
            prepare(&device, wants).map_err(|error| fault(document, "device", error))?;
        let opened = Self::open_prepared(id, document, (device, mtu), wants, &mut prepared);
        if opened.is_err() {
            let _ = prepared.undo.undo();
        }
        opened
    }

    /// The same for a device that has been prepared, perhaps not as it has to be.
    fn open_prepared(
        id: u32,
        document: &europa_api::Port,
        (device, mtu): (Device, u32),
        wants: Wants,
        prepared: &mut Prepared,
    ) -> Result<Self, NodeError> {
        let generic = prepared
            .limitations
            .iter()
            .any(|limitation| matches!(limitation, Limitation::GenericOnly { .. }));
        if generic {
            let again = prepare(&device, Wants { generic: true, ..wants })?;
            prepared.undo.changes.extend(again.undo.changes);
            prepared.segments = again.segments;
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
            rate_bits: rate(document),
            mtu,
            live,
            segments: prepared.segments,
            limitations: prepared.limitations.clone(),
            undo: prepared.undo.clone(),
            document: document.clone(),
            stale: false,
            link: None,
            vlan: false,
            promiscuous: false,
            socket: open_socket(&device)?,
            counters: counter_socket(&device)?,
            losses: losses(&device)?,
            mode: if generic { PortMode::Generic } else { PortMode::Native },
            attachment: None,
            device,
        })
    }

    /// Whether the kernel has forgotten its device meanwhile.
    pub(crate) fn is_forgotten(&self, substrate: &Substrate) -> bool {
        self.attachment.is_some()
            && self.mode == PortMode::Native
            && !substrate.has_way_out(self.id)
    }

    /// Whether it has the device that a document says, and that the one that it was.
    pub(crate) fn is(&self, document: &europa_api::Port) -> bool {
        !self.stale
            && self.document.name == document.name
            && self.document.device == document.device
            && self.document.namespace == document.namespace
    }

    /// Becomes what a document says. Its device stays.
    pub(crate) fn change(&mut self, document: &europa_api::Port) -> Result<(), NodeError> {
        self.mtu = find(document)?.1;
        self.rate_bits = rate(document);
        self.document = document.clone();
        Ok(())
    }

    /// What a plan must know of it when it becomes what a document says.
    pub(crate) fn facts_as(&self, document: &europa_api::Port) -> Result<PortFacts, NodeError> {
        let mtu = if self.document == *document { self.mtu } else { find(document)?.1 };
        Ok(PortFacts { mtu, ..self.facts() })
    }

    /// Makes it able to do what the interfaces on it need; what was changed is added to
    /// `undo`.
    pub(crate) fn adapt(&mut self, needs: Needs) -> Result<(), NodeError> {
        if needs.vlan && !self.vlan {
            let generic = self.mode == PortMode::Generic;
            let two_queues = self.segments;
            let again = prepare(&self.device, Wants { vlan: true, generic, two_queues })?;
            self.undo.changes.extend(again.undo.changes);
            for limitation in again.limitations {
                if !self.limitations.contains(&limitation) {
                    self.limitations.push(limitation);
                }
            }
            self.vlan = true;
        }
        if needs.promiscuous != self.promiscuous {
            set_promiscuous(&self.socket, &self.device, needs.promiscuous)?;
            self.promiscuous = needs.promiscuous;
        }
        Ok(())
    }

    /// What the next node must know to adopt it.
    pub(crate) fn noted(&self) -> Noted {
        let record = PortRecord {
            format: FORMAT,
            id: self.id,
            document: text(&self.document),
            namespace: self.device.namespace.inode,
            device: self.device.index,
            live: self.live,
            segments: self.segments,
            generic: self.mode == PortMode::Generic,
            vlan: self.vlan,
            limitations: self.limitations.clone(),
        };
        // Numbers, words and lists of them have a form in JSON.
        Noted { undo: self.undo.clone(), port: serde_json::to_value(record).unwrap_or_default() }
    }

    /// Takes over a port that another node has made of this document, if its device is the
    /// one that it was. None if it is another port.
    pub(crate) fn adopt(
        noted: &Noted,
        document: &europa_api::Port,
        substrate: &Substrate,
    ) -> Result<Option<Self>, NodeError> {
        let Ok(record) = serde_json::from_value::<PortRecord>(noted.port.clone()) else {
            return Ok(None);
        };
        if record.format != FORMAT || record.document != text(document) {
            return Ok(None);
        }
        let Ok((device, mtu)) = find(document) else { return Ok(None) };
        if (device.namespace.inode, device.index) != (record.namespace, record.device) {
            return Ok(None);
        }
        let attachment = substrate.adopt_port(record.id, record.namespace, record.device);
        let Some(attachment) = attachment else { return Ok(None) };
        Ok(Some(Self {
            id: record.id,
            name: document.name.value.to_string(),
            rate_bits: rate(document),
            mtu,
            live: record.live,
            segments: record.segments,
            limitations: record.limitations,
            undo: noted.undo.clone(),
            document: document.clone(),
            stale: false,
            link: None,
            vlan: record.vlan,
            // That of the other node lasts as long as the switch to which it was handed.
            promiscuous: false,
            socket: open_socket(&device)?,
            counters: counter_socket(&device)?,
            losses: losses(&device)?,
            mode: if record.generic { PortMode::Generic } else { PortMode::Native },
            attachment: Some(attachment),
            device,
        }))
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
                let device = &self.device.name;
                let why =
                    format!("{device} has another XDP program; is it a port of another node?");
                fault(&self.document, "device", why)
                    .label("taken")
                    .help(format!("see `ip link show {device}`"))
            }
            other => fault(&self.document, "device", other),
        })?);
        Ok(())
    }

    /// How the two ways out of the device go on.
    pub(crate) fn ways(&self) -> Ways {
        match self.device.kind {
            Kind::Tap => Ways::Join,
            Kind::Veth if !self.segments => Ways::Join,
            // Frames of a socket go past the queue of live ones.
            Kind::Veth => Ways::Ask,
            _ => Ways::Part,
        }
    }

    /// Live frames that the device has lost; a device that has gone loses nothing more.
    pub(crate) fn lost(&mut self) -> u64 {
        self.losses.read().map_or(0, |drops| drops.live_frames)
    }

    /// Descriptors for a switch: where frames leave, where their losses are counted.
    pub(crate) fn sockets(&self) -> [&OwnedFd; 2] {
        [&self.socket, &self.counters]
    }

    fn facts(&self) -> PortFacts {
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
