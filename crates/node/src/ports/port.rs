//! One port: its device, opened and made fit.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use europa_api::{Fault, Key};
use europa_plan::{Needs, PortFacts, same_device};
use europa_port::{
    Device, Kind, Limitation, Link, LinkState, Namespace, Prepared, Sent, Undo, Wants, before,
    counter_socket, open_socket, prepare, refuse, set_promiscuous,
};
use europa_substrate::{PortAttachment, PortMode, Substrate};
use europa_switch::orders::Ways;

use super::look::Look;
use super::receive::{mode, wanted};
use crate::leftovers::Noted;
use crate::{Doing, NodeError};

/// A field of a port's document that the machine refuses.
pub(super) fn fault(
    document: &europa_api::Port,
    field: &str,
    why: impl std::fmt::Display,
) -> Fault {
    Fault::new(Key::new("port", document.name.to_string()), &[field], why)
}

/// The namespace of a port's device.
pub(super) fn namespace(document: &europa_api::Port) -> Result<Namespace, NodeError> {
    match &document.namespace {
        None => Namespace::current().doing("opening our network namespace"),
        Some(name) => Namespace::named(&name.value).map_err(|error| {
            let why = format!("there is no network namespace {name} ({error})");
            fault(document, "namespace", why).label("not there").help("see `ip netns list`").into()
        }),
    }
}

/// The device of a port, and the port's MTU.
pub(super) fn find(document: &europa_api::Port) -> Result<(Device, u32), NodeError> {
    let namespace = namespace(document)?;
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

/// Whether this kernel says if live frames have arrived behind a veth.
pub(super) fn can_ask(substrate: &Substrate) -> bool {
    let loaded = substrate.drained_program();
    if let Err(error) = &loaded {
        tracing::warn!("{error}; no TCP segments are merged on veth pairs");
    }
    loaded.is_ok()
}

pub(super) fn rate(document: &europa_api::Port) -> Option<u64> {
    document.rate.as_ref().map(|rate| rate.value.bits_per_second)
}

/// A port of this node.
pub(crate) struct Port {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) device: Device,
    pub(crate) rate_bits: Option<u64>,
    pub(crate) mtu: u32,
    /// Whether live frames may leave by the port.
    pub(crate) live: bool,
    /// Its device cuts merged TCP segments into the original ones.
    pub(crate) segments: bool,
    pub(crate) limitations: Vec<Limitation>,
    pub(crate) undo: Undo,
    /// The document from which the port was made.
    pub(crate) document: europa_api::Port,
    /// Its device went, and another one of this name has come.
    pub(crate) stale: bool,
    /// How its link was when last looked at.
    pub(crate) link: Option<LinkState>,
    /// VLAN matches were asked for.
    pub(super) vlan: bool,
    /// The device takes frames for any address, as long as `socket` is open, here or in the
    /// switch.
    pub(super) promiscuous: bool,
    pub(super) socket: OwnedFd,
    pub(super) counters: OwnedFd,
    /// The facts with which a thread looks at its device.
    pub(super) look: Arc<Look>,
    /// Its record as text, unless it has changed since.
    pub(super) noted: Option<Arc<str>>,
    pub(super) mode: PortMode,
    /// Packets received, and packets that the peer had sent, at the last decision where to receive.
    pub(super) received: u64,
    /// Programs of routers run in its driver.
    pub(super) caged: bool,
    pub(super) sent: Sent,
    pub(crate) attachment: Option<PortAttachment>,
}

impl Port {
    /// The facts about a port before its device is touched.
    pub(crate) fn peek(document: &europa_api::Port) -> Result<PortFacts, NodeError> {
        let (device, mtu) = find(document)?;
        refuse(&device)
            .map_err(|error| fault(document, "device", error).label("cannot be a port"))?;
        Ok(PortFacts { mac: device.mac, mtu, vlan: Ok(()) })
    }

    /// The namespace of its device.
    pub(crate) fn namespace(document: &europa_api::Port) -> Result<Namespace, NodeError> {
        namespace(document)
    }

