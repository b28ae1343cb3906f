//! The node's process: one loop over children, requests, jobs and timers.
//!
//! | file        | concern                                                    |
//! |-------------|------------------------------------------------------------|
//! | `adopt`     | what a node that was killed has left running               |
//! | `apply`     | new desired state: checked, kept, carried out              |
//! | `steps`     | what turns the routers that run into those that are wanted |
//! | `hosts`     | hosts, and what they send over links                       |
//! | `filters`   | what the switch is told of rules, and has counted          |
//! | `bring_up`  | one port or router added or removed                        |
//! | `processes` | the switch and the routers: started, told what to do       |
//! | `answers`   | what routers answer                                        |
//! | `pools`     | packet pools, made ahead of need                           |
//! | `revive`    | processes that have ended: noted, and started again        |
//! | `restart`   | a router's new process takes over from the old one         |
//! | `tunnels`   | tunnels' outer headers follow their next hops              |
//! | `watch`     | what is looked at now and then: links, devices, logs       |
//! | `show`      | what is told of everything                                 |
//! | `take_down` | the end of everything                                      |

mod adopt;
mod answers;
mod apply;
mod bring_up;
mod filters;
mod hosts;
mod pools;
mod processes;
mod restart;
mod revive;
mod show;
mod steps;
mod take_down;
mod tunnels;
mod watch;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use europa_api::rest::{ProblemDetails, Said};
use europa_api::stats::HostStats;
use europa_sandbox::LOG_BYTES;
use europa_sandbox::cgroup::{Cgroups, Group};
use europa_substrate::{PoolHandle, Substrate};
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};

use self::apply::{Desired, Job, Order};
pub(crate) use self::apply::{Refusal, Submission};
use self::filters::Filtering;
pub(crate) use self::filters::OwnChanges;
use self::pools::Spares;
pub(crate) use self::restart::Successor;
use self::tunnels::TUNNELS_EVERY;
use self::watch::WATCH_EVERY;
use crate::capture::Captures;
use crate::control::{Control, Inbox, Reply, queue};
use crate::events::Events;
use crate::kept::Kept;
use crate::meters::Meters;
use crate::placement::Placement;
use crate::ports::Port;
use crate::queues::PortsQueues;
use crate::relays::Relay;
use crate::rest::Rest;
use crate::router::{Process, Router};
use crate::slices::SliceGroups;
use crate::slow_path::SlowPaths;
use crate::store::{RedbStore, Store};
use crate::switch::{Lasting, Revival, Switch};
use crate::{Doing, Instance, Lifetime, NodeError, cores, leftovers, slices};

/// What a node is told when it is started, beside what its documents say.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where Prometheus asks.
    pub metrics_at: Option<SocketAddr>,
    /// How many workers the switch has, each with a CPU of its own.
    pub workers: u32,
}

/// Runs the node until it is told to go down.
///
/// # Errors
/// What kept it from starting, or from going on.
pub fn run(instance: Instance, lifetime: Lifetime, settings: Settings) -> Result<(), NodeError> {
    let cores = cores::cores().len();
    if !(1..=cores).contains(&(settings.workers as usize)) {
        return Err(NodeError::Refused(format!(
            "{} workers are wanted of the switch, and there are {cores} CPUs: between 1 and {cores} \
             are possible, one a CPU",
            settings.workers
        )));
    }
    let directory = instance.directory();
    let what = || format!("making {}", directory.display());
    fs::create_dir_all(instance.logs()).doing(what())?;
    // Documents, logs and files of slow paths are for who may give orders.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).doing(what())?;
    let lock = File::create(instance.lock()).doing("opening the lock file")?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
        .map_err(|_| NodeError::Refused(format!("the node `{}` already runs", instance.name())))?;
    have_descriptors();
    let left = leftovers::exist(&instance);
    leftovers::remove_sockets(&instance);
    if lifetime == Lifetime::Lasting {
        // That of a node that `up` had started.
        let _ = fs::remove_file(instance.state(Lifetime::Temporary));
    }
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    // The terminal of one in the foreground closes.
    signals.add(Signal::SIGHUP);
    // Before any thread is made: all of them block these.
    signals.thread_block().doing("blocking signals")?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)
        .doing("making a signal descriptor")?;
    let store = RedbStore::open(&instance.state(lifetime))?;
    let (control, inbox) = queue()?;
    let mut node = Node::new(instance, lifetime, Box::new(store), settings, control.clone())?;
    let rest = Rest::start(&node.instance, control, node.events.clone(), settings.metrics_at)?;
    node.slow_paths.open_doors(rest.doors());
    node.restore(left)?;
    let result = node.serve(&inbox, &signals);
    let farewell = node.take_down();
    for line in farewell.as_deref().unwrap_or_default() {
        tracing::warn!("{line}");
    }
    if let Some(reply) = node.farewell.take() {
        // Whoever asked may be gone.
        let _ = reply.send(match &farewell {
            Ok(said) => Ok(Said { lines: said.clone() }),
            Err(error) => Err(ProblemDetails::failed(error.to_string())),
        });
    }
    rest.end();
    result?;
    farewell.map(drop)
}

