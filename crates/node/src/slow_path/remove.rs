//! Removes slow paths: frees their names at once, and ends their programs in a thread.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use europa_plan::slow_paths::outer_name;
use europa_port::{Namespace, delete_device, delete_veths};
use europa_slowpath::environment::folder;
use europa_slowpath::users::Ids;
use europa_slowpath::{environment, namespace};

use super::{SlowPath, SlowPaths, record_name};
use crate::kept::Kept;
use crate::{Doing, Instance, NodeError};

impl SlowPaths {
    /// Notes that another program has removed a namespace. Returns whether it had existed.
    pub(crate) fn lose(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        name: &str,
    ) -> Result<bool, NodeError> {
        if !self.all.contains_key(name) {
            return Ok(false);
        }
        kept.forget(&record_name(name));
        self.remove(instance, name)?;
        Ok(true)
    }

    /// Removes those of another node that were not adopted. No process runs there.
    pub(crate) fn remove_others(&self, instance: &Instance, kept: &Kept) -> Result<(), NodeError> {
        let own: Vec<_> = self.all.keys().map(|name| folder(&instance.directory(), name)).collect();
        let entries = fs::read_dir(instance.directory().join("slow"));
        let others = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        for path in others.filter(|path| !own.contains(path)) {
            let router = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            kept.forget(&record_name(&router));
            let name = format!("europa.{}.{router}", instance.name());
            let what = || format!("removing the namespace {name}");
            if let Ok(inside) = Namespace::named(&name) {
                delete_veths(&inside).doing(what())?;
            }
            Namespace::delete(&name).doing(what())?;
            remove_folder(&path)?;
        }
        Ok(())
    }

    /// Removes one. Its names are free at once; a thread waits for the end of its programs.
    pub(super) fn remove(&mut self, instance: &Instance, name: &str) -> Result<(), NodeError> {
        let Some(one) = self.all.remove(name) else { return Ok(()) };
        one.stop.store(true, Ordering::Relaxed);
        let what = || format!("taking the slow path of {name} away");
        let folder = folder(&instance.directory(), name);
        let ids = Ids::read(&folder);
        let (router, interfaces) = (one.router.clone(), one.spec.interfaces.clone());
        // No new slow path waits for these.
        self.reapers.retain(|_, reaper| !reaper.is_finished());
        let gone = folder.clone();
        // The reaper releases the users once the folder is removed: then this end of the channel
        // closes.
        let (_removing, removed) = channel::<()>();
        let reap = move || {
            one.end();
            let _ = removed.recv();
            if let Some(ids) = ids {
                ids.release(&gone);
            }
        };
        let reaper = std::thread::Builder::new().name("reaper".into());
        self.reapers.insert(name.to_owned(), reaper.spawn(reap).doing(what())?);
        self.uplinks.remove(name)?;
        let outside = Namespace::named(&namespace::outside_name(instance.name())).doing(what())?;
        for interface in &interfaces {
            // Its other end is removed with it.
            delete_device(&outside, &outer_name(name, interface)).doing(what())?;
        }
        Namespace::delete(&namespace::name(instance.name(), &router.slice, &router.name))
            .doing(what())?;
        environment::remove(&folder).doing(what())
    }

    /// Ends all programs. [`remove`] removes the namespaces.
    pub(crate) fn stop(&mut self) {
        for one in self.all.values() {
            one.stop.store(true, Ordering::Relaxed);
        }
        for (_, one) in self.all.drain() {
            one.end();
        }
        self.uplinks.lose();
        for (_, reaper) in self.reapers.drain() {
            let _ = reaper.join();
        }
        if let Some((stop, thread)) = self.carrier.take() {
            stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}

impl SlowPath {
    /// Ends its programs, and removes their base.
    pub(super) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, kept) in self.keepers {
            // A keeper does not panic; if it did, it keeps nothing any more.
            let _ = kept.thread.join();
        }
        if let Some(before) = self.after {
            let _ = before.join();
        }
        if let Some(base) = self.base {
            base.end();
        }
    }
}

/// Removes the files of a slow path without processes, and frees its users.
pub(super) fn remove_folder(path: &Path) -> Result<(), NodeError> {
    let ids = Ids::read(path);
    environment::remove(path).doing(format!("removing {}", path.display()))?;
    if let Some(ids) = ids {
        ids.release(path);
    }
    Ok(())
}

/// Removes the namespaces and files of an instance's slow paths. Its processes must have ended.
pub(crate) fn remove(instance: &Instance) -> Result<(), NodeError> {
    let slow = instance.directory().join("slow");
    for entry in fs::read_dir(&slow).into_iter().flatten().flatten() {
        let folder = entry.file_name();
        let name = format!("europa.{}.{}", instance.name(), folder.to_string_lossy());
        Namespace::delete(&name).doing(format!("removing the namespace {name}"))?;
        remove_folder(&entry.path())?;
    }
    let outside = namespace::outside_name(instance.name());
    Namespace::delete(&outside).doing(format!("removing the namespace {outside}"))?;
    match fs::remove_dir_all(&slow) {
        // No router had a slow path: the namespace was for wires.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.doing(format!("removing {}", slow.display())),
    }
}
