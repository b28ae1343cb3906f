//! Captures: permitted interfaces, and duration.
//!
//! A separate thread serves a separate socket, which only root can open. A capture lasts as long as
//! its client's connection, so a killed client leaves no capture. The thread needs only the pinned
//! maps, and gets the present objects from the node.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use europa_api::{At, Attachment, Documents, HostInterface, InterfaceName};
use europa_capture::ask::{self, Answer, Question};
use europa_capture::{Named, find, scene};
use europa_channel::Channel;
use europa_plan::{InterfacePlan, RouterPlan, To};
use europa_substrate::layout::MAX_TAPS;
use europa_substrate::tap::{MEMORY_BYTES, Taps};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::socket::{SockFlag, accept4, getsockopt, sockopt};

use crate::ports::Port;
use crate::routers::Router;
use crate::{Doing, Instance, NodeError, node};

/// How often it is looked at whether taps are where they should be: a restart of a router
/// that falls into the turning on of one could undo it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Time limit for a client's first question.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread's state.
#[derive(Default)]
struct Known {
    /// The present objects, if no capture has asked for them yet.
    sketch: Option<Sketch>,
    scene: Arc<scene::Scene>,
    /// The switch's memory of records.
    memory: Option<OwnedFd>,
    /// Taps in use.
    used: [bool; MAX_TAPS as usize],
}

/// The captures of a node.
pub(crate) struct Captures {
    known: Arc<Mutex<Known>>,
    /// The thread knows the former objects.
    is_old: bool,
}

impl Captures {
    /// Begins to listen.
    pub(crate) fn start(instance: &Instance) -> Result<Self, NodeError> {
        let listener = node::listen_at(&ask::socket(&instance.directory()))?;
        let known = Arc::new(Mutex::new(Known::default()));
        let (pins, shared) = (instance.pins(), Arc::clone(&known));
        std::thread::Builder::new()
            .name("captures".into())
            .spawn(move || listen(&listener, &pins, &shared))
            .doing("starting the thread of captures")?;
        Ok(Self { known, is_old: false })
    }

    /// Objects come, change or go.
    pub(crate) fn expect_others(&mut self) {
        self.is_old = true;
    }

    /// Passes on the present objects, if they are others than before. `memory` is the switch's memory
    /// of records. Returns former objects, which may take long to free.
    pub(crate) fn follow(
        &mut self,
        documents: &Arc<Documents>,
        ports: &[Port],
        routers: &[Router],
        memory: Option<&OwnedFd>,
    ) -> Option<Sketch> {
        if !std::mem::take(&mut self.is_old) {
            return None;
        }
        let memory = memory?;
        let sketch = Sketch::new(documents, ports, routers);
        let mut known = lock(&self.known);
        // Without a descriptor there is no capture, which is said when one is asked for.
        known.memory = memory.try_clone().ok();
        known.sketch.replace(sketch)
    }
}

