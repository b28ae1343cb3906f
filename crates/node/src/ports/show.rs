//! States and counters of ports.

use std::collections::HashSet;
use std::sync::Arc;

use europa_api::Mac;
use europa_api::rest::Status;
use europa_api::stats::PortStats;
use europa_port::LinkState;
use europa_substrate::Substrate;
use serde_json::json;

use super::{Look, Port, Ports};
use crate::stats::OfSwitch;

impl Ports {
    /// The state of one.
    pub(crate) fn status(&self, name: &str) -> Status {
        let Some(port) = self.all.iter().find(|port| port.name == name) else {
            let message = "its device is not there yet".to_owned();
            return Status { state: "missing".into(), message: Some(message), ..Status::default() };
        };
        let state = match port.link {
            Some(LinkState::Down) => "down",
            Some(LinkState::Gone) => "missing",
            _ => "attached",
        };
        let details = [
            ("device", json!(port.device.name)),
            ("kind", json!(port.device.kind.to_string())),
            ("mac", json!(Mac(port.device.mac).to_string())),
            ("mtu", json!(port.mtu)),
            ("live_frames", json!(port.live)),
            ("receives_by", json!(port.receives_by())),
        ];
        let all: Vec<String> = port.limitations.iter().map(ToString::to_string).collect();
        Status {
            state: state.into(),
            message: (!all.is_empty()).then(|| all.join("; ")),
            details: details.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    /// The limitations of all, in words.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let of = |port: &Port| {
            let name = port.name.clone();
            let all = port.limitations.iter();
            all.map(|what| format!("port {name}: {what}")).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of)
    }

    /// The counters of some. A thread still has to read the losses of their devices.
    pub(crate) fn stats(
        &self,
        substrate: &Substrate,
        names: &HashSet<String>,
        switch: &OfSwitch,
    ) -> Vec<(PortStats, Arc<Look>)> {
        let ports = self.all.iter().filter(|port| names.contains(&port.name));
        let of = ports.map(|port| {
            let entry = port.attachment.as_ref().map(|one| substrate.entry_of(one));
            let entry = entry.unwrap_or_default();
            let queue = switch.ports.get(&port.id).cloned().unwrap_or_default();
            let stats = PortStats {
                name: port.name.clone(),
                device: port.device.name.clone(),
                to_linux: entry.to_linux,
                copies_refused: entry.copies_refused,
                malformed: entry.malformed,
                queued: queue.queued,
                queued_peak: queue.queued_peak,
                device_drops: 0,
            };
            (stats, Arc::clone(&port.look))
        });
        of.collect()
    }
}