/// Six for each router, of which there may be thousands.
fn have_descriptors() {
    let enough = 65_536;
    let found = getrlimit(Resource::RLIMIT_NOFILE);
    let Ok((soft, hard)) = found else { return };
    if soft < enough && setrlimit(Resource::RLIMIT_NOFILE, enough, hard.max(enough)).is_err() {
        // Without the right to have more, what it may have.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// A socket for requests of root's.
pub(crate) fn listen_at(path: &Path) -> Result<OwnedFd, NodeError> {
    let what = || format!("listening at {}", path.display());
    let listener: OwnedFd =
        socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
            .doing(what())?;
    let address = UnixAddr::new(path).doing(what())?;
    bind(listener.as_raw_fd(), &address).doing(what())?;
    // Root only, whatever the umask was.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(path, mode).doing(what())?;
    listen(&listener, Backlog::new(16).doing(what())?).doing(what())?;
    Ok(listener)
}

/// Everything that a node owns. One thread has it; others send work: see `control`.
pub(crate) struct Node {
    pub(crate) instance: Instance,
    kept: Kept,
    lifetime: Lifetime,
    since: String,
    cgroups: Cgroups,
    pub(crate) cores: Vec<usize>,
    pub(crate) placement: Placement,
    /// Into this loop.
    control: Control,
    substrate: Option<Substrate>,
    lasting: Option<Lasting>,
    ports: Vec<Port>,
    pub(crate) routers: Vec<Router>,
    switch: Option<Switch>,
    switch_group: Option<Group>,
    revival: Revival,
    /// Pools made ahead of need: a restarted router has one at once.
    stock: Vec<PoolHandle>,
    /// Pools that nobody uses any more, but which the switch had not forgotten when it ended.
    orphans: Vec<PoolHandle>,
    spares: Spares,
    hosts: Vec<HostStats>,
    /// What the hosts that there are were made from, as far as they are made.
    hosts_made: Vec<europa_api::Host>,
    relays: Vec<Relay>,
    /// Shells that run hosts' commands, by host.
    running: Vec<(String, std::process::Child)>,
    tunnels_looked: Instant,
    captures: Captures,
    watched: Instant,
    pub(crate) events: Events,
    store: Box<dyn Store>,
    desired: Desired,
    job: Option<Job>,
    /// Submissions that came while there was a job.
    waiting: VecDeque<Order>,
    /// Whoever asked for the end.
    farewell: Option<Reply<Result<Said, ProblemDetails>>>,
    ending: bool,
    slow_paths: SlowPaths,
    queues: PortsQueues,
    meters: Meters,
    slices: SliceGroups,
    settings: Settings,
    filtering: Filtering,
    /// Captures know what there was before.
    scene_is_old: bool,
}

impl Node {
    fn new(
        instance: Instance,
        lifetime: Lifetime,
        store: Box<dyn Store>,
        settings: Settings,
        control: Control,
    ) -> Result<Self, NodeError> {
        Ok(Self {
            cgroups: Cgroups::detect()?,
            cores: cores::cores(),
            placement: Placement::default(),
            captures: Captures::start(&instance)?,
            kept: Kept::open(&instance)?,
            instance,
            lifetime,
            since: crate::events::now(),
            substrate: None,
            lasting: None,
            ports: Vec::new(),
            routers: Vec::new(),
            switch: None,
            switch_group: None,
            revival: Revival::default(),
            stock: Vec::new(),
            orphans: Vec::new(),
            spares: Spares::start(control.clone())?,
            control,
            hosts: Vec::new(),
            hosts_made: Vec::new(),
            relays: Vec::new(),
            running: Vec::new(),
            tunnels_looked: Instant::now(),
            watched: Instant::now(),
            events: Events::new(),
            store,
            desired: Desired::default(),
            job: None,
            waiting: VecDeque::new(),
            farewell: None,
            ending: false,
            slow_paths: SlowPaths::default(),
            queues: PortsQueues::default(),
            meters: Meters::default(),
            slices: SliceGroups::default(),
            settings,
            filtering: Filtering::default(),
            scene_is_old: false,
        })
    }

    /// Serves until a signal or until somebody asks for the end.
    fn serve(&mut self, inbox: &Inbox, signals: &SignalFd) -> Result<(), NodeError> {
        let mut told = false;
        loop {
            // What was asked for before this start is up again, as far as can be.
            if !told && self.is_settled() {
                told = true;
                if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
                    tracing::warn!("telling systemd: {error}");
                }
            }
            let timeout = self.next_timeout();
            let mut wait = vec![
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(inbox.as_fd(), PollFlags::POLLIN),
            ];
            if let Some(switch) = &self.switch {
                wait.push(PollFd::new(switch.child.as_fd(), PollFlags::POLLIN));
            }
            let mut places = Vec::new();
            for process in self.routers.iter().flat_map(Router::processes) {
                wait.extend(process.body.fd().map(|end| PollFd::new(end, PollFlags::POLLIN)));
                places.push(wait.len());
                wait.push(PollFd::new(process.as_fd(), PollFlags::POLLIN));
            }
            if let Some(checker) = self.job.as_ref().and_then(Job::checker) {
                wait.push(PollFd::new(checker, PollFlags::POLLIN));
            }
            match poll(&mut wait, timeout) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error).doing("waiting"),
            }
            // A thousand routers are not asked in vain, each by a system call.
            let processes = self.routers.iter().flat_map(Router::processes);
            for (process, place) in processes.zip(places) {
                process.says.set(wait.get(place).and_then(PollFd::any) != Some(false));
            }
            let signalled = wait.first().and_then(PollFd::any) == Some(true);
            drop(wait);
            if signalled {
                return Ok(());
            }
            // Answers before ends: a router that refuses its configuration says why and goes.
            self.hear_routers();
            self.hear_successors();
            self.bury();
            self.revive();
            self.work();
            self.follow();
            self.follow_tunnels();
            self.watch();
            for work in inbox.take() {
                work(self);
            }
            // Last, as it takes its time.
            self.refill_stock();
            if self.ending {
                return Ok(());
            }
        }
    }

    fn next_timeout(&self) -> PollTimeout {
        let now = Instant::now();
        let dues = self.routers.iter().filter_map(|router| router.due).chain(self.revival.due);
        let answers = self.routers.iter().flat_map(Router::processes);
        let answers = answers.filter_map(Process::next_due);
        let tunnels = self
            .routers
            .iter()
            .flat_map(|router| &router.plan.interfaces)
            .any(|interface| interface.tunnel.is_some())
            .then(|| self.tunnels_looked + TUNNELS_EVERY);
        let watch = (!self.desired.stored.is_empty()).then(|| self.watched + WATCH_EVERY);
        let job = self.job.as_ref().map(|job| job.due(now));
        let all = dues.chain(answers).chain(tunnels).chain(watch).chain(job);
        match all.min() {
            None => PollTimeout::NONE,
            Some(due) => {
                let wait = due.saturating_duration_since(now);
                // Rounded up: else the loop would turn until the time has come.
                PollTimeout::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
            }
        }
    }

    /// Ends the loop; `reply` is told when everything is gone.
    pub(crate) fn end(&mut self, reply: Reply<Result<Said, ProblemDetails>>) {
        self.farewell = Some(reply);
        self.ending = true;
    }

    /// The control group of a router, below that of its slice.
    fn router_group(&self, name: &str) -> Option<Group> {
        self.group(&slices::router_group(name))
    }

    /// The control group of a process; none where the machine has none that works.
    fn group(&self, name: &str) -> Option<Group> {
        match self.cgroups.group(self.instance.name(), name) {
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
        // A process may write so much and no more: the next one begins anew in time.
        if fs::metadata(&path).is_ok_and(|log| log.len() > LOG_BYTES / 2) {
            fs::rename(&path, path.with_extension("log.old")).doing("putting a log aside")?;
        }
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .doing(format!("opening {}", path.display()))
    }
}
