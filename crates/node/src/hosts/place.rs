//! The namespace that a host's document means.

use std::path::{Path, PathBuf};

use europa_api::{Host, HostPlace};
use europa_port::name_path;

use super::container;

/// The path of the namespace of an existing host; `None` for a namespace of Europa's own.
pub(super) fn path(host: &Host) -> Result<Option<PathBuf>, String> {
    let path = match host.place() {
        HostPlace::Own => return Ok(None),
        HostPlace::Namespace(name) if name.contains('/') => PathBuf::from(name),
        HostPlace::Namespace(name) => name_path(name),
        HostPlace::Process(pid) => process(pid),
        HostPlace::Container(name) => process(container::pid(name)?),
    };
    if path.exists() {
        return Ok(Some(path));
    }
    Err(match host.place() {
        HostPlace::Process(pid) => format!("there is no process {pid}"),
        HostPlace::Container(name) => format!("the container {name} does not run"),
        _ => format!("there is no network namespace {}", path.display()),
    })
}

fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join("ns/net")
}
