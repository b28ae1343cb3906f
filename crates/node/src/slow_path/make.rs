//! Making a slow path: namespaces, devices, files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use europa_api::{At, Attachment, Documents, InterfaceName, Restart, Selector};
use europa_plan::slow_path_change::{needs, ready_file};
use europa_plan::slow_paths::outer_name;
use europa_plan::wires::is_wire;
use europa_plan::{InterfacePlan, PortFacts, PortId, RouterPlan};
use europa_port::{Device, Namespace};
use europa_sandbox::{SpawnSpec, spawn};
use europa_slowpath::environment::{Environment, FileSpec, Root, check_capabilities, folder};
use europa_slowpath::users::{self, Ids};
use europa_slowpath::{Inner, Spec, StaticNeighbour, StaticRoute, add_static, carrier, namespace};
use nix::sys::signal::Signal;

use super::SlowPath;
use super::daemons::{Daemon, Policy};
use crate::{Doing, Instance, NodeError, images};

/// Makes a slow path: namespace, devices, files. Starts no program.
pub(super) fn make_one(
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
    // Written down first: a later clean-up finds it even if the node ends here.
    let folder = folder(&instance.directory(), &full);
    fs::create_dir_all(&folder).doing(format!("making {}", folder.display()))?;
    let name = namespace::name(instance.name(), &router.slice, &router.name);
    let inside = namespace_of(instance, &full, &name)?;
    let files: Vec<FileSpec> = files.iter().map(|file| spec(file)).collect();
    let shown = router.slow_path.as_ref().and_then(|one| one.root.as_ref());
    let shown = shown.map(|root| root.value.as_str());
    let image = shown.map_or(Ok(None), |root| images::open(instance, root))?;
    let shown = image.as_ref().map(Root::Image).or(shown.map(Path::new).map(Root::Folder));
    Environment::make(&folder, &name, &full, &files, shown).map_err(refused)?;
    for (planned, (_, interface)) in plan.interfaces.iter().zip(&router.interfaces.0) {
        let outer = outer_name(&full, &planned.name);
        let inner = inner(planned, &interface.value);
        europa_slowpath::create(&inside, &inner, outside, &outer).map_err(refused)?;
    }
    let (routes, neighbours) = statics(router);
    add_static(&inside, &routes, &neighbours).map_err(refused)?;
    describe(instance, documents, ports, inside, router, plan)
}

/// A slow path whose namespace `inside`, devices and files exist.
pub(super) fn describe(
    instance: &Instance,
    documents: &Documents,
    ports: &[&europa_api::Port],
    inside: Namespace,
    router: &europa_api::Router,
    plan: &RouterPlan,
) -> Result<SlowPath, NodeError> {
    let full = router.full_name();
    let watches = watches(instance, documents, ports, router, plan)?;
    let root = folder(&instance.directory(), &full).join("root");
    let daemons = daemons(router, inside.inode, &root, &[])?;
    let interfaces = plan.interfaces.iter().map(|one| one.name.clone()).collect();
    Ok(SlowPath {
        router: router.clone(),
        spec: Spec { namespace: inside, interfaces, router: full },
        progress: Arc::default(),
        watches,
        daemons,
        adopted: HashMap::new(),
        first: None,
        after: None,
        keepers: HashMap::new(),
        base: None,
        board: Arc::default(),
        pending: BTreeMap::new(),
        before: Vec::new(),
        reloading: 0,
        failed: BTreeSet::new(),
        door: None,
        stop: Arc::default(),
    })
}

/// The name of the program that is the command of an image.
const OF_IMAGE: &str = "image";

/// The programs of a router's document, or else the command of its image. `root` lies in the folder of
/// the slow path. The facts about those of `before` with the same names stay.
pub(super) fn daemons(
    router: &europa_api::Router,
    inside: u64,
    root: &Path,
    before: &[Daemon],
) -> Result<Vec<Daemon>, NodeError> {
    let full = router.full_name();
    let run = router.slow_path.as_ref().map_or(&[][..], |slow_path| &slow_path.run[..]);
    let mut daemons: Vec<Daemon> = Vec::new();
    let environment = root.parent().and_then(|folder| Environment::read(folder).ok());
    let command = environment.map(|there| there.command()).filter(|words| !words.is_empty());
    if let Some(command) = command.filter(|_| run.is_empty()) {
        let old = before.iter().find(|old| old.name == OF_IMAGE);
        let policy = Policy { restart: Restart::OnFailure, needs: Vec::new() };
        daemons.push(Daemon {
            router: full.clone(),
            name: OF_IMAGE.to_owned(),
            command,
            capabilities: Vec::new(),
            inside,
            ready_file: None,
            policy: old.map_or_else(|| Arc::new(Mutex::new(policy)), |old| old.policy.clone()),
            seen: old.map(|old| Arc::clone(&old.seen)).unwrap_or_default(),
        });
    }
    for daemon in run {
        let capabilities: Vec<String> =
            daemon.capabilities.iter().map(|one| one.value.clone()).collect();
        check_capabilities(&capabilities)
            .map_err(|error| NodeError::Refused(format!("router {full}: slow path: {error}")))?;
        let name = daemon.name.to_string();
        let old = before.iter().find(|old| old.name == name);
        let policy = Policy { restart: daemon.restart, needs: needs(run, daemon) };
        let shared = old
            .map(|old| Arc::clone(&old.policy))
            .unwrap_or_else(|| Arc::new(Mutex::new(policy.clone())));
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = policy;
        let ready_file = ready_file(daemon);
        daemons.push(Daemon {
            router: full.clone(),
            name,
            command: daemon.command.iter().map(|word| word.value.clone()).collect(),
            capabilities,
            inside,
            ready_file: ready_file.map(|file| root.join(file.trim_start_matches('/'))),
            policy: shared,
            seen: old.map(|old| Arc::clone(&old.seen)).unwrap_or_default(),
        });
    }
    Ok(daemons)
}

