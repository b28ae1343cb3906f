//! Removes hosts, also those of a killed node.

use std::fs;

use europa_port::{Namespace, delete_veths, move_device, set_up};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Moved, outside, read_records, records};
use crate::{Doing, Instance, NodeError};

/// Moves devices of the machine back to this namespace.
pub(super) fn move_back(
    host: &str,
    inside: &Namespace,
    moved: Vec<Moved>,
) -> Result<(), NodeError> {
    let here = Namespace::current().doing("opening our network namespace")?;
    for Moved { inside: inner, before, was_up } in moved {
        let back = move_device(inside, &inner, &here, &before)
            .and_then(|()| if was_up { set_up(&here, &before) } else { Ok(()) });
        if let Err(error) = back {
            tracing::warn!("host {host}: moving {inner} back: {error}");
        }
    }
    Ok(())
}

pub(super) fn end_processes(inside: &Namespace) {
    for pid in inside.processes() {
        // It may have ended already.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Removes a namespace of a host, with the processes inside, and every pair.
pub(super) fn end(name: &str) -> Result<(), NodeError> {
    let what = || format!("taking the namespace {name} away");
    if let Ok(inside) = Namespace::named(name) {
        end_processes(&inside);
        delete_veths(&inside).doing(what())?;
    }
    Namespace::delete(name).doing(what())
}

/// Removes all hosts: processes inside those that Europa has made, their namespaces, every pair;
/// and moves devices back to this namespace. Works also after a kill.
pub(crate) fn remove(instance: &Instance) -> Result<(), NodeError> {
    for record in read_records(instance) {
        let Ok(inside) = Namespace::named(&record.namespace.to_string_lossy()) else { continue };
        move_back(&record.host, &inside, record.moved)?;
    }
    let mine = format!("{}.", outside(instance));
    // A host's name has no dot; other namespaces' names have more.
    let is_host = |name: &String| name.strip_prefix(&mine).is_some_and(|rest| !rest.contains('.'));
    for name in Namespace::names(&mine).into_iter().filter(is_host) {
        end(&name)?;
    }
    let outer = outside(instance);
    if let Ok(namespace) = Namespace::named(&outer) {
        delete_veths(&namespace).doing("taking hosts' lines away")?;
    }
    Namespace::delete(&outer).doing("taking the namespace of outer ends away")?;
    let _ = fs::remove_file(records(instance));
    let _ = fs::remove_dir_all(instance.directory().join("hosts"));
    Ok(())
}
