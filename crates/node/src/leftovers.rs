//! What a node that was killed left behind, and taking it away.

use std::fs;
use std::io::ErrorKind;

use europa_capture::ask;
use europa_port::Undo;
use europa_sandbox::cgroup::Cgroups;
use europa_substrate::Substrate;

use crate::{Doing, Instance, Lifetime, NodeError, hosts};

/// Writes down how the devices were, for a later process.
pub(crate) fn note(instance: &Instance, undos: &[&Undo]) -> Result<(), NodeError> {
    let text = serde_json::to_vec(undos).map_err(std::io::Error::from);
    fs::write(instance.undo(), text.doing("writing down changes of devices")?)
        .doing("writing down changes of devices")
}

/// Ends everything of `instance` that runs: processes, attachments, pins, groups, and the
/// changes of devices. Logs stay. Nothing is there: nothing happens.
pub(crate) fn stop(instance: &Instance) -> Result<Vec<String>, NodeError> {
    let mut said = Vec::new();
    // Detach first: from then on Linux gets every frame.
    Substrate::remove(&instance.pins())?;
    // Kills whatever of a killed node still runs.
    let groups = Cgroups::detect()?;
    for name in groups.names(instance.name())? {
        groups.group(instance.name(), &name)?.remove()?;
    }
    groups.remove_instance(instance.name())?;
    hosts::remove(instance)?;
    match fs::read(instance.undo()) {
        Ok(text) => {
            // A file cut short by a kill says nothing usable.
            let undos: Vec<Undo> = serde_json::from_slice(&text).unwrap_or_default();
            for undo in undos {
                if let Err(error) = undo.undo() {
                    said.push(format!("a device was not put back as it was: {error}"));
                }
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).doing("reading changes of devices"),
    }
    crate::slow_path::remove(instance)?;
    let state = instance.state(Lifetime::Temporary);
    for file in [instance.undo(), instance.socket(), ask::socket(&instance.directory()), state] {
        let _ = fs::remove_file(file);
    }
    Ok(said)
}

/// Removes everything of `instance`, but for desired state that is to last.
pub(crate) fn remove(instance: &Instance) -> Result<Vec<String>, NodeError> {
    let said = stop(instance)?;
    let directory = instance.directory();
    let _ = fs::remove_dir_all(instance.logs());
    let _ = fs::remove_file(instance.lock());
    let _ = fs::remove_dir(&directory);
    // The parent goes with its last instance.
    if let Some(parent) = directory.parent() {
        let _ = fs::remove_dir(parent);
    }
    Ok(said)
}

/// Whether a killed node of this name has left something.
pub(crate) fn exist(instance: &Instance) -> bool {
    hosts::exist(instance)
        || instance.pins().exists()
        || instance.undo().exists()
        || instance.socket().exists()
}
