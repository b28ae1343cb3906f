//! The node's process: one loop over children, requests, jobs and timers.
//!
//! | file        | concern                                                    |
//! |-------------|------------------------------------------------------------|
//! | `run`       | a node from its start to its end                           |
//! | `adopt`     | takes over the processes of a killed node                  |
//! | `loading`   | eBPF programs, loaded beside the loop                      |
//! | `machine`   | the machine, as the engine of `control` has it             |
//! | `restore`   | starts the stored objects again                            |
//! | `steps`     | steps from the actual to the desired state, carried out    |
//! | `beside`    | long work, in threads of its own                           |
//! | `hosts`     | hosts, and their frames over links                         |
//! | `logins`    | logins by SSH: permitted or not                            |
//! | `filters`   | rules of the switch, and their counters                    |
//! | `bring_up`  | one port or router added or removed                        |
//! | `processes` | the switch and the routers: started, given orders          |
//! | `answers`   | answers of routers                                         |
//! | `counters`  | counters of everything, a few objects at a time            |
//! | `pools`     | packet pools, made ahead of need                           |
//! | `revive`    | processes that have ended: noted, and started again        |
//! | `restart`   | a router's new process takes over from the old one         |
//! | `tunnels`   | tunnels' outer headers follow their next hops              |
//! | `turns`     | how long turns of the loop take                            |
//! | `watch`     | periodic checks: links, devices, logs                      |
//! | `show`      | descriptions of all objects                                |
//! | `take_down` | the end of everything                                      |

mod adopt;
mod answers;
mod beside;
mod bring_up;
mod cages;
mod counters;
mod filters;
mod hosts;
mod loading;
pub(crate) mod logins;
mod machine;
mod pools;
mod processes;
mod restart;
mod restore;
mod revive;
mod run;
mod show;
mod steps;
mod take_down;
mod tunnels;
mod turns;
mod watch;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use europa_api::Documents;
use europa_api::rest::{ProblemDetails, Said};
use europa_api::stats::HostStats;
use europa_control::Engine;
use europa_plan::RouterId;
use europa_sandbox::LOG_BYTES;
use europa_sandbox::cgroup::{Cgroups, Group};
use europa_substrate::{PoolHandle, Substrate};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

use self::beside::Work;
use self::filters::Filtering;
use self::hosts::HostsWork;
use self::loading::Loading;
use self::pools::Spares;
use self::processes::BegunSwitch;
pub(crate) use self::restart::Successor;
pub(crate) use self::run::listen_at;
pub use self::run::run;
use self::tunnels::TUNNELS_EVERY;
use self::turns::{Turn, Turns};
use self::watch::WATCH_EVERY;
use crate::cages::Cages;
use crate::capture::Captures;
use crate::checker::Checker;
use crate::control::{Control, Inbox, Reply};
use crate::drift::DriftThread;
use crate::events::Events;
use crate::kept::Kept;
use crate::link_tunnels::LinkTunnels;
use crate::logs::LogThread;
use crate::meters::Meters;
use crate::placement::Placement;
use crate::plans::PlanThread;
use crate::ports::Port;
use crate::queues::PortsQueues;
use crate::relays::Relay;
use crate::router::{Process, Router};
use crate::signallers::Signallers;
use crate::slices::SliceGroups;
use crate::slow_path::SlowPaths;
use crate::store::StoreThread;
use crate::switch::{Lasting, Revival, Switch};
use crate::{Doing, Instance, Lifetime, NodeError, cores, slices, slow_path};

/// The settings of a node at its start, beside its documents.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of the switch's workers, each with its own CPU.
    pub workers: u32,
    /// The address for users' logins by SSH.
    pub ssh_at: Option<SocketAddr>,
}

/// The state of a node. One thread has it; others send work: see `control`.
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
    /// A switch whose rules are being sent.
    switch_begun: Option<BegunSwitch>,
    switch_group: Option<Group>,
    revival: Revival,
    /// Pools made ahead of need, so that a restarted router has one at once.
    stock: Vec<PoolHandle>,
    /// Unused pools that the switch still had when it ended.
    orphans: Vec<PoolHandle>,
    spares: Spares,
    hosts: Vec<HostStats>,
    /// The documents of the present hosts, as far as they are complete.
    hosts_made: Arc<Vec<europa_api::Host>>,
    relays: Vec<Relay>,
    link_tunnels: LinkTunnels,
    /// Shells that run hosts' commands, by host.
    running: Vec<(String, crate::hosts::Commands)>,
    /// Hosts whose commands have failed, and how.
    hosts_failed: HashMap<String, String>,
    tunnels_looked: Instant,
    drift: DriftThread,
    plans: PlanThread,
    _logs: LogThread,
    captures: Captures,
    watched: Instant,
    pub(crate) events: Events,
    store: StoreThread,
    /// Decides about a step.
    engine: Engine,
    /// Whether it can continue at once.
    more: bool,
    /// The start of its time.
    clock: Instant,
    /// The desired state; accepted, or about to be.
    documents: Arc<Documents>,
    checker: Option<Checker>,
    turns: Turns,
    /// The request for the end.
    farewell: Option<Reply<Result<Said, ProblemDetails>>>,
    ending: bool,
    slow_paths: SlowPaths,
    queues: PortsQueues,
    meters: Meters,
    pub(crate) cages: Cages,
    slices: SliceGroups,
    pub(crate) signallers: Signallers,
    settings: Settings,
    filtering: Filtering,
    loading: Loading,
    hosts_work: HostsWork,
    slow_path_work: Work<slow_path::Made>,
    port_work: Work<Port>,
    substrate_work: Work<Substrate>,
    /// Whether captures have outdated objects.
    scene_is_old: bool,
}

