//! Reading and writing the kernel's control files.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;

use super::failed;
use crate::error::SandboxError;

/// Writes a value; the kernel requires a single `write`.
pub(super) fn write(path: &Path, value: impl Display) -> Result<(), SandboxError> {
    fs::write(path, value.to_string()).map_err(|source| failed(path, source))
}

/// Like [`write`], if the kernel was built with this file.
pub(super) fn write_if_there(path: &Path, value: impl Display) -> Result<(), SandboxError> {
    if path.exists() { write(path, value) } else { Ok(()) }
}

/// Reads a number.
pub(super) fn read(path: &Path) -> Result<u64, SandboxError> {
    let text = fs::read_to_string(path).map_err(|source| failed(path, source))?;
    number(path, text.trim())
}

/// Reads the number behind `name` in a file of lines "name number".
pub(super) fn field(path: &Path, name: &str) -> Result<u64, SandboxError> {
    let text = fs::read_to_string(path).map_err(|source| failed(path, source))?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    number(path, value.unwrap_or_default())
}

fn number(path: &Path, text: &str) -> Result<u64, SandboxError> {
    text.parse().map_err(|_| {
        failed(path, io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is no number")))
    })
}

/// Names of the folders in `path`; empty if it does not exist.
pub(super) fn folders(path: &Path) -> Result<Vec<String>, SandboxError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|source| failed(path, source))?,
    };
    let folders =
        entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Version 1: limits of memory and of memory plus swap. The second must never be below the first,
/// so the order of the two writes depends on whether the limit grows or shrinks.
pub(super) fn set_memory_v1(folder: &Path, bytes: u64) -> Result<(), SandboxError> {
    let memory = folder.join("memory.limit_in_bytes");
    let with_swap = folder.join("memory.memsw.limit_in_bytes");
    if !with_swap.exists() {
        return write(&memory, bytes);
    }
    let order = if read(&with_swap)? < bytes { [with_swap, memory] } else { [memory, with_swap] };
    order.iter().try_for_each(|path| write(path, bytes))
}

/// Version 1: a new cpuset is empty and accepts no process, so it gets the contents of its parent.
pub(super) fn inherit_cpuset(parent: &Path, folder: &Path) -> Result<(), SandboxError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = folder.join(file);
        if fs::read_to_string(&own).is_ok_and(|text| text.trim().is_empty()) {
            let from = parent.join(file);
            let text = fs::read_to_string(&from).map_err(|source| failed(&from, source))?;
            write(&own, text.trim())?;
        }
    }
    Ok(())
}

/// Version 2: lets the children of `folder` use the same controllers as `folder`.
pub(super) fn enable_controllers(folder: &Path) -> Result<(), SandboxError> {
    let path = folder.join("cgroup.controllers");
    let available = fs::read_to_string(&path).map_err(|source| failed(&path, source))?;
    let wanted: Vec<String> = available
        .split_whitespace()
        .filter(|name| ["cpu", "cpuset", "memory", "pids"].contains(name))
        .map(|name| format!("+{name}"))
        .collect();
    if wanted.is_empty() {
        Ok(())
    } else {
        write(&folder.join("cgroup.subtree_control"), wanted.join(" "))
    }
}