    /// How the device of a port is before it is opened.
    pub(super) fn before(document: &europa_api::Port) -> Result<Noted, NodeError> {
        let (device, _) = find(document)?;
        let undo = before(&device).map_err(|error| fault(document, "device", error))?;
        Ok(Noted { undo, port: serde_json::Value::Null })
    }

    /// Adds to `undo` the settings that may change to meet the interfaces' needs.
    pub(super) fn expect(&mut self, needs: Needs) -> Result<(), NodeError> {
        if needs.vlan && !self.vlan {
            self.noted = None;
            // Of a repeated change, the older state counts.
            self.undo.changes.extend(before(&self.device)?.changes);
        }
        Ok(())
    }

    /// Opens the device of a port and makes it fit. The changes on it are in `undo`. `asks`: this
    /// kernel says if live frames have arrived behind a veth.
    pub(super) fn open(
        id: u32,
        document: &europa_api::Port,
        asks: bool,
    ) -> Result<Self, NodeError> {
        let (device, mtu) = find(document)?;
        let two_queues = matches!(device.kind, Kind::Veth) && asks;
        let tc = wanted(document, &device)?;
        let wants = Wants { two_queues, tc, ..Wants::default() };
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
        let only_generic =
            |limitation: &Limitation| matches!(limitation, Limitation::GenericOnly { .. });
        if wants.tc {
            prepared.limitations.retain(|limitation| !only_generic(limitation));
        }
        let generic = prepared.limitations.iter().any(only_generic);
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
        let mode = mode(generic, wants.tc);
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
            look: Look::new(&device, document, live)?,
            noted: None,
            mode,
            received: 0,
            caged: false,
            sent: Sent::default(),
            attachment: None,
            device,
        })
    }

    /// Whether the kernel has forgotten its device meanwhile.
    pub(super) fn is_forgotten(&self, substrate: &Substrate) -> bool {
        let Some(attachment) = &self.attachment else { return false };
        let is_live = self.mode != PortMode::Generic;
        !attachment.is_attached() || is_live && !substrate.has_way_out(self.id)
    }

    /// The present abilities of the port's device.
    pub(crate) fn needs(&self) -> Needs {
        Needs { vlan: self.vlan, promiscuous: self.promiscuous }
    }

    /// Whether it has the device that a document says, and that is the one that it was.
    pub(crate) fn is(&self, document: &europa_api::Port) -> bool {
        !self.stale && same_device(&self.document, document)
    }

    /// Changes to a document. Its device stays.
    pub(super) fn change(&mut self, document: &europa_api::Port) -> Result<(), NodeError> {
        self.mtu = find(document)?.1;
        self.look = Look::new(&self.device, document, self.live)?;
        self.rate_bits = rate(document);
        self.document = document.clone();
        self.noted = None;
        Ok(())
    }

    /// Takes over changes of its device by other programs: the name, and the MTU as far as the
    /// document allows. Returns the differences.
    pub(super) fn follow_device(&mut self, link: &Link) -> Option<String> {
        let mtu = self.document.mtu.as_ref().map_or(link.mtu, |mtu| mtu.value.min(link.mtu));
        let is_same = link.name == self.device.name && mtu == self.mtu;
        if is_same {
            return None;
        }
        self.device.name.clone_from(&link.name);
        (self.device.mtu, self.mtu) = (link.mtu, mtu);
        Some(format!("the device is {} now, MTU {mtu}", link.name))
    }

    /// Sets its device up for the interfaces on it; adds the changes to `undo`.
    pub(super) fn adapt(&mut self, needs: Needs) -> Result<(), NodeError> {
        self.noted = None;
        if needs.vlan && !self.vlan {
            let generic = self.mode == PortMode::Generic;
            let (two_queues, tc) = (self.segments, self.mode == PortMode::Tc);
            let again = prepare(&self.device, Wants { vlan: true, generic, two_queues, tc })?;
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

    /// Descriptors for a switch: where frames leave, where their losses are counted.
    pub(crate) fn sockets(&self) -> [&OwnedFd; 2] {
        [&self.socket, &self.counters]
    }

    /// A plan's facts about it.
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
