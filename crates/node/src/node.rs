//! The node's process: one loop over children, requests and timers.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use europa_api::Documents;
use europa_channel::Channel;
use europa_pool::Geometry;
use europa_router::orders as router_orders;
use europa_sandbox::cgroup::{Cgroups, Group};
use europa_substrate::{PoolHandle, Substrate};
use europa_switch::orders::{Order, Target};
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, listen, socket,
};

use crate::plan::{RouterPlan, To, Tunnel, plan};
use crate::ports::Port;
use crate::request::{Request, Response};
use crate::router::Router;
use crate::stats::{InterfaceStats, NodeStats, PortStats, RouterStats};
use crate::switch::{Lasting, Revival, Switch, add_interface};
use crate::{Doing, Instance, NodeError, cores, leftovers};

/// How long a router may take to read its configuration when it is brought up.
const READY: Duration = Duration::from_secs(30);
/// How often the next hops of tunnels are looked at.
const TUNNELS_EVERY: Duration = Duration::from_secs(10);

/// Runs the node until it is told to go down.
///
/// # Errors
/// What kept it from starting, or from going on.
pub fn run(instance: Instance) -> Result<(), NodeError> {
    fs::create_dir_all(instance.logs()).doing(format!("making {}", instance.logs().display()))?;
    let lock = File::create(instance.lock()).doing("opening the lock file")?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
        .map_err(|_| NodeError::Refused(format!("the node `{}` already runs", instance.name())))?;
    if leftovers::exist(&instance) {
        tracing::warn!("cleaning up after a node that was killed");
        for line in leftovers::remove(&instance)? {
            tracing::warn!("{line}");
        }
        fs::create_dir_all(instance.logs()).doing("making the log directory")?;
    }
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block().doing("blocking signals")?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)
        .doing("making a signal descriptor")?;
    let listener = listen_at(&instance)?;
    let mut node = Node::new(instance)?;
    let result = node.serve(&listener, &signals);
    let farewell = node.take_down();
    for line in farewell.as_deref().unwrap_or_default() {
        tracing::warn!("{line}");
    }
    if let Ok(Some(mut client)) = result {
        let answer = match &farewell {
            Ok(said) => Response::Done(said.clone()),
            Err(error) => Response::Failed(error.to_string()),
        };
        // Whoever asked may be gone.
        let _ = client.send(&answer, &[]);
        let _ = client.try_receive();
    } else {
        result?;
    }
    farewell.map(|_| ())
}

fn listen_at(instance: &Instance) -> Result<OwnedFd, NodeError> {
    let what = || format!("listening at {}", instance.socket().display());
    let listener: OwnedFd =
        socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
            .doing(what())?;
    let address = UnixAddr::new(&instance.socket()).doing(what())?;
    bind(listener.as_raw_fd(), &address).doing(what())?;
    // Root only, whatever the umask was.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(instance.socket(), mode).doing(what())?;
    listen(&listener, Backlog::new(16).doing(what())?).doing(what())?;
    Ok(listener)
}

type Client = Channel<Response, Request>;

struct Node {
    instance: Instance,
    cgroups: Cgroups,
    cores: Vec<usize>,
    substrate: Option<Substrate>,
    lasting: Option<Lasting>,
    ports: Vec<Port>,
    routers: Vec<Router>,
    switch: Option<Switch>,
    switch_group: Option<Group>,
    revival: Revival,
    /// Pools made ahead of need: a restarted router has one at once.
    stock: Vec<PoolHandle>,
    tunnels_looked: Instant,
}

impl Node {
    fn new(instance: Instance) -> Result<Self, NodeError> {
        Ok(Self {
            cgroups: Cgroups::detect()?,
            cores: cores::cores(),
            instance,
            substrate: None,
            lasting: None,
            ports: Vec::new(),
            routers: Vec::new(),
            switch: None,
            switch_group: None,
            revival: Revival::default(),
            stock: Vec::new(),
            tunnels_looked: Instant::now(),
        })
    }

