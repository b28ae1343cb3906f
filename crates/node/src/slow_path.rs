//! Routers' own Linux: made, followed, and its programs kept running.
//!
//! A router with a slow path gets, before anything is planned, a hidden port and a hidden
//! interface `NAME@host` for each of its interfaces: the outer end of a veth pair whose inner end
//! is the interface in the router's namespace. From there on they are ports and interfaces
//! like any other.

mod check;
mod daemons;
mod make;

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use europa_api::{At, Documents, Mac, Match, Name, Restart};
use europa_channel::{Channel, pair};
use europa_port::{Namespace, delete_device, delete_veths};
use europa_router::orders::{Answer, Order};
use europa_sandbox::Child;
use europa_sandbox::cgroup::Cgroups;
use europa_slowpath::environment::{self, folder, group};
use europa_slowpath::{
    MirrorError, Progress, Spec, add_static, carrier, mirror, namespace, remove_neighbour,
    remove_static, resume,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::events::Events;
use crate::kept::Kept;
use crate::plan::plan;
use crate::rest::{Door, Doors};
use crate::router::Process;
use crate::{Doing, Instance, NodeError};

pub(crate) use check::check;
use daemons::{Daemon, DaemonRecord, Keeper};
use make::{describe, facts, make_one, statics, watches};

/// The slow paths of a node.
#[derive(Default)]
pub(crate) struct SlowPaths {
    /// By router.
    all: HashMap<String, SlowPath>,
    /// Where their programs change rules of their slices.
    doors: Doors,
    /// Follows link states.
    carrier: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

/// One of them.
struct SlowPath {
    /// What it was made from.
    router: europa_api::Router,
    spec: Spec,
    progress: Arc<Progress>,
    watches: Vec<carrier::Watch>,
    daemons: Vec<Daemon>,
    /// Programs that another node has started, by name: none of those that are not to be
    /// started again.
    adopted: HashMap<String, Option<Child>>,
    keepers: Vec<JoinHandle<()>>,
    door: Option<Door>,
    started: bool,
    stop: Arc<AtomicBool>,
}

/// A record of a slow path: what it was made from.
#[derive(Serialize, Deserialize)]
struct Record {
    router: String,
    text: String,
}

/// What of a router's document makes its slow path, as text.
fn text(router: &europa_api::Router) -> String {
    let fast = &router.fast_path;
    let all = (&router.slow_path, &router.interfaces, &fast.routes, &fast.neighbours);
    serde_json::to_string(&all).unwrap_or_default()
}

fn record_name(router: &str) -> String {
    format!("slow-{}", router.replace('/', "."))
}

/// Whether two documents of a router want the same slow path, but for static routes and
/// neighbours: those change in place.
fn same(one: &europa_api::Router, other: &europa_api::Router) -> bool {
    one.slow_path == other.slow_path && one.interfaces == other.interfaces
}

/// Whether two documents of a router want the same routes and neighbours there.
fn same_static(one: &europa_api::Router, other: &europa_api::Router) -> bool {
    one.fast_path.routes == other.fast_path.routes
        && one.fast_path.neighbours == other.fast_path.neighbours
}

/// The name of the hidden port of an interface.
pub(crate) fn port_name(router: &str, interface: &str) -> String {
    format!("{router}.{interface}{HIDDEN}")
}

/// What hidden ports' names end with.
const HIDDEN: &str = "@host";

/// Whether a port is one of those.
pub(crate) fn is_hidden(port: &str) -> bool {
    port.ends_with(HIDDEN)
}

/// Adds to routers with a slow path the hidden interfaces; the hidden ports that these need.
pub(crate) fn expand(
    instance: &Instance,
    documents: &Documents,
) -> (Documents, Vec<europa_api::Port>) {
    let mut expanded = documents.clone();
    let mut ports = Vec::new();
    for router in &mut expanded.routers {
        if router.slow_path.is_none() {
            continue;
        }
        let full = router.full_name();
        let names: Vec<_> =
            router.interfaces.0.iter().map(|(name, _)| name.value.clone()).collect();
        for name in names {
            let port = Name::hidden(port_name(&full, &name));
            ports.push(europa_api::Port {
                name: at(port.clone()),
                device: at(outer_name(&full, &name)),
                namespace: Some(at(namespace::outside_name(instance.name()))),
                rate: None,
                mtu: None,
            });
            router.interfaces.0.push((at(name.host_side()), at(host_interface(port))));
        }
    }
    (expanded, ports)
}

/// The name of an interface's outer end: of 15 letters at most, and always the same.
fn outer_name(router: &str, interface: &str) -> String {
    let Mac(bytes) = Mac::generated(&format!("{router}.{interface}"));
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("h{digits}")
}

fn at<T>(value: T) -> At<T> {
    At { value, place: Default::default() }
}

impl SlowPaths {
    /// Has programs change rules of their slices from now on.
    pub(crate) fn open_doors(&mut self, doors: Doors) {
        self.doors = doors;
    }

    /// Whether what there is is what documents want.
    pub(crate) fn is_same(&self, documents: &Documents) -> bool {
        let mut wanted = documents.routers.iter().filter(|router| router.slow_path.is_some());
        wanted.clone().count() == self.all.len()
            && wanted.all(|router| {
                self.all.get(&router.full_name()).is_some_and(|one| {
                    same(&one.router, router) && same_static(&one.router, router)
                })
            })
    }

    /// Whether a hidden port belongs to a slow path that stays.
    pub(crate) fn has_port(&self, documents: &Documents, port: &str) -> bool {
        let mut routers = documents.routers.iter().filter(|router| router.slow_path.is_some());
        routers.any(|router| {
            let full = router.full_name();
            port.strip_prefix(&full).is_some_and(|rest| rest.starts_with('.'))
                && self.all.get(&full).is_some_and(|one| same(&one.router, router))
        })
    }

    /// Makes the slow paths that are wanted and not there; takes those away that are there and
    /// not wanted. `ports` are all, with those that hosts make, whose devices are there.
    pub(crate) fn make(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        documents: &Documents,
        ports: &[europa_api::Port],
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
        if documents.routers.iter().all(|router| router.slow_path.is_none()) {
            return Ok(());
        }
        for router in &documents.routers {
            if let Some(one) = self.all.get_mut(&router.full_name())
                && !same_static(&one.router, router)
            {
                one.change_static(router)?;
                one.note(kept)?;
            }
        }
        let ports: Vec<_> = ports.iter().filter(|port| !is_hidden(&port.name.value)).collect();
        let plans = plan(documents, &facts(&ports)?);
        let outside_name = namespace::outside_name(instance.name());
        let outside = namespace::create_outside(instance.name())
            .doing(format!("making the namespace {outside_name}"))?;
        for (router, plan) in documents.routers.iter().zip(plans) {
            let full = router.full_name();
            if router.slow_path.is_none() {
                continue;
            }
            if let Some(one) = self.all.get_mut(&full) {
                // Its neighbours may have other namespaces now.
                one.watches = watches(instance, documents, &ports, router, &plan?)?;
                continue;
            }
            let one = make_one(instance, documents, &ports, &outside, router, &plan?)?;
            // From here on the next node adopts it.
            one.note(kept)?;
            self.all.insert(full, one);
        }
        Ok(())
    }

    /// Takes over those that another node has made and that are wanted. `ports` are all, with
    /// those that hosts make, whose devices are there.
    pub(crate) fn adopt(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        documents: &Documents,
        ports: &[europa_api::Port],
    ) -> Result<(), NodeError> {
        let records = kept.records::<Record>("slow-");
        let made = |router: &europa_api::Router| {
            let mut all = records.iter().filter_map(|found| found.record.as_ref());
            all.any(|record| record.router == router.full_name() && record.text == text(router))
        };
        let wanted = |router: &&europa_api::Router| router.slow_path.is_some() && made(router);
        if !documents.routers.iter().any(|router| wanted(&router)) {
            return Ok(());
        }
        let ports: Vec<_> = ports.iter().filter(|port| !is_hidden(&port.name.value)).collect();
        // A port without a device is not there: whoever needs it is made anew.
        let there: Vec<_> = ports.iter().copied().filter(|port| facts(&[port]).is_ok()).collect();
        let plans = plan(documents, &facts(&there)?);
        for (router, plan) in documents.routers.iter().zip(plans) {
            let name = namespace::name(instance.name(), &router.slice, &router.name);
            if let (true, Ok(plan), Ok(inside)) = (wanted(&router), plan, Namespace::named(&name)) {
                let mut one = describe(instance, documents, &ports, inside, router, &plan)?;
                one.adopt_daemons(kept)?;
                self.all.insert(router.full_name(), one);
            }
        }
        Ok(())
    }

    /// Processes that were adopted.
    pub(crate) fn adopted(&self) -> impl Iterator<Item = u32> {
        let all = self.all.values().flat_map(|one| one.adopted.values());
        all.filter_map(|child| Some(child.as_ref()?.pid()))
    }

    /// Routers whose slow paths there are.
    pub(crate) fn routers(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(|name| &**name)
    }

    /// Takes away those of another node that were not adopted. Nothing runs there any more.
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
            environment::remove(&path).doing(format!("removing {}", path.display()))?;
        }
        Ok(())
    }

    /// Takes one away, with all that runs there.
    fn remove(&mut self, instance: &Instance, name: &str) -> Result<(), NodeError> {
        let Some(one) = self.all.remove(name) else { return Ok(()) };
        one.end();
        let what = || format!("taking the slow path of {name} away");
        let outside = Namespace::named(&namespace::outside_name(instance.name())).doing(what())?;
        for interface in &one.spec.interfaces {
            // Its other end goes with it.
            delete_device(&outside, &outer_name(name, interface)).doing(what())?;
        }
        let router = &one.router;
        Namespace::delete(&namespace::name(instance.name(), &router.slice, &router.name))
            .doing(what())?;
        if let Ok(group) =
            Cgroups::detect().and_then(|groups| groups.group(instance.name(), &group(name)))
        {
            group.remove()?;
        }
        environment::remove(&folder(&instance.directory(), name)).doing(what())
    }
}

