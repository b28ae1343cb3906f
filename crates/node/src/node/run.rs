//! Runs a node from its start to its end.

use std::fs;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use europa_api::rest::{ProblemDetails, Said};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};

use super::Node;
use super::restore::Found;
use crate::context::{Context, Settings};
use crate::control::queue;
use crate::doors::Doors;
use crate::front::Behind;
use crate::logs::LogThread;
use crate::requests::Requests;
use crate::ssh::Prepared;
use crate::store::{RedbStore, Store as _, StoreThread};
use crate::{Doing, Instance, Lifetime, NodeError, cores, leftovers};

/// Runs the node until a request ends it. `front` starts the interface to users, and returns a
/// function that ends it.
///
/// # Errors
/// The error that prevented its start or ended it.
pub fn run<End: FnOnce()>(
    instance: Instance,
    lifetime: Lifetime,
    settings: Settings,
    front: impl FnOnce(Behind) -> Result<End, NodeError>,
) -> Result<(), NodeError> {
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
    // Documents, logs and files of slow paths are readable for users with access to the node.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).doing(what())?;
    let lock = File::create(instance.lock()).doing("opening the lock file")?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
        .map_err(|_| NodeError::Refused(format!("the node `{}` already runs", instance.name())))?;
    have_descriptors();
    let left = leftovers::exist(&instance);
    leftovers::remove_sockets(&instance);
    if lifetime == Lifetime::Lasting {
        // The state of a node that `up` had started.
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
    let kept = Found::load(&store)?;
    let tokens = store.tokens()?;
    let ssh = settings.ssh_at.map(|at| Prepared::new(&instance, lifetime, at)).transpose()?;
    let store = StoreThread::start(Box::new(store))?;
    let context = Context::new(instance, lifetime, settings, control.clone())?;
    let mut node = Node::new(context, store)?;
    let _logs = LogThread::start(node.context.instance.logs())?;
    let events = node.context.events.clone();
    let ssh = ssh.map(|ssh| ssh.start(control.clone(), events.clone())).transpose()?;
    let (doors, opened) = Doors::new();
    let end_front = front(Behind {
        requests: Requests::new(control),
        events,
        instance: node.context.instance.clone(),
        lifetime,
        tokens,
        doors: opened,
    })?;
    node.slow_paths.open_doors(doors);
    node.restore(kept, left)?;
    let result = node.serve(&inbox, &signals);
    // Sessions end before their routers.
    if let Some(ssh) = ssh {
        ssh.end();
    }
    let farewell = node.take_down();
    for line in farewell.as_deref().unwrap_or_default() {
        tracing::warn!("{line}");
    }
    if let Some(reply) = node.farewell.take() {
        // The caller may have ended.
        let _ = reply.send(match &farewell {
            Ok(said) => Ok(Said { lines: said.clone() }),
            Err(error) => Err(ProblemDetails::failed(error.to_string())),
        });
    }
    end_front();
    result?;
    farewell.map(drop)
}

/// Raises the limit of open files: a node has six for each router, and may have thousands of
/// routers.
pub(super) fn have_descriptors() {
    let enough = 65_536;
    let found = getrlimit(Resource::RLIMIT_NOFILE);
    let Ok((soft, hard)) = found else { return };
    if soft < enough && setrlimit(Resource::RLIMIT_NOFILE, enough, hard.max(enough)).is_err() {
        // Without CAP_SYS_RESOURCE the hard limit applies.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        if hard < FEW_DESCRIPTORS {
            tracing::warn!(
                "this node may open only {hard} files, which is enough for few routers: raise the \
                 limit, which `ulimit -n` shows, or LimitNOFILE= of the systemd unit"
            );
        }
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
    // Root only, for any umask.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(path, mode).doing(what())?;
    listen(&listener, Backlog::new(16).doing(what())?).doing(what())?;
    Ok(listener)
}

/// A limit of open files below this one is worth a warning.
pub(super) const FEW_DESCRIPTORS: u64 = 4096;
