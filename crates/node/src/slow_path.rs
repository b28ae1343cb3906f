//! Routers' own Linux: made, followed, and its programs kept running.
//!
//! The hidden ports and interfaces that a slow path needs are planned in `europa-plan`; here their
//! devices are made.

mod adopt;
mod base;
mod board;
mod change;
mod check;
mod daemons;
mod follow;
mod handlers;
mod make;
mod missing;
mod reload;
mod remove;
mod show;
mod start;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use europa_api::Documents;
use europa_control::Stop;
use europa_plan::RouterId;
use europa_plan::slow_path_change::{Action, BIRDC, FRR_RELOAD, Tools};
use europa_plan::slow_paths::{is_hidden, same, same_whole};
use europa_plan::wires::is_wire;
use europa_sandbox::Child;
use europa_slowpath::environment;
use europa_slowpath::{Progress, Spec, carrier};
use serde::{Deserialize, Serialize};

use crate::beside::{Purpose, Work};
use crate::context::Context;
use crate::doors::{Door, Doors};
use crate::kept::Kept;
use crate::uplinks::Uplinks;
use crate::{Instance, NodeError};

pub(crate) use base::Base;
use board::Board;
pub(crate) use check::check;
use daemons::Daemon;
use make::watches;
use missing::{Made, Missing};
pub(crate) use reload::Reloaded;
pub(crate) use remove::remove;

/// The slow paths of a node.
#[derive(Default)]
pub(crate) struct SlowPaths {
    /// By router.
    all: HashMap<String, SlowPath>,
    /// Threads that remove undesired slow paths, by router.
    reapers: HashMap<String, JoinHandle<()>>,
    /// Doors by which their programs change rules of their slices.
    doors: Doors,
    uplinks: Uplinks,
    /// Follows link states.
    carrier: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    /// Missing ones are made.
    making: Work<Made>,
}

/// The slow path of one router.
struct SlowPath {
    /// The document from which the port was made.
    router: europa_api::Router,
    spec: Spec,
    progress: Arc<Progress>,
    watches: Vec<carrier::Watch>,
    daemons: Vec<Daemon>,
    /// Programs that another node has started, by name: `None` for those that are not to be
    /// restarted.
    adopted: HashMap<String, Option<Child>>,
    /// Process 1 of its pid namespace, if another node has started it.
    first: Option<Child>,
    /// The thread that removes an earlier one of this name.
    after: Option<JoinHandle<()>>,
    /// By program.
    keepers: HashMap<String, KeptBy>,
    /// Set once its programs have been started.
    base: Option<Arc<Base>>,
    board: Arc<Board>,
    /// The pending actions of a change on running programs, by program.
    pending: BTreeMap<String, Action>,
    /// Former documents of a change that is not complete: any of their objects may still exist.
    before: Vec<europa_api::Router>,
    /// Threads in which its programs read their files again.
    reloading: usize,
    /// Programs whose last reload failed.
    failed: BTreeSet<String>,
    door: Option<Door>,
    stop: Arc<AtomicBool>,
}

/// The thread that keeps a program running.
struct KeptBy {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A record of a slow path: the document that it was made from.
#[derive(Serialize, Deserialize)]
struct Record {
    router: String,
    text: String,
}

/// The parts of a router's document that make its slow path, as text.
fn text(router: &europa_api::Router) -> String {
    let fast = &router.fast_path;
    let all = (&router.slow_path, &router.interfaces, &fast.routes, &fast.neighbours);
    serde_json::to_string(&all).unwrap_or_default()
}

fn record_name(router: &str) -> String {
    format!("slow-{}", router.replace('/', "."))
}

impl SlowPaths {
    /// From now on programs can change rules of their slices.
    pub(crate) fn open_doors(&mut self, doors: Doors) {
        self.doors = doors;
    }

    /// Documents of routers that they were made from, with the uplinks that are whole.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (RouterId, europa_api::Router)> {
        let made = |one: &SlowPath| self.uplinks.as_made(&one.router);
        self.all.values().map(move |one| (RouterId::of(&one.router), made(one)))
    }

    /// Their uplinks.
    pub(crate) fn uplinks(&self) -> &Uplinks {
        &self.uplinks
    }

    /// Routers whose programs have not been started, or have not finished a change.
    pub(crate) fn idle(&self) -> impl Iterator<Item = RouterId> {
        let idle = self.all.values().filter(|one| one.base.is_none() || one.is_unfinished());
        idle.map(|one| RouterId::of(&one.router))
    }