    /// Serves until a signal or `down`; then whoever asked for it.
    fn serve(
        &mut self,
        listener: &OwnedFd,
        signals: &SignalFd,
    ) -> Result<Option<Client>, NodeError> {
        loop {
            let timeout = self.next_timeout();
            let mut wait = vec![
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            ];
            if let Some(switch) = &self.switch {
                wait.push(PollFd::new(switch.child.as_fd(), PollFlags::POLLIN));
            }
            for router in &self.routers {
                if let Some(process) = &router.process {
                    wait.push(PollFd::new(process.child.as_fd(), PollFlags::POLLIN));
                }
            }
            match poll(&mut wait, timeout) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error).doing("waiting"),
            }
            let ready: Vec<bool> = wait.iter().map(|fd| fd.any() == Some(true)).collect();
            drop(wait);
            if ready.first() == Some(&true) {
                return Ok(None);
            }
            self.bury();
            self.revive();
            self.refill_stock();
            self.follow_tunnels();
            if ready.get(1) == Some(&true)
                && let Some(client) = self.answer(listener)
            {
                return Ok(Some(client));
            }
        }
    }

    fn next_timeout(&self) -> PollTimeout {
        let dues = self.routers.iter().filter_map(|router| router.due).chain(self.revival.due);
        let tunnels = self
            .routers
            .iter()
            .flat_map(|router| &router.plan.interfaces)
            .any(|interface| interface.tunnel.is_some())
            .then(|| self.tunnels_looked + TUNNELS_EVERY);
        match dues.chain(tunnels).min() {
            None => PollTimeout::NONE,
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                // Rounded up: else the loop would turn until the time has come.
                PollTimeout::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
            }
        }
    }

    /// Answers one client; gives it back if it wants the node to go down.
    fn answer(&mut self, listener: &OwnedFd) -> Option<Client> {
        let raw = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).ok()?;
        // SAFETY: a new descriptor that nobody else has.
        #[allow(unsafe_code)]
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut client: Client = Channel::new(socket);
        let (request, _) = client.receive_within(Duration::from_secs(1)).ok()??;
        let response = match request {
            Request::Down => return Some(client),
            Request::Up { files, colour } => {
                if let Err(why) = self.up(&files, colour) {
                    let mut text = why;
                    if let Err(error) = self.take_down_routers() {
                        text += &format!("\nand cleaning up failed: {error}");
                    }
                    // A node with nothing to do goes.
                    let _ = client.send(&Response::Failed(text), &[]);
                    return Some(client);
                }
                Response::Done(self.summary())
            }
            Request::Stats => Response::Stats(Box::new(self.stats())),
            Request::Read { router, path } => {
                let order = router_orders::Order::Read { path, parameter: String::new() };
                self.ask_router(&router, &order)
            }
            Request::Write { router, path, value } => {
                self.ask_router(&router, &router_orders::Order::Write { path, value })
            }
        };
        let _ = client.send(&response, &[]);
        None
    }

    fn ask_router(&mut self, name: &str, order: &router_orders::Order) -> Response {
        let Some(router) = self.routers.iter_mut().find(|router| router.plan.name == name) else {
            let names: Vec<&str> = self.routers.iter().map(|r| r.plan.name.as_str()).collect();
            return Response::Failed(format!(
                "there is no router {name}; there are: {}",
                names.join(", ")
            ));
        };
        let Some(process) = &mut router.process else {
            return Response::Failed(format!("router {name} does not run: {}", router.last_end));
        };
        match process.ask(name, order) {
            Ok(text) => Response::Done(text.lines().map(str::to_owned).collect()),
            Err(error) => Response::Failed(error.to_string()),
        }
    }

    fn up(&mut self, files: &[PathBuf], colour: bool) -> Result<(), String> {
        if !self.routers.is_empty() || !self.ports.is_empty() {
            return Err("this node is up already; take it down first with `europa down`".into());
        }
        let documents = europa_api::load(files).map_err(|problems| problems.render(colour))?;
        self.bring_up(&documents).map_err(|error| error.to_string())
    }

    fn bring_up(&mut self, documents: &Documents) -> Result<(), NodeError> {
        let mut substrate = Substrate::open(&self.instance.pins())?;
        let lasting = Lasting::new(&substrate)?;
        for (id, document) in (1..).zip(&documents.ports) {
            let on_it = interfaces_on(documents, &document.name.value.to_string());
            let port = Port::open(id, document, on_it.vlan, on_it.promiscuous)?;
            self.ports.push(port);
            let undos: Vec<_> = self.ports.iter().map(|port| &port.undo).collect();
            leftovers::note(&self.instance, &undos)?;
        }
        let facts: HashMap<_, _> =
            self.ports.iter().map(|port| (port.name.clone(), port.facts())).collect();
        let plans = plan(documents, &facts)?;
        for port in &mut self.ports {
            port.attach(&mut substrate)?;
            for limitation in &port.limitations {
                tracing::warn!("port {}: {limitation}", port.name);
            }
        }
        self.substrate = Some(substrate);
        self.lasting = Some(lasting);
        for (number, plan) in (0..).zip(plans) {
            self.add_router(number, plan)?;
        }
        self.switch_group = self.group("switch");
        self.start_switch()?;
        for index in 0..self.routers.len() {
            self.begin_router(index)?;
        }
        for router in &mut self.routers {
            if let Some(mut process) = router.process.take() {
                process.await_ready(router, READY)?;
                router.process = Some(process);
            }
        }
        Ok(())
    }

    /// The control group of a process; none where the machine has none that works.
    fn group(&self, name: &str) -> Option<Group> {
        match self.cgroups.group(self.instance.name(), &name.replace('/', "_")) {
            Ok(group) => Some(group),
            Err(error) => {
                tracing::warn!("no control group for {name}: {error}");
                None
            }
        }
    }

    fn substrate(&self) -> Result<&Substrate, NodeError> {
        self.substrate.as_ref().ok_or_else(|| NodeError::Refused("this node is not up".into()))
    }

    fn lasting(&self) -> Result<&Lasting, NodeError> {
        self.lasting.as_ref().ok_or_else(|| NodeError::Refused("this node is not up".into()))
    }

    fn log(&self, of: &str) -> Result<File, NodeError> {
        let path = self.instance.log(of);
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .doing(format!("opening {}", path.display()))
    }

    fn add_router(&mut self, number: u32, mut plan: RouterPlan) -> Result<(), NodeError> {
        for interface in &mut plan.interfaces {
            let To::Port(name) = &interface.to else { continue };
            if let (Some(tunnel), Some(port)) =
                (interface.tunnel, self.ports.iter().find(|port| port.name == *name))
            {
                interface.spec.encap = encap(port, tunnel, interface.spec.vlan)?;
                interface.spec.vlan = 0;
            }
        }
        let group = self.group(&plan.name);
        let mut router = Router::new(number, plan, group)?;
        let pool = self.take_pool(router.plan.geometry)?;
        pool.name_interfaces(&router.plan.rows())?;
        for interface in &router.plan.interfaces {
            let port = match &interface.to {
                To::Port(name) => self.ports.iter().find(|port| port.name == *name),
                To::Link { .. } => None,
            };
            let attachment = port.and_then(|port| port.attachment.as_ref());
            let id = self.substrate()?.add_interface(&interface.spec, attachment, &pool).map_err(
                |error| {
                    NodeError::Refused(format!(
                        "router {}: interface {}: {error}",
                        router.plan.name, interface.name
                    ))
                },
            )?;
            router.interfaces.push(id);
        }
        router.pool = Some(pool);
        self.routers.push(router);
        Ok(())
    }

    fn take_pool(&mut self, geometry: Geometry) -> Result<PoolHandle, NodeError> {
        match self.stock.iter().position(|pool| pool.layout.geometry == geometry) {
            Some(place) => Ok(self.stock.swap_remove(place)),
            None => Ok(self.substrate()?.create_pool(geometry)?),
        }
    }

    /// One spare pool for each geometry in use.
    fn refill_stock(&mut self) {
        let Some(substrate) = &self.substrate else { return };
        for router in &self.routers {
            let geometry = router.plan.geometry;
            if self.stock.iter().any(|pool| pool.layout.geometry == geometry) {
                continue;
            }
            match substrate.create_pool(geometry) {
                Ok(pool) => self.stock.push(pool),
                Err(error) => tracing::warn!("no spare pool: {error}"),
            }
        }
    }

    /// Starts a switch and tells it everything.
    fn start_switch(&mut self) -> Result<(), NodeError> {
        let log = self.log("switch")?;
        let mut switch = Switch::start(
            self.substrate()?,
            self.lasting()?,
            log.as_fd(),
            self.switch_group.as_ref(),
            self.cores.last().map_or(&[], std::slice::from_ref),
        )?;
        for port in &self.ports {
            let order = Order::AddPort {
                port: port.id,
                device: port.device.index,
                rate_bits: port.rate_bits,
                live: port.live,
                ways_join: port.ways_join(),
            };
            switch.order(&order, &port.sockets().map(AsFd::as_fd))?;
        }
        for router in &self.routers {
            self.tell_pool(&mut switch, router)?;
        }
        for router in &self.routers {
            self.tell_interfaces(&mut switch, router)?;
        }
        self.switch = Some(switch);
        Ok(())
    }

    fn tell_pool(&self, switch: &mut Switch, router: &Router) -> Result<(), NodeError> {
        let Some(pool) = &router.pool else { return Ok(()) };
        let Geometry { slots, slot_bytes, interfaces } = pool.layout.geometry;
        let order = Order::AddPool { pool: pool.id, slots, slot_bytes, interfaces };
        switch.order(&order, &[pool.as_fd(), router.wake.as_fd()])?;
        Ok(())
    }

    fn tell_interfaces(&self, switch: &mut Switch, router: &Router) -> Result<(), NodeError> {
        let Some(pool) = &router.pool else { return Ok(()) };
        for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
            let to = match &interface.to {
                To::Port(name) => {
                    self.ports.iter().find(|p| p.name == *name).map(|p| Target::Port(p.id))
                }
                To::Link { router, interface } => self
                    .routers
                    .get(*router)
                    .and_then(|other| other.interfaces.get(*interface))
                    .map(|id| Target::Link(*id)),
            };
            let Some(to) = to else { continue };
            let bound = &interface.spec.bound;
            switch.order(&add_interface(*id, pool.id, interface.spec.local, to, bound), &[])?;
        }
        Ok(())
    }

    /// Starts a router's process on the pool it has.
    fn begin_router(&mut self, index: usize) -> Result<(), NodeError> {
        let Some(router) = self.routers.get(index) else { return Ok(()) };
        let process = router.spawn(self.log(&router.plan.name)?.as_fd(), &self.cores)?;
        if let Some(pool) = &router.pool {
            process.begin(router, pool, self.lasting()?)?;
        }
        if let Some(router) = self.routers.get_mut(index) {
            router.process = Some(process);
            router.due = None;
        }
        Ok(())
    }

    /// Notes who has ended, and when to start it again.
    fn bury(&mut self) {
        let now = Instant::now();
        if let Some(switch) = &mut self.switch
            && let Ok(Some(exit)) = switch.child.try_wait()
        {
            let due = self.revival.backoff.failed(now.duration_since(switch.started), now);
            tracing::warn!("the switch ended: {exit:?}; it is started again");
            self.revival.due = Some(due);
            self.switch = None;
        }
        for router in &mut self.routers {
            if let Some(process) = &mut router.process
                && let Ok(Some(exit)) = process.child.try_wait()
            {
                let due = router.backoff.failed(now.duration_since(process.started), now);
                tracing::warn!("router {} ended: {exit:?}; it is started again", router.plan.name);
                router.last_end = format!("ended: {exit:?}");
                router.due = Some(due);
                router.process = None;
            }
        }
    }

    /// Starts again what is due.
    fn revive(&mut self) {
        let now = Instant::now();
        if self.revival.due.is_some_and(|due| due <= now) {
            self.revival.due = None;
            self.revival.restarts += 1;
            if let Err(error) = self.start_switch() {
                tracing::error!("starting the switch: {error}");
                self.revival.due = Some(self.revival.backoff.failed(Duration::ZERO, now));
            }
        }
        for index in 0..self.routers.len() {
            let due = self.routers.get(index).and_then(|router| router.due);
            if due.is_some_and(|due| due <= now)
                && let Err(error) = self.restart_router(index)
            {
                tracing::error!("starting a router: {error}");
                if let Some(router) = self.routers.get_mut(index) {
                    router.due = Some(router.backoff.failed(Duration::ZERO, now));
                }
            }
        }
    }

    /// Gives a router a new pool and a new process. The process is started first and
    /// builds its sandbox while the pools change.
    fn restart_router(&mut self, index: usize) -> Result<(), NodeError> {
        let geometry = match self.routers.get(index) {
            Some(router) => router.plan.geometry,
            None => return Ok(()),
        };
        let new = self.take_pool(geometry)?;
        let Some(router) = self.routers.get(index) else { return Ok(()) };
        let process = router.spawn(self.log(&router.plan.name)?.as_fd(), &self.cores)?;
        new.name_interfaces(&router.plan.rows())?;
        let substrate = self.substrate()?;
        for id in &router.interfaces {
            substrate.halt_interface(*id);
        }
        let old = self.routers.get_mut(index).and_then(|router| router.pool.take());
        if let (Some(switch), Some(old)) = (&mut self.switch, &old) {
            // A switch that has just ended learns of the new pool when it starts.
            let _ = switch.order(&Order::RemovePool { pool: old.id }, &[]);
        }
        let substrate = self.substrate()?;
        if let Some(old) = &old {
            substrate.retire_pool(old)?;
        }
        let Some(router) = self.routers.get(index) else { return Ok(()) };
        for (interface, id) in router.plan.interfaces.iter().zip(&router.interfaces) {
            let port = match &interface.to {
                To::Port(name) => self.ports.iter().find(|port| port.name == *name),
                To::Link { .. } => None,
            };
            let attachment = port.and_then(|port| port.attachment.as_ref());
            substrate.move_interface(*id, &interface.spec, attachment, &new);
        }
        if let Some(router) = self.routers.get_mut(index) {
            router.pool = Some(new);
            router.restarts += 1;
            router.due = None;
        }
        if let Some(mut switch) = self.switch.take() {
            if let Some(router) = self.routers.get(index) {
                let _ = self.tell_pool(&mut switch, router);
                let _ = self.tell_interfaces(&mut switch, router);
            }
            self.switch = Some(switch);
        }
        if let Some(router) = self.routers.get(index)
            && let Some(pool) = &router.pool
        {
            process.begin(router, pool, self.lasting()?)?;
        }
        if let Some(router) = self.routers.get_mut(index) {
            router.process = Some(process);
        }
        if let Some(old) = old {
            self.substrate()?.delete_pool(old)?;
        }
        Ok(())
    }

    /// Looks whether the next hops of tunnels have other addresses now.
    fn follow_tunnels(&mut self) {
        if self.tunnels_looked.elapsed() < TUNNELS_EVERY {
            return;
        }
        self.tunnels_looked = Instant::now();
        let Some(substrate) = &self.substrate else { return };
        for router in &mut self.routers {
            for (interface, id) in router.plan.interfaces.iter_mut().zip(&router.interfaces) {
                let (Some(tunnel), To::Port(name)) = (interface.tunnel, &interface.to) else {
                    continue;
                };
                let Some(port) = self.ports.iter().find(|port| port.name == *name) else {
                    continue;
                };
                match encap(port, tunnel, 0) {
                    Ok(header) if header != interface.spec.encap => {
                        substrate.set_encap(*id, &header);
                        interface.spec.encap = header;
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!("router {}: {error}", router.plan.name),
                }
            }
        }
    }

    fn summary(&self) -> Vec<String> {
        let ports = self.ports.iter().flat_map(|port| {
            let way = if port.live { "" } else { ", by socket only" };
            let line = format!(
                "port {} is {} ({}, MTU {}{way})",
                port.name, port.device.name, port.device.kind, port.mtu
            );
            let warnings = port.limitations.iter().map(|what| format!("  warning: {what}"));
            std::iter::once(line).chain(warnings).collect::<Vec<_>>()
        });
        let routers = self.routers.iter().map(|router| {
            let pid = router.process.as_ref().map_or(0, |process| process.child.pid());
            let names: Vec<&str> =
                router.plan.interfaces.iter().map(|interface| interface.name.as_str()).collect();
            format!("router {} runs as process {pid}: {}", router.plan.name, names.join(", "))
        });
        ports.chain(routers).collect()
    }

    fn stats(&mut self) -> NodeStats {
        let now = Instant::now();
        let switch = self.switch.as_mut().and_then(Switch::stats);
        let Some(substrate) = &self.substrate else { return NodeStats::default() };
        let routers = self.routers.iter().map(|router| RouterStats {
            name: router.plan.name.clone(),
            state: router.state(now),
            pid: router.process.as_ref().map(|process| process.child.pid()),
            restarts: router.restarts,
            pool_bytes: router.pool.as_ref().map_or(0, |pool| pool.layout.memory_bytes() as u64),
            wakes: router.pool.as_ref().map_or(0, |pool| substrate.pool_state(pool.id).wakes),
            interfaces: router
                .plan
                .interfaces
                .iter()
                .zip(&router.interfaces)
                .map(|(interface, id)| {
                    InterfaceStats::of(&interface.name, &substrate.counters(*id))
                })
                .collect(),
        });
        let ports = self.ports.iter().map(|port| {
            let entry = substrate.port_entry(port.id).unwrap_or_default();
            let queue = switch
                .as_ref()
                .and_then(|switch| switch.ports.iter().find(|p| p.port == port.id))
                .cloned()
                .unwrap_or_default();
            PortStats {
                name: port.name.clone(),
                device: port.device.name.clone(),
                to_linux: entry.to_linux,
                copies_refused: entry.copies_refused,
                malformed: entry.malformed,
                queued: queue.queued,
                queued_peak: queue.queued_peak,
                device_drops: queue.device_drops,
            }
        });
        NodeStats {
            routers: routers.collect(),
            ports: ports.collect(),
            switch_restarts: self.revival.restarts,
            switch,
        }
    }

    /// Ends all processes. Frames of the ports go to Linux before that.
    fn take_down_routers(&mut self) -> Result<(), NodeError> {
        if let Some(substrate) = &self.substrate {
            for port in &mut self.ports {
                if let Some(attachment) = port.attachment.take() {
                    substrate.detach_port(attachment)?;
                }
            }
        }
        let children = self
            .routers
            .drain(..)
            .filter_map(|router| router.process.map(|process| process.child))
            .chain(self.switch.take().map(|switch| switch.child));
        let mut children: Vec<_> = children.collect();
        for child in &children {
            child.kill(Signal::SIGKILL)?;
        }
        for child in &mut children {
            child.wait()?;
        }
        self.stock.clear();
        self.ports.clear();
        Ok(())
    }

    fn take_down(&mut self) -> Result<Vec<String>, NodeError> {
        self.take_down_routers()?;
        self.substrate = None;
        self.lasting = None;
        leftovers::remove(&self.instance)
    }
}

/// What a port must be able to do for the interfaces on it.
struct OnPort {
    vlan: bool,
    promiscuous: bool,
}

fn interfaces_on(documents: &Documents, port: &str) -> OnPort {
    let interfaces = documents.routers.iter().flat_map(|router| &router.interfaces.0);
    let on: Vec<_> = interfaces
        .map(|(_, interface)| &interface.value)
        .filter(|interface| interface.port.as_ref().is_some_and(|p| *p.value.to_string() == *port))
        .collect();
    OnPort {
        vlan: on.iter().any(|interface| interface.vlan().is_some()),
        // Addresses of its own, or everybody's.
        promiscuous: on.iter().any(|interface| {
            matches!(interface.selector(), europa_api::Selector::Mac | europa_api::Selector::All)
        }),
    }
}

/// Headers that go before each frame of a tunnel: to its next hop, as Linux knows it.
fn encap(port: &Port, tunnel: Tunnel, _vlan: u16) -> Result<Vec<u8>, NodeError> {
    let hop = europa_port::next_hop(&port.device.namespace, tunnel.remote)?;
    crate::plan::vxlan_header(tunnel, port.device.mac, hop.mac)
}
