//! Slow paths that change while they run: files, programs, static routes and neighbours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use europa_api::Reload;
use europa_plan::slow_path_change;
use europa_plan::slow_path_change::Action;
use europa_plan::slow_paths::same_static;
use europa_slowpath::environment::{Environment, FileSpec, folder};
use europa_slowpath::{add_static, remove_neighbour, remove_static};

use super::base::Base;
use super::daemons::{Daemon, Keeper};
use super::make::{spec, statics};
use super::reload::{Reloaded, Reloads};
use super::{KeptBy, SlowPath, SlowPaths, tools};
use crate::kept::Kept;
use crate::{Doing, Instance, NodeError};

impl SlowPath {
    /// Changes files, programs, static routes and neighbours to those of another document.
    /// [`SlowPath::act`] reloads or restarts programs later.
    pub(super) fn change(
        &mut self,
        instance: &Instance,
        new: &europa_api::Router,
    ) -> Result<(), NodeError> {
        // Set first: undoing a failed change begins from here.
        let old = std::mem::replace(&mut self.router, new.clone());
        let actions = slow_path_change::of_routers(&old, new, tools());
        slow_path_change::add(&mut self.pending, actions);
        self.before.push(old);
        self.finish_change(instance)
    }

    /// Completes changes: a step that failed half-way is repeated.
    pub(super) fn finish_change(&mut self, instance: &Instance) -> Result<(), NodeError> {
        if self.before.is_empty() {
            return Ok(());
        }
        self.change_files(instance)?;
        self.change_static()?;
        self.before.clear();
        Ok(())
    }

    /// Changes programs and files to those of its document.
    pub(super) fn change_files(&mut self, instance: &Instance) -> Result<(), NodeError> {
        let folder = folder(&instance.directory(), &self.spec.router);
        let inode = self.spec.namespace.inode;
        self.daemons =
            super::make::daemons(&self.router, inode, &folder.join("root"), &self.daemons)?;
        let specs = |of: &europa_api::Router| -> Vec<FileSpec> {
            let files = of.slow_path.as_ref().map_or(&[][..], |slow_path| &slow_path.files);
            files.iter().map(|file| spec(file)).collect()
        };
        let all = specs(&self.router);
        let mut gone: Vec<FileSpec> = self.before.iter().flat_map(specs).collect();
        // After a failed change, any of them may have another text.
        let same: Vec<FileSpec> = if self.before.len() == 1 { gone.clone() } else { Vec::new() };
        gone.retain(|old| !all.iter().any(|new| new.path == old.path));
        let changed: Vec<&FileSpec> = all.iter().filter(|file| !same.contains(file)).collect();
        if gone.is_empty() && changed.is_empty() {
            return Ok(());
        }
        Environment::change(&folder, &gone, &changed, &all).map_err(|error| {
            NodeError::Refused(format!("router {}: slow path: {error}", self.spec.router))
        })
    }

    /// Changes static routes and neighbours to those of its document.
    pub(super) fn change_static(&self) -> Result<(), NodeError> {
        if self.before.iter().all(|old| same_static(old, &self.router)) {
            return Ok(());
        }
        let (new_routes, new_neighbours) = statics(&self.router);
        let inside = &self.spec.namespace;
        let refused = |error: std::io::Error| {
            NodeError::Refused(format!("router {}: slow path: {error}", self.spec.router))
        };
        for (routes, neighbours) in self.before.iter().map(statics) {
            for route in routes.iter().filter(|route| !new_routes.contains(route)) {
                remove_static(inside, route).map_err(refused)?;
            }
            for neighbour in neighbours.iter().filter(|one| !new_neighbours.contains(one)) {
                remove_neighbour(inside, neighbour).map_err(refused)?;
            }
        }
        add_static(inside, &new_routes, &new_neighbours).map_err(refused)
    }

    /// Whether a change is incomplete.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.before.is_empty() || !self.pending.is_empty()
    }

    /// Carries out a change on its programs. Returns those that must reload their files.
    pub(super) fn act(&mut self, base: &Arc<Base>) -> Result<Option<Reloads>, NodeError> {
        let mut reloads: Vec<(Daemon, Reload)> = Vec::new();
        while let Some((name, action)) = self.pending.pop_first() {
            let daemon = self.daemons.iter().find(|daemon| daemon.name == name).cloned();
            match (action, daemon) {
                // The keeper ends it; a later program of this name waits for that.
                (_, None) => {
                    if let Some(kept) = self.keepers.get(&name) {
                        kept.stop.store(true, Ordering::Relaxed);
                    }
                }
                (Action::Reload(reload), Some(daemon))
                    if daemon.seen(|seen| seen.pid.is_some()) =>
                {
                    reloads.push((daemon, reload));
                }
                // A stopped program may start again at once.
                (_, Some(daemon)) => self.keep(base, &daemon, true)?,
            }
        }
        if reloads.is_empty() {
            return Ok(None);
        }
        self.reloading += 1;
        Ok(Some(Reloads { base: Arc::clone(base), all: reloads }))
    }

    /// Starts a keeper for a program, after its former keeper has ended.
    pub(super) fn keep(
        &mut self,
        base: &Arc<Base>,
        daemon: &Daemon,
        again: bool,
    ) -> Result<(), NodeError> {
        let adopted = match self.adopted.remove(&daemon.name) {
            // It has ended, and is not restarted.
            Some(None) if !again => {
                self.board.done(&daemon.name, true);
                return Ok(());
            }
            other => other.flatten(),
        };
        let before = self.keepers.remove(&daemon.name);
        if let Some(before) = &before {
            before.stop.store(true, Ordering::Relaxed);
            // Programs that need it wait for the new one.
            self.board.down(&daemon.name);
        }
        let stop: Arc<AtomicBool> = Arc::default();
        let keeper = Keeper {
            daemon: daemon.clone(),
            base: Arc::clone(base),
            board: Arc::clone(&self.board),
            stop: Arc::clone(&stop),
            after: before.map(|before| before.thread),
        };
        let thread = std::thread::Builder::new().name(daemon.name.clone());
        let thread = thread.spawn(move || keeper.keep(adopted));
        let thread = thread.doing(format!("starting {}", daemon.name))?;
        self.keepers.insert(daemon.name.clone(), KeptBy { stop, thread });
        Ok(())
    }
}

impl SlowPaths {
    /// Reads which programs of a router have reloaded their files: their names, or the reason of a
    /// failure.
    pub(crate) fn reloaded(
        &mut self,
        kept: &Kept,
        router: &str,
        outcome: Reloaded,
    ) -> Result<String, String> {
        let Reloaded { done, left, why } = outcome;
        if let Some(one) = self.all.get_mut(router).filter(|one| one.base.is_some()) {
            one.reloading = one.reloading.saturating_sub(1);
            one.failed.retain(|name| !done.contains(name));
            for (place, (name, reload)) in left.into_iter().enumerate() {
                // The second failure in a row: only another start helps.
                let again = place == 0 && !one.failed.insert(name.clone());
                let action = if again { Action::Restart } else { Action::Reload(reload) };
                let later = std::mem::take(&mut one.pending);
                one.pending.insert(name, action);
                slow_path_change::add(&mut one.pending, later);
            }
            if let Err(error) = one.note(kept) {
                tracing::warn!("router {router}: slow path: {error}");
            }
        }
        why.map_or_else(|| Ok(done.join(", ")), Err)
    }
}
