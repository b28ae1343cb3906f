//! Removes hosts, also those of a killed node.

use std::fs;

use europa_api::{Host, HostAttachment, HostPlace};
use europa_plan::hosts::{cut, find, runs_others, stays};
use europa_port::{Namespace, delete_device, delete_veths, move_device, set_up};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::record::{Moved, outside, own, read_records, records, refused, write_records};
use crate::{Doing, Instance, NodeError};

/// Moves devices of the machine back to this namespace.
fn move_back(host: &str, inside: &Namespace, moved: Vec<Moved>) -> Result<(), NodeError> {
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

fn end_processes(inside: &Namespace) {
    for pid in inside.processes() {
        // It may have ended already.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Removes a namespace of a host, with the processes inside, and every pair.
fn end(name: &str) -> Result<(), NodeError> {
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

/// Removes those of the hosts `made`, and those of their interfaces, that are not to stay when
/// `wanted` is made next; `made` keeps the rest. Returns the names of the hosts whose commands have
/// ended with that.
pub(super) fn trim(
    instance: &Instance,
    made: &mut Vec<Host>,
    wanted: &[Host],
) -> Result<Vec<String>, NodeError> {
    let mut kept = read_records(instance);
    for key in cut(made, wanted) {
        let (Some((host, interface)), Some(record)) =
            (find(made, &key), kept.iter_mut().find(|record| record.host == key.0))
        else {
            continue;
        };
        // A namespace that no longer exists has taken its devices along.
        if let Ok(inside) = Namespace::named(&record.namespace.to_string_lossy()) {
            if let Some(HostAttachment::Device(_)) = interface.attachment() {
                let (back, stay) = record.moved.drain(..).partition(|m| m.inside == key.1);
                record.moved = stay;
                move_back(&key.0, &inside, back)?;
            } else {
                delete_device(&inside, &key.1).map_err(|error| {
                    refused(host, &["interfaces", &key.1], format!("interface {}: {error}", key.1))
                })?;
            }
        }
        if let Some(host) = made.iter_mut().find(|host| *host.name.value == *key.0) {
            host.interfaces.0.retain(|(name, _)| *name.value != *key.1);
        }
    }
    let mut ended = Vec::new();
    for host in std::mem::take(made) {
        let stay = wanted.iter().find(|other| stays(&host, other));
        if stay.is_none_or(|other| runs_others(&host, other)) && host.place() == HostPlace::Own {
            let name = own(instance, &host.name);
            match stay {
                None => end(&name)?,
                Some(_) => {
                    if let Ok(inside) = Namespace::named(&name) {
                        end_processes(&inside);
                    }
                }
            }
            // A successor of its process 1 is started by the next program.
            let _ = fs::remove_dir_all(europa_host::folder(&instance.directory(), &host.name));
            ended.push(host.name.to_string());
        }
        match stay {
            None => kept.retain(|record| record.host != *host.name.value),
            Some(other) if runs_others(&host, other) => {
                made.push(Host { run: Vec::new(), ..host });
            }
            Some(_) => made.push(host),
        }
    }
    if made.is_empty() && wanted.is_empty() {
        Namespace::delete(&outside(instance)).doing("taking the namespace of outer ends away")?;
        let _ = fs::remove_file(records(instance));
    } else {
        write_records(instance, &kept)?;
    }
    Ok(ended)
}
