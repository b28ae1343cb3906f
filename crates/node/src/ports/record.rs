//! The facts that the next node needs of a port.

use std::sync::Arc;

use europa_port::{Limitation, Sent, counter_socket, open_socket};
use europa_substrate::{PortMode, Substrate};
use serde::{Deserialize, Serialize};

use super::look::Look;
use super::port::{Port, find, rate};
use super::receive::mode;
use crate::NodeError;
use crate::leftovers::Noted;

/// Changes with [`PortRecord`], and with the pinned maps.
const FORMAT: u32 = 4;

/// The facts that the next node needs of a port.
#[derive(Serialize, Deserialize)]
struct PortRecord {
    format: u32,
    id: u32,
    /// The document from which the port was made.
    document: String,
    /// Inode of its device's namespace.
    namespace: u64,
    /// Number of its device there.
    device: u32,
    live: bool,
    segments: bool,
    generic: bool,
    tc: bool,
    vlan: bool,
    limitations: Vec<Limitation>,
}

impl PortRecord {
    fn mode(&self) -> PortMode {
        mode(self.generic, self.tc)
    }
}

fn text(document: &europa_api::Port) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

impl Port {
    /// The facts that the next node needs to adopt it, as text.
    pub(super) fn noted(&mut self) -> Arc<str> {
        let text = self.noted.take().unwrap_or_else(|| self.record().text().into());
        self.noted = Some(text.clone());
        text
    }

    /// The facts that the next node needs to adopt it.
    fn record(&self) -> Noted {
        let record = PortRecord {
            format: FORMAT,
            id: self.id,
            document: text(&self.document),
            namespace: self.device.namespace.inode,
            device: self.device.index,
            live: self.live,
            segments: self.segments,
            generic: self.mode == PortMode::Generic,
            tc: self.mode == PortMode::Tc,
            vlan: self.vlan,
            limitations: self.limitations.clone(),
        };
        // Numbers, words and lists of them have a form in JSON.
        Noted { undo: self.undo.clone(), port: serde_json::to_value(record).unwrap_or_default() }
    }

    /// Takes over a port that another node has made of this document, if its device is the
    /// one that it was. None if it is another port.
    pub(super) fn adopt(
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
            limitations: record.limitations.clone(),
            undo: noted.undo.clone(),
            document: document.clone(),
            stale: false,
            link: None,
            vlan: record.vlan,
            // That of the other node lasts as long as the switch to which it was handed.
            promiscuous: false,
            socket: open_socket(&device)?,
            counters: counter_socket(&device)?,
            look: Look::new(&device, document, record.live)?,
            noted: None,
            mode: record.mode(),
            received: 0,
            caged: false,
            sent: Sent::default(),
            attachment: Some(attachment),
            device,
        }))
    }
}