impl Node {
    fn new(
        instance: Instance,
        lifetime: Lifetime,
        store: StoreThread,
        settings: Settings,
        control: Control,
    ) -> Result<Self, NodeError> {
        let (kept, events) = (Kept::open(&instance)?, Events::new());
        let filtering = Filtering::start(kept.clone(), control.clone(), events.clone())?;
        Ok(Self {
            drift: DriftThread::start(instance.clone(), control.clone())?,
            plans: PlanThread::start(control.clone())?,
            _logs: LogThread::start(instance.logs())?,
            cgroups: Cgroups::detect()?,
            cores: cores::cores(),
            placement: Placement::default(),
            captures: Captures::start(&instance)?,
            kept,
            instance,
            lifetime,
            since: crate::events::now(),
            substrate: None,
            lasting: None,
            ports: Vec::new(),
            routers: Vec::new(),
            switch: None,
            switch_begun: None,
            switch_group: None,
            revival: Revival::default(),
            stock: Vec::new(),
            orphans: Vec::new(),
            spares: Spares::start(control.clone())?,
            control,
            hosts: Vec::new(),
            hosts_made: Arc::default(),
            relays: Vec::new(),
            link_tunnels: LinkTunnels::default(),
            running: Vec::new(),
            hosts_failed: HashMap::new(),
            tunnels_looked: Instant::now(),
            watched: Instant::now(),
            events,
            store,
            engine: Engine::default(),
            more: false,
            clock: Instant::now(),
            documents: Arc::default(),
            checker: None,
            turns: Turns::default(),
            farewell: None,
            ending: false,
            slow_paths: SlowPaths::default(),
            queues: PortsQueues::default(),
            meters: Meters::default(),
            cages: Cages::default(),
            slices: SliceGroups::default(),
            signallers: Signallers::default(),
            settings,
            filtering,
            loading: Loading::default(),
            hosts_work: HostsWork::default(),
            slow_path_work: Work::default(),
            port_work: Work::default(),
            substrate_work: Work::default(),
            scene_is_old: false,
        })
    }

    /// Serves until a signal or a request ends it.
    fn serve(&mut self, inbox: &Inbox, signals: &SignalFd) -> Result<(), NodeError> {
        let mut told = false;
        loop {
            // The stored state runs again, as far as possible.
            if !told && self.engine.is_settled() {
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
            wait.extend(self.signallers.fds().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            if let Some(checker) = &self.checker {
                wait.push(PollFd::new(checker.fd(), PollFlags::POLLIN));
            }
            match poll(&mut wait, timeout) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error).doing("waiting"),
            }
            let mut turn = Turn::begin();
            // Asking a thousand routers without an answer would cost a system call each.
            let processes = self.routers.iter().flat_map(Router::processes);
            for (process, place) in processes.zip(places) {
                process.says.set(wait.get(place).and_then(PollFd::any) != Some(false));
            }
            let signalled = wait.first().and_then(PollFd::any) == Some(true);
            drop(wait);
            if signalled {
                return Ok(());
            }
            // Answers are read before ends: a router that refuses its configuration sends the
            // reason and ends.
            self.hear_routers();
            self.hear_successors();
            self.signallers.hear(&self.events);
            turn.did("answers");
            self.bury();
            self.revive();
            turn.did("ended processes");
            self.work();
            turn.did("the current change");
            self.follow();
            turn.did("queues and meters");
            self.follow_tunnels();
            self.watch();
            turn.did("the watch");
            for work in inbox.take() {
                work(self);
                turn.did("a request");
            }
            // Comes last, as it takes long.
            self.refill_stock();
            turn.did("pools");
            self.turns.note(&turn);
            if self.ending {
                return Ok(());
            }
        }
    }

    fn next_timeout(&self) -> PollTimeout {
        let now = Instant::now();
        let dues = self.routers.iter().filter_map(|router| router.due).chain(self.revival.due);
        let dues = dues.chain(self.signallers.next_due());
        let answers = self.routers.iter().flat_map(Router::processes);
        let answers = answers.filter_map(Process::next_due);
        let tunnels = self
            .routers
            .iter()
            .flat_map(|router| &router.plan.interfaces)
            .any(|interface| interface.tunnel.is_some())
            .then(|| self.tunnels_looked + TUNNELS_EVERY);
        let watch = (!self.engine.accepted().stored.is_empty()).then(|| self.watched + WATCH_EVERY);
        let job = self.engine.due().map(|due| self.clock + due);
        let job = if self.more { Some(now) } else { job };
        let checker = self.checker.as_ref().map(Checker::due);
        let all = dues.chain(answers).chain(tunnels).chain(watch).chain(job).chain(checker);
        match all.min() {
            None => PollTimeout::NONE,
            Some(due) => {
                let wait = due.saturating_duration_since(now);
                // Rounded up: otherwise the loop would spin until the time is reached.
                PollTimeout::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
            }
        }
    }

    /// Ends the loop; `reply` is called when everything is removed.
    pub(crate) fn end(&mut self, reply: Reply<Result<Said, ProblemDetails>>) {
        self.farewell = Some(reply);
        self.ending = true;
    }

    /// The control group of a router, below that of its slice.
    fn router_group(&self, name: &RouterId) -> Option<Group> {
        self.group(&slices::router_group(name))
    }

    /// The control group of a process; `None` if the machine has no working one.
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
        // A limited log of the former process may remain: the next process must start in time.
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