impl SlowPath {
    /// Takes over the programs that another node has started.
    fn adopt_daemons(&mut self, kept: &Kept) -> Result<(), NodeError> {
        for daemon in &self.daemons {
            let mut found = kept.records::<DaemonRecord>(&daemon.record_name());
            found.retain(|found| found.name == daemon.record_name());
            let Some(found) = found.pop() else { continue };
            let Some(record) =
                found.record.filter(|record: &DaemonRecord| record.daemon == daemon.text())
            else {
                continue;
            };
            let child = found.process.map(Child::adopt).transpose()?.flatten();
            // How it ended while no node ran is not known.
            if child.is_some() || record.done || daemon.restart == Restart::Never {
                self.adopted.insert(daemon.name.clone(), child);
            }
        }
        Ok(())
    }

    /// Makes static routes and neighbours those of another document.
    fn change_static(&mut self, new: &europa_api::Router) -> Result<(), NodeError> {
        // Noted first: whoever takes a failed change back begins here.
        let old = std::mem::replace(&mut self.router, new.clone());
        let (routes, neighbours) = statics(&old);
        let (new_routes, new_neighbours) = statics(new);
        let inside = &self.spec.namespace;
        let refused = |error: std::io::Error| {
            NodeError::Refused(format!("router {}: slow path: {error}", self.spec.router))
        };
        for route in routes.iter().filter(|route| !new_routes.contains(route)) {
            remove_static(inside, route).map_err(refused)?;
        }
        for neighbour in neighbours.iter().filter(|one| !new_neighbours.contains(one)) {
            remove_neighbour(inside, neighbour).map_err(refused)?;
        }
        add_static(inside, &new_routes, &new_neighbours).map_err(refused)
    }

