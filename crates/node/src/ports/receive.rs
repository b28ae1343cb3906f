//! The place where a port's frames are received: in the driver, or in the stack.

use europa_api::Receive;
use europa_port::{Device, Kind, Peer, Sent};
use europa_substrate::{Attacher, PortAttachment, PortMode, Substrate, has_tc};

use super::port::{Port, fault};
use crate::NodeError;

/// Least number of packets that show how a peer sends.
const LEAST: u64 = 1000;

/// Whether a port must receive by tc: see [`Receive`].
pub(super) fn wanted(document: &europa_api::Port, device: &Device) -> Result<bool, NodeError> {
    match document.receive {
        Receive::Xdp => Ok(false),
        Receive::Tc if !has_tc() => {
            let why = "this kernel takes no receive program of tc";
            let fault = fault(document, "receive", why).label("needs Linux 6.18 or later");
            Err(fault.help("leave `receive` out, or say `receive: xdp`").into())
        }
        Receive::Tc => Ok(true),
        Receive::Auto => {
            let is_seen = matches!(device.peer, Peer::At { .. });
            Ok(matches!(device.kind, Kind::Veth) && is_seen && has_tc())
        }
    }
}

/// How a port is attached.
pub(super) fn mode(generic: bool, tc: bool) -> PortMode {
    match (generic, tc) {
        (true, _) => PortMode::Generic,
        (false, true) => PortMode::Tc,
        (false, false) => PortMode::Native,
    }
}

impl Port {
    /// Attaches the receive program.
    pub(super) fn attach(&mut self, attacher: &Attacher) -> Result<(), NodeError> {
        // The sender to a software device may be on this machine, or its host.
        let local_sender = match &self.device.kind {
            Kind::Physical { driver } => driver == "virtio_net",
            _ => true,
        };
        let attached = attacher.attach(
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

    /// The place of reception.
    pub(crate) fn receives_by(&self) -> &'static str {
        let in_driver = self.attachment.as_ref().is_some_and(PortAttachment::is_in_driver);
        match self.mode {
            PortMode::Tc if !in_driver => "tc",
            PortMode::Tc | PortMode::Native => "xdp",
            PortMode::Generic => "generic xdp",
        }
    }

    /// Whether it receives as the packets of its peer suggest.
    pub(super) fn follows_senders(&self) -> bool {
        let auto = self.mode == PortMode::Tc && self.document.receive == Receive::Auto;
        auto && !self.caged && self.attachment.is_some()
    }

    /// Receives in the driver if many of the packets that the peer sends are live frames of XDP, else
    /// by tc. `received` packets have come, of which the peer has `sent` these.
    /// Whether that was another way before.
    pub(super) fn follow_senders(
        &mut self,
        substrate: &mut Substrate,
        received: u64,
        sent: Option<Sent>,
    ) -> Result<bool, NodeError> {
        let follows = self.follows_senders();
        let Some(attachment) = self.attachment.as_mut().filter(|_| follows) else {
            return Ok(false);
        };
        self.received = received;
        let Some(sent) = sent else { return Ok(false) };
        let Sent { live, all } = sent.since(std::mem::replace(&mut self.sent, sent));
        let in_driver = attachment.is_in_driver();
        let on = if in_driver { live > all / 8 } else { live > all / 4 };
        if all < LEAST || on == in_driver {
            return Ok(false);
        }
        let Device { namespace, index, .. } = &self.device;
        substrate.receive_in_driver(attachment, namespace, *index, on)?;
        Ok(true)
    }

    /// Receives in the driver as long as programs of routers must run there.
    pub(super) fn hold_in_driver(
        &mut self,
        substrate: &mut Substrate,
        caged: bool,
    ) -> Result<(), NodeError> {
        self.caged = caged;
        let by_tc = self.mode == PortMode::Tc;
        if let Some(attachment) =
            self.attachment.as_mut().filter(|one| by_tc && !one.is_in_driver())
            && caged
        {
            let Device { namespace, index, .. } = &self.device;
            substrate.receive_in_driver(attachment, namespace, *index, true)?;
        }
        Ok(())
    }
}
