//! Where hosts are, and what is written down about them.

use std::fs;
use std::path::PathBuf;

use europa_api::{Fault, Host, HostPlace, Key};
use europa_host::Inside;
use serde::{Deserialize, Serialize};

use crate::kept::replace;
use crate::{Doing, Instance, NodeError};

/// The facts that the removal of a host needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) host: String,
    /// The file of its namespace.
    pub(super) namespace: PathBuf,
    pub(super) moved: Vec<Moved>,
    /// The view of its programs, for a host that Europa makes.
    #[serde(default)]
    pub(super) inside: Option<Inside>,
}

/// A device of the machine that is inside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) inside: String,
    pub(super) before: String,
    pub(super) was_up: bool,
}

pub(super) fn read_records(instance: &Instance) -> Vec<Record> {
    match fs::read(records(instance)) {
        // A file cut short by a kill was written before anything was moved.
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// The namespace of the outer ends.
pub(crate) fn outside(instance: &Instance) -> String {
    format!("europa.{}", instance.name())
}

/// The namespace of a host that Europa makes.
pub(super) fn own(instance: &Instance, host: &str) -> String {
    format!("{}.{host}", outside(instance))
}

pub(super) fn records(instance: &Instance) -> PathBuf {
    instance.directory().join("hosts.json")
}

/// The control group of a host's programs. A group's name has no dot.
pub fn group(host: &str) -> String {
    format!("host_{host}")
}

/// A field of a host's document that the machine refuses.
pub(super) fn refused(host: &Host, path: &[&str], why: impl std::fmt::Display) -> NodeError {
    Fault::new(Key::new("host", host.name.to_string()), path, why).into()
}

/// The field that says which namespace a host is.
pub(super) fn place_field(host: &Host) -> &'static [&'static str] {
    match host.place() {
        HostPlace::Own => &[],
        HostPlace::Namespace(_) => &["namespace"],
        HostPlace::Process(_) => &["pid"],
        HostPlace::Container(_) => &["container"],
    }
}

/// Writes them down again.
pub(super) fn write_records(instance: &Instance, kept: &[Record]) -> Result<(), NodeError> {
    let text = serde_json::to_vec(kept).map_err(std::io::Error::from);
    replace(&records(instance), &text.doing("writing down hosts")?).doing("writing down hosts")
}