    /// Writes down what it was made from: the next node adopts it if that is still wanted.
    fn note(&self, kept: &Kept) -> Result<(), NodeError> {
        let name = self.spec.router.clone();
        let record = Record { router: name.clone(), text: text(&self.router) };
        kept.note(&record_name(&name), None, &record)
    }

    /// Ends its programs.
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        while self.keepers.iter().any(|keeper| !keeper.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A way to follow a router's Linux.
type Follow = fn(Spec, Channel<Order, Answer>, Arc<Progress>) -> Result<(), MirrorError>;

impl SlowPaths {
    /// Lets a router's process that was told what to be follow its Linux.
    pub(crate) fn follow(&self, router: &str, process: &mut Process) -> Result<(), NodeError> {
        self.follow_by(router, process, mirror)
    }

    /// The same for a process that followed it already, told by another node.
    pub(crate) fn follow_on(&self, router: &str, process: &mut Process) -> Result<(), NodeError> {
        self.follow_by(router, process, resume)
    }

    fn follow_by(&self, router: &str, process: &mut Process, by: Follow) -> Result<(), NodeError> {
        let Some(one) = self.all.get(router) else { return Ok(()) };
        let (feed, theirs) = pair()
            .map_err(|error| NodeError::Channel { who: format!("router {router}"), error })?;
        process.admit(theirs.as_fd())?;
        let (spec, progress, name) =
            (one.spec.clone(), Arc::clone(&one.progress), router.to_owned());
        // Ends with the router's process, which closes its end.
        let run = move || {
            if let Err(error) = by(spec, feed, progress) {
                tracing::error!("router {name}: its routes are not followed any more: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("mirror".into());
        thread.spawn(run).doing(format!("following the routes of {router}"))?;
        Ok(())
    }

    /// The names of a router's programs.
    pub(crate) fn programs(&self, router: &str) -> Vec<&str> {
        let daemons = self.all.get(router).map_or(&[][..], |one| &one.daemons);
        daemons.iter().map(|daemon| daemon.name.as_str()).collect()
    }

    /// What is worth knowing of a router's slow path: how its routes are followed, and its
    /// programs.
    pub(crate) fn status(&self, router: &str) -> Option<serde_json::Value> {
        let one = self.all.get(router)?;
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let programs: serde_json::Map<String, serde_json::Value> = one
            .daemons
            .iter()
            .map(|daemon| (daemon.name.clone(), daemon.seen(|seen| json!(seen))))
            .collect();
        Some(json!({
            "changes_told": of(&one.progress.told),
            "changes_refused": of(&one.progress.refused),
            "programs": programs,
        }))
    }

    /// Starts the programs that do not run yet, and follows the link states of all.
    pub(crate) fn start(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        cgroups: &Cgroups,
        events: &Events,
    ) -> Result<(), NodeError> {
        if let Some((stop, thread)) = self.carrier.take() {
            stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
        if let Ok(outside) = Namespace::named(&namespace::outside_name(instance.name())) {
            let watches: Vec<_> =
                self.all.values().flat_map(|one| one.watches.iter().cloned()).collect();
            let stop: Arc<AtomicBool> = Arc::default();
            let stopped = Arc::clone(&stop);
            let run = move || {
                if let Err(error) = carrier::follow(&watches, &outside, &stopped) {
                    tracing::error!("link states are not followed any more: {error}");
                }
            };
            let thread = std::thread::Builder::new().name("carrier".into());
            self.carrier = Some((stop, thread.spawn(run).doing("following link states")?));
        }
        for one in self.all.values_mut().filter(|one| !one.started) {
            one.started = true;
            match self.doors.open(&one.spec.namespace, &one.router.slice) {
                Ok(door) => one.door = door,
                // Programs of another node's time can take its name; they lose what it is for.
                Err(error) => {
                    tracing::warn!("router {}: rules from inside: {error}", one.spec.router)
                }
            }
            // Also for what is run by `europa exec` alone.
            let group = daemons::group_of(cgroups, instance, &one.spec.router)?;
            for daemon in &one.daemons {
                let adopted = one.adopted.remove(&daemon.name);
                if matches!(adopted, Some(None)) {
                    continue;
                }
                let name = daemon.name.clone();
                let keeper = Keeper {
                    daemon: daemon.clone(),
                    instance: instance.clone(),
                    kept: kept.clone(),
                    group: group.clone(),
                    stop: Arc::clone(&one.stop),
                    events: events.clone(),
                };
                let thread = std::thread::Builder::new().name(name.clone());
                let adopted = adopted.flatten();
                let run = move || keeper.keep(adopted);
                one.keepers.push(thread.spawn(run).doing(format!("starting {name}"))?);
            }
        }
        Ok(())
    }

    /// Ends all programs. The namespaces are taken away by [`remove`].
    pub(crate) fn stop(&mut self) {
        for one in self.all.values() {
            one.stop.store(true, Ordering::Relaxed);
        }
        for (_, one) in self.all.drain() {
            one.end();
        }
        if let Some((stop, thread)) = self.carrier.take() {
            stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}

/// The hidden interface on a hidden port: everything there is its own.
fn host_interface(port: Name) -> europa_api::Interface {
    europa_api::Interface {
        port: Some(at(port)),
        link: None,
        matches: Some(at(Match { all: Some(at(true)), ..Match::default() })),
        mac: None,
        addresses: Vec::new(),
        mtu: None,
        bind: Vec::new(),
        queues: europa_api::Queues::default(),
    }
}

/// Takes away the namespaces and files of an instance's slow paths. Its processes are gone.
pub(crate) fn remove(instance: &Instance) -> Result<(), NodeError> {
    let slow = instance.directory().join("slow");
    let Ok(entries) = fs::read_dir(&slow) else { return Ok(()) };
    for entry in entries.flatten() {
        let folder = entry.file_name();
        let name = format!("europa.{}.{}", instance.name(), folder.to_string_lossy());
        Namespace::delete(&name).doing(format!("removing the namespace {name}"))?;
        environment::remove(&entry.path()).doing(format!("removing {}", entry.path().display()))?;
    }
    let outside = namespace::outside_name(instance.name());
    Namespace::delete(&outside).doing(format!("removing the namespace {outside}"))?;
    fs::remove_dir_all(&slow).doing(format!("removing {}", slow.display()))
}