impl Known {
    /// The present objects.
    fn scene(&mut self) -> &Arc<scene::Scene> {
        if let Some(sketch) = self.sketch.take() {
            self.scene = Arc::new(sketch.scene());
        }
        &self.scene
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(listener: &OwnedFd, pins: &Path, known: &Arc<Mutex<Known>>) {
    loop {
        let Ok(raw) = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) else {
            // There is no free descriptor: another thread may close one.
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        // SAFETY: a new descriptor without another owner.
        #[allow(unsafe_code)]
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        // The socket's file is root's alone; a descriptor of it may have been handed on.
        let by_root = getsockopt(&socket, sockopt::PeerCredentials).is_ok_and(|of| of.uid() == 0);
        if !by_root {
            continue;
        }
        let (pins, known) = (pins.to_path_buf(), Arc::clone(known));
        let thread = std::thread::Builder::new().name("capture".into());
        let result = thread.spawn(move || {
            // Ends with the connection, however that ends.
            let _ = serve(Channel::new(socket), &pins, &known);
        });
        if let Err(error) = result {
            tracing::warn!("no thread for a capture: {error}");
        }
    }
}

type Client = Channel<Answer, Question>;

fn serve(
    mut client: Client,
    pins: &Path,
    known: &Mutex<Known>,
) -> Result<(), europa_channel::ChannelError> {
    loop {
        match client.receive_within(PATIENCE)? {
            Some((Question::Describe, _)) => {
                let scene = scene::Scene::clone(lock(known).scene());
                client.send(&Answer::Scene(scene), &[])?;
            }
            Some((Question::Begin { target, snaplen, rate }, _)) => {
                match Capture::begin(pins, known, &target, snaplen, rate) {
                    Ok(capture) => return capture.serve(&mut client),
                    Err(why) => client.send(&Answer::Refused(why), &[])?,
                }
            }
            Some(_) => client.send(&Answer::Refused("nothing is captured".into()), &[])?,
            None => return Ok(()),
        }
    }
}

/// A capture that is ready or runs; turned off when dropped.
struct Capture<'a> {
    known: &'a Mutex<Known>,
    taps: Taps,
    number: u32,
    interfaces: Vec<Named>,
    ring: OwnedFd,
    memory: OwnedFd,
}

impl<'a> Capture<'a> {
    fn begin(
        pins: &Path,
        known: &'a Mutex<Known>,
        target: &str,
        snaplen: u32,
        rate: u32,
    ) -> Result<Capture<'a>, String> {
        let mut locked = lock(known);
        let interfaces = find(locked.scene(), target)?;
        let memory = locked.memory.as_ref().ok_or("this node is not up")?;
        let memory = memory.try_clone().map_err(|error| error.to_string())?;
        let taps = Taps::open(pins).map_err(|error| error.to_string())?;
        let free = locked.used.iter().position(|used| !used).ok_or_else(|| {
            format!("{MAX_TAPS} captures run already, which is the most; end one")
        })?;
        let number = free as u32;
        let ring = taps.begin(number, snaplen, rate).map_err(|error| error.to_string())?;
        if let Some(used) = locked.used.get_mut(free) {
            *used = true;
        }
        Ok(Capture { known, taps, number, interfaces, ring, memory })
    }

    fn serve(&self, client: &mut Client) -> Result<(), europa_channel::ChannelError> {
        let interfaces = self.interfaces.clone();
        let ready = Answer::Ready { tap: self.number, interfaces };
        client.send(&ready, &[self.ring.as_fd(), self.memory.as_fd()])?;
        let mut on = false;
        loop {
            let question = client.receive_within(LOOK_EVERY)?.map(|(question, _)| question);
            match question {
                Some(Question::Go) => {
                    on = true;
                    self.look();
                    client.send(&Answer::Going, &[])?;
                }
                Some(Question::Stop) => {
                    on = false;
                    self.taps.set(self.number, &[]);
                    let lost = self.taps.lost(self.number);
                    let (lost_rate, lost_room) = (lost.rate, lost.room);
                    client.send(&Answer::Stopped { lost_rate, lost_room }, &[])?;
                }
                Some(_) => client.send(&Answer::Refused("a capture runs".into()), &[])?,
                None if on => self.look(),
                None => {}
            }
        }
    }

    /// Attaches the tap to its interfaces that are still the same.
    fn look(&self) {
        let scene = Arc::clone(lock(self.known).scene());
        let there = |one: &&Named| {
            scene.interfaces().any(|(router, interface)| {
                interface.id == one.id && format!("{}.{}", router.name, interface.name) == one.name
            })
        };
        let ids: Vec<u32> = self.interfaces.iter().filter(there).map(|one| one.id).collect();
        self.taps.set(self.number, &ids);
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        self.taps.end(self.number);
        // The memory of its records is freed, except shared pages.
        let bytes = MEMORY_BYTES as i64 / i64::from(MAX_TAPS);
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let _ = fallocate(&self.memory, hole, bytes * i64::from(self.number), bytes);
        if let Some(used) = lock(self.known).used.get_mut(self.number as usize) {
            *used = false;
        }
    }
}

/// The objects that run and can be captured: all that a scene follows from.
pub(crate) struct Sketch {
    documents: Arc<Documents>,
    ports: Vec<scene::Port>,
    /// Plans of routers, and the numbers of their interfaces.
    routers: Vec<(Arc<RouterPlan>, Vec<u32>)>,
}