    /// Makes the slow paths that the documents of a change want, except for their programs. `ports`
    /// are all ports, including those that hosts make.
    pub(crate) fn have(
        &mut self,
        context: &Context,
        purpose: Purpose,
        ports: Vec<europa_api::Port>,
    ) -> Result<(), Stop> {
        let documents = purpose.documents().clone();
        let (instance, kept) = (&context.instance, &context.kept);
        let Some(made) = self.making.result(&purpose, drop)? else {
            self.trim(instance, kept, &documents)?;
            let missing = self.missing(instance, &documents, ports)?;
            let work = move || Ok(missing.make());
            let begun =
                self.making.begin(context, purpose, |node| &mut node.slow_paths.making, work);
            return Err(begun);
        };
        Ok(self.keep(instance, kept, &documents, made)?)
    }

    /// Waits until no thread makes one any more.
    pub(crate) fn wait(&mut self) {
        self.making.wait();
    }

    /// Removes the unwanted ones, and changes those that stay.
    fn trim(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        documents: &Documents,
    ) -> Result<(), NodeError> {
        let stays = |one: &SlowPath| {
            documents.routers.iter().any(|r| {
                r.full_name() == one.spec.router && r.slow_path.is_some() && same(&one.router, r)
            })
        };
        let gone: Vec<String> =
            self.all.iter().filter(|(_, one)| !stays(one)).map(|(name, _)| name.clone()).collect();
        for name in gone {
            kept.forget(&record_name(&name));
            self.remove(instance, &name)?;
        }
        for router in &documents.routers {
            if let Some(one) = self.all.get_mut(&router.full_name())
                && !same_whole(&one.router, router)
            {
                one.note_as(kept, String::new())?;
                one.change(instance, router)?;
                one.note(kept)?;
            }
        }
        Ok(())
    }

    /// Those that documents want and that are not there. `ports` are all, with those that hosts
    /// make.
    fn missing(
        &self,
        instance: &Instance,
        documents: &Arc<Documents>,
        mut ports: Vec<europa_api::Port>,
    ) -> Result<Missing, NodeError> {
        ports.retain(|port| !is_hidden(&port.name.value) && !is_wire(&port.name.value));
        let routers = documents.routers.iter().filter(|router| router.slow_path.is_some());
        let missing = routers.map(|router| router.full_name());
        Ok(Missing {
            instance: instance.clone(),
            documents: documents.clone(),
            ports,
            uplinks: self.uplinks.clone(),
            routers: missing.filter(|name| !self.all.contains_key(name)).collect(),
        })
    }

    /// Takes those that were made, up to the first that could not be.
    fn keep(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        documents: &Documents,
        made: Made,
    ) -> Result<(), NodeError> {
        for mut one in made.all {
            let full = one.spec.router.clone();
            one.after = self.reapers.remove(&full);
            // From here on the next node adopts it.
            one.note(kept)?;
            self.all.insert(full, one);
        }
        made.failed.map_or(Ok(()), Err)?;
        let ports: Vec<_> = made.ports.iter().collect();
        for (router, plan) in documents.routers.iter().zip(made.plans) {
            if let Some(one) = self.all.get_mut(&router.full_name()) {
                // Its neighbours may have other namespaces now.
                one.watches = watches(instance, documents, &ports, router, &plan?)?;
            }
        }
        Ok(())
    }

    /// The namespaces and group of a router's processes, once its slow path has been started.
    pub(crate) fn base(&self, router: &str) -> Option<Arc<Base>> {
        self.all.get(router)?.base.clone()
    }

    /// Routers with an existing slow path.
    pub(crate) fn routers(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(|name| &**name)
    }
}

/// The programs of this machine that reload those of slow paths.
pub(crate) fn tools() -> Tools {
    Tools { frr_reload: has(FRR_RELOAD), birdc: has(BIRDC) }
}

/// Whether this machine has a program.
fn has(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).exists();
    }
    environment::PATH.split(':').any(|folder| Path::new(folder).join(program).exists())
}

impl SlowPath {
    /// Writes down the document that it was made from: the next node adopts it if that is still
    /// desired. During a change, the next node must make it again.
    fn note(&self, kept: &Kept) -> Result<(), NodeError> {
        let is_done = !self.is_unfinished() && self.reloading == 0;
        self.note_as(kept, if is_done { text(&self.router) } else { String::new() })
    }

    fn note_as(&self, kept: &Kept, text: String) -> Result<(), NodeError> {
        let name = self.spec.router.clone();
        let record = Record { router: name.clone(), text };
        kept.note(&record_name(&name), None, &record)
    }
}
