//! The node's process: one loop over children, requests and timers.
//!
//! | file        | concern                                                    |
//! |-------------|------------------------------------------------------------|
//! | `answer`    | requests of clients, and the answers                       |
//! | `bring_up`  | from documents to ports and routers that run               |
//! | `processes` | the switch and the routers: started, told what to do       |
//! | `pools`     | packet pools, made ahead of need                           |
//! | `revive`    | processes that have ended: noted, and started again        |
//! | `tunnels`   | tunnels' outer headers follow their next hops              |
//! | `show`      | what is told of everything                                 |
//! | `take_down` | the end of everything                                      |

mod answer;
mod bring_up;
mod pools;
mod processes;
mod revive;
mod show;
mod take_down;
mod tunnels;

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use europa_channel::Channel;
use europa_sandbox::LOG_BYTES;
use europa_sandbox::cgroup::{Cgroups, Group};
use europa_substrate::{PoolHandle, Substrate};
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};

use self::answer::Last;
use self::tunnels::TUNNELS_EVERY;
use crate::capture::Captures;
use crate::ports::Port;
use crate::relays::Relay;
use crate::request::{Request, Response};
use crate::router::Router;
use crate::stats::HostStats;
use crate::switch::{Lasting, Revival, Switch};
use crate::{Doing, Instance, NodeError, cores, leftovers};

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
    let listener = listen_at(&instance.socket())?;
    let mut node = Node::new(instance)?;
    let result = node.serve(&listener, &signals);
    let farewell = node.take_down();
    for line in farewell.as_deref().unwrap_or_default() {
        tracing::warn!("{line}");
    }
    if let Ok(Some(Last { mut client, failed })) = result {
        let answer = match (&farewell, failed) {
            (Ok(said), None) => Response::Done(said.clone()),
            (Ok(_), Some(why)) => Response::Failed(why),
            (Err(error), None) => Response::Failed(error.to_string()),
            (Err(error), Some(why)) => {
                Response::Failed(format!("{why}\nand cleaning up failed: {error}"))
            }
        };
        // Whoever asked may be gone.
        let _ = client.send(&answer, &[]);
        let _ = client.try_receive();
    } else {
        result?;
    }
    farewell.map(|_| ())
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
    hosts: Vec<HostStats>,
    relays: Vec<Relay>,
    /// Shells that run hosts' commands.
    running: Vec<std::process::Child>,
    tunnels_looked: Instant,
    captures: Captures,
}

impl Node {
    fn new(instance: Instance) -> Result<Self, NodeError> {
        Ok(Self {
            cgroups: Cgroups::detect()?,
            cores: cores::cores(),
            captures: Captures::start(&instance)?,
            instance,
            substrate: None,
            lasting: None,
            ports: Vec::new(),
            routers: Vec::new(),
            switch: None,
            switch_group: None,
            revival: Revival::default(),
            stock: Vec::new(),
            hosts: Vec::new(),
            relays: Vec::new(),
            running: Vec::new(),
            tunnels_looked: Instant::now(),
        })
    }

    /// Serves until a signal or `down`; then whoever asked for it.
    fn serve(&mut self, listener: &OwnedFd, signals: &SignalFd) -> Result<Option<Last>, NodeError> {
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
                && let Some(last) = self.answer(listener)
            {
                return Ok(Some(last));
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
