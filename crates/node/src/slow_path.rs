//! Routers' own Linux: made, followed, and its programs kept running.
//!
//! A router with a slow path gets, before anything is planned, a hidden port and a hidden
//! interface `NAME@host` for each of its interfaces: the outer end of a veth pair whose inner end
//! is the interface in the router's namespace. From there on they are ports and interfaces
//! like any other.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use europa_api::{At, Attachment, Documents, InterfaceName, Mac, Match, Name, Restart, Selector};
use europa_channel::pair;
use europa_port::{Device, Namespace, delete_device, delete_veths};
use europa_sandbox::cgroup::{Cgroups, Group};
use europa_sandbox::{Child, Exit, Identity, SpawnSpec, spawn};
use europa_slowpath::environment::{Environment, FileSpec, check_capabilities, folder};
use europa_slowpath::{
    Inner, Progress, Spec, StaticNeighbour, StaticRoute, carrier, mirror, namespace,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::kept::Kept;
use crate::plan::{InterfacePlan, PortFacts, RouterPlan, To, plan};
use crate::router::Process;
use crate::{Doing, Instance, NodeError};

/// How long programs have to end before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// How often a program's keeper looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);

/// The slow paths of a node.
#[derive(Default)]
pub(crate) struct SlowPaths {
    /// By router.
    all: HashMap<String, SlowPath>,
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

/// Whether two documents of a router want the same slow path.
fn same(one: &europa_api::Router, other: &europa_api::Router) -> bool {
    one.slow_path == other.slow_path
        && one.interfaces == other.interfaces
        && one.fast_path.routes == other.fast_path.routes
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

/// A program to be kept running.
#[derive(Clone, Debug)]
struct Daemon {
    router: String,
    name: String,
    command: Vec<String>,
    restart: Restart,
    capabilities: Vec<String>,
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
    /// Whether what there is is what documents want.
    pub(crate) fn is_same(&self, documents: &Documents) -> bool {
        let mut wanted = documents.routers.iter().filter(|router| router.slow_path.is_some());
        wanted.clone().count() == self.all.len()
            && wanted.all(|router| {
                self.all.get(&router.full_name()).is_some_and(|one| same(&one.router, router))
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
        let ports: Vec<_> = ports.iter().filter(|port| !is_hidden(&port.name.value)).collect();
        let plans = plan(documents, &facts(&ports)?);
        let outside_name = namespace::outside_name(instance.name());
        let outside = namespace::create_outside(instance.name())
            .doing(format!("making the namespace {outside_name}"))?;
        for (router, plan) in documents.routers.iter().zip(plans) {
            let full = router.full_name();
            if router.slow_path.is_none() || self.all.contains_key(&full) {
                continue;
            }
            let one = make_one(instance, documents, &ports, &outside, router, &plan?)?;
            // From here on the next node adopts it.
            let record = Record { router: full.clone(), text: text(router) };
            kept.note(&record_name(&full), None, &record)?;
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
            fs::remove_dir_all(&path).doing(format!("removing {}", path.display()))?;
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
        fs::remove_dir_all(folder(&instance.directory(), name)).doing(what())
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

    /// Ends its programs.
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        while self.keepers.iter().any(|keeper| !keeper.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Makes a slow path: namespace, devices, files. Nothing runs there yet.
fn make_one(
    instance: &Instance,
    documents: &Documents,
    ports: &[&europa_api::Port],
    outside: &Namespace,
    router: &europa_api::Router,
    plan: &RouterPlan,
) -> Result<SlowPath, NodeError> {
    let full = router.full_name();
    let refused =
        |error: std::io::Error| NodeError::Refused(format!("router {full}: slow path: {error}"));
    let files = router.slow_path.as_ref().map_or(&[][..], |slow_path| &slow_path.files[..]);
    // Written down first: whoever cleans up finds it even if this is the end.
    let folder = folder(&instance.directory(), &full);
    fs::create_dir_all(&folder).doing(format!("making {}", folder.display()))?;
    let name = namespace::name(instance.name(), &router.slice, &router.name);
    let inside = namespace::create(&name).map_err(refused)?;
    let files: Vec<FileSpec> = files.iter().map(|file| spec(file)).collect();
    Environment::make(&folder, &name, &full, &files).map_err(refused)?;
    for (planned, (_, interface)) in plan.interfaces.iter().zip(&router.interfaces.0) {
        let outer = outer_name(&full, &planned.name);
        let inner = inner(planned, &interface.value);
        europa_slowpath::create(&inside, &inner, outside, &outer).map_err(refused)?;
    }
    add_static(router, &inside).map_err(refused)?;
    describe(instance, documents, ports, inside, router, plan)
}

/// A slow path whose namespace `inside`, devices and files are there.
fn describe(
    instance: &Instance,
    documents: &Documents,
    ports: &[&europa_api::Port],
    inside: Namespace,
    router: &europa_api::Router,
    plan: &RouterPlan,
) -> Result<SlowPath, NodeError> {
    let full = router.full_name();
    let mut watches = Vec::new();
    for (planned, (key, interface)) in plan.interfaces.iter().zip(&router.interfaces.0) {
        let outer = outer_name(&full, &planned.name);
        let own = (&*full, key, &interface.value, planned);
        watches.extend(watch(instance, documents, ports, own, outer)?);
    }
    let mut daemons = Vec::new();
    for daemon in router.slow_path.iter().flat_map(|slow_path| &slow_path.run) {
        let capabilities: Vec<String> =
            daemon.capabilities.iter().map(|one| one.value.clone()).collect();
        check_capabilities(&capabilities)
            .map_err(|error| NodeError::Refused(format!("router {full}: slow path: {error}")))?;
        daemons.push(Daemon {
            router: full.clone(),
            name: daemon.name.to_string(),
            command: daemon.command.iter().map(|word| word.value.clone()).collect(),
            restart: daemon.restart,
            capabilities,
        });
    }
    let interfaces = plan.interfaces.iter().map(|one| one.name.clone()).collect();
    Ok(SlowPath {
        router: router.clone(),
        spec: Spec { namespace: inside, interfaces, router: full },
        progress: Arc::default(),
        watches,
        daemons,
        adopted: HashMap::new(),
        keepers: Vec::new(),
        started: false,
        stop: Arc::default(),
    })
}

/// Gives Linux the routes and neighbours of the router's document.
fn add_static(router: &europa_api::Router, inside: &Namespace) -> std::io::Result<()> {
    let name = |index: usize| router.interfaces.0.get(index).map(|(name, _)| name.to_string());
    let routes: Vec<_> = router
        .fast_path
        .routes
        .iter()
        .map(|route| StaticRoute {
            to: route.to.value,
            via: route.via.as_ref().map(|via| via.value),
            interface: router.route_interface(route).and_then(name),
        })
        .collect();
    let neighbours: Vec<_> = router
        .fast_path
        .neighbours
        .iter()
        .map(|neighbour| StaticNeighbour {
            address: neighbour.address.value,
            mac: neighbour.mac.value.0,
            interface: neighbour.interface.to_string(),
        })
        .collect();
    europa_slowpath::add_static(inside, &routes, &neighbours)
}

impl SlowPaths {
    /// Lets a router's process that was told what to be follow its Linux.
    pub(crate) fn follow(&self, router: &str, process: &mut Process) -> Result<(), NodeError> {
        let Some(one) = self.all.get(router) else { return Ok(()) };
        let (feed, theirs) = pair()
            .map_err(|error| NodeError::Channel { who: format!("router {router}"), error })?;
        process.admit(theirs.as_fd())?;
        let (spec, progress, name) =
            (one.spec.clone(), Arc::clone(&one.progress), router.to_owned());
        // Ends with the router's process, which closes its end.
        let run = move || {
            if let Err(error) = mirror(spec, feed, progress) {
                tracing::error!("router {name}: its routes are not followed any more: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("mirror".into());
        thread.spawn(run).doing(format!("following the routes of {router}"))?;
        Ok(())
    }

    /// Starts the programs that do not run yet, and follows the link states of all.
    pub(crate) fn start(
        &mut self,
        instance: &Instance,
        kept: &Kept,
        cgroups: &Cgroups,
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
            for daemon in &one.daemons {
                let adopted = one.adopted.remove(&daemon.name);
                if matches!(adopted, Some(None)) {
                    continue;
                }
                let kept = kept.clone();
                let group = cgroups.group(instance.name(), &daemon.router.replace('/', "_")).ok();
                let (daemon, instance, stop) =
                    (daemon.clone(), instance.clone(), Arc::clone(&one.stop));
                let name = daemon.name.clone();
                let thread = std::thread::Builder::new().name(name.clone());
                let adopted = adopted.flatten();
                let run = move || daemon.keep(&instance, &kept, group.as_ref(), &stop, adopted);
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

/// A record of a program.
#[derive(Serialize, Deserialize)]
struct DaemonRecord {
    /// What it is, as text.
    daemon: String,
    /// It has ended and is not to be started again.
    done: bool,
}

impl Daemon {
    fn record_name(&self) -> String {
        format!("daemon-{}.{}", self.router.replace('/', "."), self.name)
    }

    fn text(&self) -> String {
        format!("{self:?}")
    }

    fn note(&self, kept: &Kept, process: Option<u32>) -> Result<(), NodeError> {
        let record = DaemonRecord { daemon: self.text(), done: process.is_none() };
        kept.note(&self.record_name(), process.and_then(Identity::of), &record)
    }

    /// Runs it until told to stop; at first that of another node, if there is one.
    fn keep(
        &self,
        instance: &Instance,
        kept: &Kept,
        group: Option<&Group>,
        stop: &AtomicBool,
        mut adopted: Option<Child>,
    ) {
        let mut backoff = Backoff::new();
        loop {
            let started = Instant::now();
            let again = match self.run(instance, kept, group, stop, adopted.take()) {
                Ok(None) => {
                    kept.forget(&self.record_name());
                    return;
                }
                Ok(Some(exit)) => {
                    let (router, name) = (&self.router, &self.name);
                    tracing::warn!("router {router}: {name} ended: {exit:?}");
                    match self.restart {
                        Restart::Always => true,
                        Restart::OnFailure => exit != Exit::Code(0),
                        Restart::Never => false,
                    }
                }
                Err(error) => {
                    tracing::warn!("router {}: {}: {error}", self.router, self.name);
                    true
                }
            };
            if !again {
                if let Err(error) = self.note(kept, None) {
                    tracing::warn!("router {}: {}: {error}", self.router, self.name);
                }
                return;
            }
            let due = backoff.failed(started.elapsed(), Instant::now());
            // A program that ends at once has no chance to do better at once.
            let due = due.max(started + Duration::from_millis(100));
            while Instant::now() < due {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Runs it once: how it ended, or `None` if it was stopped.
    fn run(
        &self,
        instance: &Instance,
        kept: &Kept,
        group: Option<&Group>,
        stop: &AtomicBool,
        adopted: Option<Child>,
    ) -> Result<Option<Exit>, NodeError> {
        let mut child = match adopted {
            Some(child) => child,
            None => self.spawn(instance, group)?,
        };
        self.note(kept, Some(child.pid()))?;
        let mut told: Option<Instant> = None;
        loop {
            if let Some(exit) = child.try_wait()? {
                return Ok(told.is_none().then_some(exit));
            }
            match told {
                None if stop.load(Ordering::Relaxed) => {
                    child.kill(Signal::SIGTERM)?;
                    told = Some(Instant::now());
                }
                Some(at) if at.elapsed() > GRACE => child.kill(Signal::SIGKILL)?,
                _ => {}
            }
            let mut wait = [PollFd::new(child.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
            let _ = poll(&mut wait, timeout);
        }
    }

    fn spawn(&self, instance: &Instance, group: Option<&Group>) -> Result<Child, NodeError> {
        let log = instance.log(&format!("{}.{}", self.router, self.name));
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.doing(format!("opening {}", log.display()))?;
        let mut arguments: Vec<&str> =
            vec!["europa", "--instance", instance.name(), "daemon", &self.router];
        for capability in &self.capabilities {
            arguments.extend(["--keep", capability]);
        }
        arguments.push("--");
        arguments.extend(self.command.iter().map(String::as_str));
        Ok(spawn(&SpawnSpec {
            arguments: arguments.iter().map(|word| word.as_ref()).collect(),
            environment: Vec::new(),
            descriptors: Vec::new(),
            log: file.as_fd(),
            group,
            pid_namespace: true,
        })?)
    }
}

/// What a plan needs to know of the ports, before they are opened.
fn facts(ports: &[&europa_api::Port]) -> Result<HashMap<String, PortFacts>, NodeError> {
    let port = |port: &&europa_api::Port| {
        let namespace = namespace_of(port)?;
        let device = Device::open(&namespace, &port.device.value)?;
        let mtu = port.mtu.as_ref().map_or(device.mtu, |mtu| mtu.value);
        Ok((port.name.to_string(), PortFacts { mac: device.mac, mtu, vlan: Ok(()) }))
    };
    ports.iter().map(port).collect()
}

fn namespace_of(port: &europa_api::Port) -> Result<Namespace, NodeError> {
    match &port.namespace {
        None => Namespace::current().doing("opening our network namespace"),
        Some(name) => Namespace::named(&name.value)
            .doing(format!("port {}: opening the network namespace {}", port.name, name.value)),
    }
}

fn spec(file: &europa_api::File) -> FileSpec {
    FileSpec {
        path: file.path.value.clone(),
        text: file.text.as_ref().map(|text| text.value.clone()).unwrap_or_default(),
        owner: file.owner.as_ref().map(|owner| owner.value.clone()),
        mode: file.mode.as_ref().and_then(|mode| u32::from_str_radix(&mode.value, 8).ok()),
    }
}

fn inner(planned: &InterfacePlan, interface: &europa_api::Interface) -> Inner {
    Inner {
        name: planned.name.clone(),
        mac: planned.spec.mac,
        mtu: planned.mtu,
        addresses: interface.addresses.iter().map(|address| address.value).collect(),
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
    }
}

/// What an interface's carrier follows.
fn watch(
    instance: &Instance,
    documents: &Documents,
    ports: &[&europa_api::Port],
    (router, name, interface, planned): (
        &str,
        &At<InterfaceName>,
        &europa_api::Interface,
        &InterfacePlan,
    ),
    outer: String,
) -> Result<Option<carrier::Watch>, NodeError> {
    // A tunnel's port says nothing of the way to its other end.
    if matches!(interface.selector(), Selector::Vxlan(_)) {
        return Ok(None);
    }
    if let To::Port(port) = &planned.to {
        let Some(port) = ports.iter().find(|other| other.name.to_string() == *port) else {
            return Ok(None);
        };
        let namespace = namespace_of(port)?;
        let device = port.device.value.clone();
        return Ok(Some(carrier::Watch { namespace, device, running: true, outer }));
    }
    match interface.attachment() {
        Some(Attachment::Link(link)) => {
            let ends = documents.routers.iter().flat_map(|other| {
                other.interfaces.0.iter().map(move |(name, interface)| (other, name, interface))
            });
            let other = ends
                .filter(|(_, _, interface)| interface.value.link.as_ref() == Some(link))
                .find(|(other, key, _)| other.full_name() != router || *key != name);
            let Some((other, key, _)) = other.filter(|(other, ..)| other.slow_path.is_some())
            else {
                return Ok(None);
            };
            let far = namespace::name(instance.name(), &other.slice, &other.name);
            // The far end may not be there yet: it is made if so.
            let namespace = namespace::create(&far).doing(format!("making {far}"))?;
            let device = key.to_string();
            Ok(Some(carrier::Watch { namespace, device, running: false, outer }))
        }
        _ => Ok(None),
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
    }
    let outside = namespace::outside_name(instance.name());
    Namespace::delete(&outside).doing(format!("removing the namespace {outside}"))?;
    fs::remove_dir_all(&slow).doing(format!("removing {}", slow.display()))
}