/// The network namespace of a router, with its user namespace; makes it if it does not exist. Only
/// a separate process can make these: a thread cannot leave the user namespace of its process.
fn namespace_of(instance: &Instance, router: &str, name: &str) -> Result<Namespace, NodeError> {
    if let Some(there) = Namespace::made(name) {
        return Ok(there);
    }
    let what = || format!("making the namespace {name}");
    let ids = Ids::of(&folder(&instance.directory(), router)).doing(what())?;
    let (says, log) = std::io::pipe().doing(what())?;
    let mut child = spawn(&SpawnSpec {
        arguments: ["europa", "hold"].map(|word| word.as_ref()).to_vec(),
        environment: Vec::new(),
        descriptors: Vec::new(),
        log: log.as_fd(),
        group: None,
        pid_namespace: false,
    })?;
    drop(log);
    let made = users::appoint(child.pid(), ids, says)
        .and_then(|()| namespace::create_of(name, child.pid()));
    child.kill(Signal::SIGKILL)?;
    child.wait()?;
    made.doing(what())
}

/// The routes and neighbours of the router's document.
pub(super) fn statics(router: &europa_api::Router) -> (Vec<StaticRoute>, Vec<StaticNeighbour>) {
    let name = |index: usize| router.interfaces.0.get(index).map(|(name, _)| name.to_string());
    let routes = router.fast_path.routes.iter().map(|route| StaticRoute {
        to: route.to.value,
        via: route.via.as_ref().map(|via| via.value),
        interface: router.route_interface(route).and_then(name),
    });
    let neighbours = router.fast_path.neighbours.iter().map(|neighbour| StaticNeighbour {
        address: neighbour.address.value,
        mac: neighbour.mac.value.0,
        interface: neighbour.interface.to_string(),
    });
    (routes.collect(), neighbours.collect())
}

/// The facts about the ports that a plan needs, before they are opened.
pub(super) fn facts(ports: &[&europa_api::Port]) -> Result<HashMap<PortId, PortFacts>, NodeError> {
    let port = |port: &&europa_api::Port| {
        let namespace = namespace_of_port(port)?;
        let device = Device::open(&namespace, &port.device.value)?;
        let mtu = port.mtu.as_ref().map_or(device.mtu, |mtu| mtu.value);
        Ok((PortId::new(&*port.name.value), PortFacts { mac: device.mac, mtu, vlan: Ok(()) }))
    };
    ports.iter().map(port).collect()
}

fn namespace_of_port(port: &europa_api::Port) -> Result<Namespace, NodeError> {
    match &port.namespace {
        None => Namespace::current().doing("opening our network namespace"),
        Some(name) => Namespace::named(&name.value)
            .doing(format!("port {}: opening the network namespace {}", port.name, name.value)),
    }
}

pub(super) fn spec(file: &europa_api::File) -> FileSpec {
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

/// The sources of the carriers of a router's interfaces.
pub(super) fn watches(
    instance: &Instance,
    documents: &Documents,
    ports: &[&europa_api::Port],
    router: &europa_api::Router,
    plan: &RouterPlan,
) -> Result<Vec<carrier::Watch>, NodeError> {
    let full = router.full_name();
    let mut watches = Vec::new();
    for (planned, (key, interface)) in plan.interfaces.iter().zip(&router.interfaces.0) {
        let outer = outer_name(&full, &planned.name);
        let own = (&*full, key, &interface.value, planned);
        watches.extend(watch(instance, documents, ports, own, outer)?);
    }
    Ok(watches)
}

/// The source of an interface's carrier.
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
    // A tunnel's port has no information about the path to its other end.
    if matches!(interface.selector(), Selector::Vxlan(_)) {
        return Ok(None);
    }
    // For a wire, the far end counts.
    if let Some(port) = planned.to.port().filter(|port| !is_wire(port)) {
        let Some(port) = ports.iter().find(|other| **port == *other.name.value) else {
            return Ok(None);
        };
        let namespace = namespace_of_port(port)?;
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
            // The far end may not exist yet: then it is made.
            let namespace = namespace_of(instance, &other.full_name(), &far)?;
            let device = key.to_string();
            Ok(Some(carrier::Watch { namespace, device, running: false, outer }))
        }
        _ => Ok(None),
    }
}
