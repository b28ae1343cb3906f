//! The remains of a killed node, and their removal.

use std::fs;
use std::io::ErrorKind;

use europa_capture::ask;
use europa_port::Undo;
use europa_sandbox::cgroup::Cgroups;
use europa_substrate::Substrate;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kept::{Kept, replace};
use crate::{Doing, Instance, Lifetime, NodeError, hosts};

/// The record of a device that is a port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// The former state.
    pub(crate) undo: Undo,
    /// The facts that the next node needs to adopt the port.
    pub(crate) port: Value,
}

impl Noted {
    /// The record as text.
    pub(crate) fn text(&self) -> String {
        // Numbers, words and lists of them have a form in JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Writes down the former and the present state of the devices, for a later process: the texts of
/// the records.
pub(crate) fn note<'t>(
    instance: &Instance,
    ports: impl Iterator<Item = &'t str>,
) -> Result<(), NodeError> {
    let text = format!("[{}]", ports.collect::<Vec<_>>().join(","));
    replace(&instance.undo(), text.as_bytes()).doing("writing down changes of devices")
}

/// The records of the ports.
pub(crate) fn noted(instance: &Instance) -> Result<Vec<Noted>, NodeError> {
    match fs::read(instance.undo()) {
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).doing("reading changes of devices"),
    }
}

/// Ends all of `instance`: processes, attachments, pins, groups, and the changes of devices. Logs
/// remain. Does nothing if nothing exists.
pub(crate) fn stop(instance: &Instance) -> Result<Vec<String>, NodeError> {
    let mut said = Vec::new();
    // Detach first: from then on Linux gets every frame.
    Substrate::remove(&instance.pins())?;
    // Kills the running processes of a killed node: first the recorded ones, then others.
    Kept::remove(instance)?;
    let groups = Cgroups::detect()?;
    for name in groups.names(instance.name())? {
        groups.remove(instance.name(), &name)?;
    }
    groups.remove_instance(instance.name())?;
    hosts::remove(instance)?;
    for noted in noted(instance)? {
        if let Err(error) = noted.undo.undo() {
            said.push(format!("a device was not put back as it was: {error}"));
        }
    }
    crate::uplinks::remove(instance)?;
    crate::slow_path::remove(instance)?;
    crate::images::remove(instance);
    let _ = fs::remove_file(instance.undo());
    Ok(said)
}

/// Takes the sockets of a node away that does not run any more.
pub(crate) fn remove_sockets(instance: &Instance) {
    for file in [instance.socket(), ask::socket(&instance.directory())] {
        let _ = fs::remove_file(file);
    }
}

/// Removes everything of `instance`, except permanent desired state.
pub(crate) fn remove(instance: &Instance) -> Result<Vec<String>, NodeError> {
    let said = stop(instance)?;
    remove_sockets(instance);
    let _ = fs::remove_file(instance.state(Lifetime::Temporary));
    let _ = fs::remove_dir_all(instance.tls(Lifetime::Temporary));
    let _ = fs::remove_dir_all(instance.ssh_keys(Lifetime::Temporary));
    crate::ssh::remove(instance);
    let directory = instance.directory();
    let _ = fs::remove_dir_all(instance.logs());
    let _ = fs::remove_file(instance.lock());
    let _ = fs::remove_dir(&directory);
    // The parent folder is removed with its last instance.
    if let Some(parent) = directory.parent() {
        let _ = fs::remove_dir(parent);
    }
    Ok(said)
}

/// Whether a killed node of this name has left objects.
pub(crate) fn exist(instance: &Instance) -> bool {
    hosts::exist(instance)
        || instance.pins().exists()
        || instance.undo().exists()
        || instance.socket().exists()
        || Kept::exists(instance)
}
