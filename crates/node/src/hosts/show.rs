//! The description of hosts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use europa_api::rest::Status;
use europa_api::stats::{HostInterfaceStats, HostStats};
use europa_api::{Documents, Host, HostAttachment};
use europa_host::Inside;
use europa_port::name_path;
use serde_json::json;

use super::Hosts;
use super::record::{Record, outside, read_records, records};
use crate::Instance;

impl Hosts {
    /// The state of one.
    pub(crate) fn status(&self, name: &str) -> Status {
        let Some(host) = self.stats.iter().find(|host| host.name == name) else {
            return Status { state: "waiting".into(), ..Status::default() };
        };
        let details = BTreeMap::from([
            ("namespace".to_owned(), json!(host.namespace)),
            ("interfaces".to_owned(), json!(host.interfaces)),
        ]);
        let failed = self.failed.get(name).cloned();
        let state = if failed.is_some() { "degraded" } else { "active" };
        Status { state: state.into(), message: failed, details }
    }

    /// Whether there is a host of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.stats.iter().any(|host| host.name == name)
    }

    /// The descriptions of all.
    pub(crate) fn stats(&self) -> &[HostStats] {
        &self.stats
    }
}

pub(super) fn told(host: &Host, record: &Record) -> HostStats {
    let interfaces = host.interfaces.0.iter().map(|(name, interface)| HostInterfaceStats {
        name: name.to_string(),
        to: match interface.attachment() {
            Some(HostAttachment::Link(link)) => format!("link {}", link.value),
            Some(HostAttachment::Port(port)) => format!("port {}", port.value),
            Some(HostAttachment::Device(device)) => format!("device {}", device.value),
            None => String::new(),
        },
        mac: match interface.attachment() {
            Some(HostAttachment::Device(_)) => String::new(),
            _ => host.mac(name, interface).to_string(),
        },
        addresses: interface.addresses.iter().map(|address| address.value).collect(),
    });
    HostStats {
        name: record.host.clone(),
        namespace: record.namespace.display().to_string(),
        interfaces: interfaces.collect(),
    }
}

/// The documents of hosts as text, to tell whether they are the same.
pub(super) fn text(hosts: &[Host]) -> String {
    serde_json::to_string(hosts).unwrap_or_default()
}

/// The description of existing hosts.
pub(super) fn stats(instance: &Instance, documents: &Documents) -> Vec<HostStats> {
    let kept = read_records(instance);
    let record = |host: &Host| kept.iter().find(|record| *record.host == *host.name.to_string());
    documents.hosts.iter().filter_map(|host| Some(told(host, record(host)?))).collect()
}

/// The file of a host's network namespace; `None` without such a host.
pub fn namespace_of(instance: &Instance, host: &str) -> Option<PathBuf> {
    let kept = read_records(instance);
    kept.into_iter().find(|record| record.host == host).map(|record| record.namespace)
}

/// The environment of a host's programs; `None` if there is no such host, or if Europa has not made
/// it.
pub fn inside_of(instance: &Instance, host: &str) -> Option<Inside> {
    let kept = read_records(instance);
    kept.into_iter().find(|record| record.host == host).and_then(|record| record.inside)
}

/// Whether a node of this name has, or had, hosts.
pub(crate) fn exist(instance: &Instance) -> bool {
    records(instance).exists() || name_path(&outside(instance)).exists()
}