impl Sketch {
    fn new(documents: &Arc<Documents>, ports: &[Port], routers: &[Router]) -> Self {
        let ports = ports.iter().map(|port| scene::Port {
            name: port.name.clone(),
            device: port.device.name.clone(),
            kind: port.device.kind.to_string(),
            mtu: port.mtu,
            rate_bits: port.rate_bits,
        });
        let of = |router: &Router| (router.wanted.clone(), router.interfaces.clone());
        let routers = routers.iter().map(of).collect();
        Self { documents: documents.clone(), ports: ports.collect(), routers }
    }

    /// Describes the objects. Takes milliseconds if there are many.
    fn scene(self) -> scene::Scene {
        let Self { documents, ports, routers } = self;
        let written: HashMap<_, _> =
            documents.routers.iter().map(|document| (document.full_name(), document)).collect();
        let routers = routers.iter().map(|(plan, interfaces)| {
            let document = written.get(&*plan.name).copied();
            let planned = plan.interfaces.iter().zip(interfaces);
            scene::Router {
                name: plan.name.to_string(),
                fast_path: plan.file.clone(),
                interfaces: planned
                    .map(|(planned, id)| interface(document, planned, *id))
                    .collect(),
            }
        });
        let hosts = documents.hosts.iter().map(|host| scene::Host {
            name: host.name.value.to_string(),
            interfaces: host.interfaces.0.iter().map(host_interface).collect(),
        });
        scene::Scene { hosts: hosts.collect(), routers: routers.collect(), ports }
    }
}

/// An interface of a router.
fn interface(
    document: Option<&europa_api::Router>,
    planned: &InterfacePlan,
    id: u32,
) -> scene::Interface {
    let written = document
        .and_then(|d| d.interfaces.0.iter().find(|(name, _)| *name.value == *planned.name))
        .map(|(_, interface)| &interface.value);
    let to = match (written.and_then(|written| written.attachment()), &planned.to) {
        (Some(Attachment::Link(link)), _) => scene::To::Link(link.value.to_string()),
        (_, To::Port(port)) => scene::To::Port(port.to_string()),
        (_, To::Link(_) | To::Far(_) | To::Nowhere) => scene::To::Link(planned.name.clone()),
    };
    scene::Interface {
        id,
        name: planned.name.clone(),
        mac: planned.spec.mac,
        mtu: planned.mtu,
        addresses: written
            .map(|written| written.addresses.iter().map(|a| a.value.to_string()).collect())
            .unwrap_or_default(),
        matches: matches(&planned.spec),
        to,
    }
}

fn host_interface(
    (name, interface): &(At<InterfaceName>, At<HostInterface>),
) -> scene::HostInterface {
    let interface = &interface.value;
    let to = match (&interface.link, &interface.port) {
        (Some(link), _) => Some(scene::To::Link(link.value.to_string())),
        (None, Some(port)) => Some(scene::To::Port(port.value.to_string())),
        (None, None) => None,
    };
    scene::HostInterface {
        name: name.value.to_string(),
        addresses: interface.addresses.iter().map(|address| address.value.to_string()).collect(),
        to,
    }
}

/// Description of the packets that belong to an interface.
fn matches(spec: &europa_substrate::InterfaceSpec) -> String {
    use europa_substrate::MatchKind;
    let vlan = match spec.matches.first() {
        Some(first) if first.vlan != 0 => format!("VLAN {} ", first.vlan),
        _ => String::new(),
    };
    let kinds = spec.matches.iter().map(|one| match &one.kind {
        MatchKind::Mac(_) => "MAC".to_owned(),
        MatchKind::Udp(port) => format!("UDP {port}"),
        MatchKind::Vxlan(vni) => format!("VNI {vni}"),
        MatchKind::Mpls(label) => format!("label {label}"),
        MatchKind::Prefix(prefix) => prefix.to_string(),
        MatchKind::All => "all".to_owned(),
    });
    let kinds: Vec<String> = kinds.collect();
    vlan + &kinds.join(", ")
}
