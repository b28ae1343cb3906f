//! The common base of all programs of a slow path: their control group, and the process that holds
//! their pid namespace.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use europa_sandbox::cgroup::{Cgroups, CpuQuota, Group, Limits};
use europa_sandbox::{Child, Identity, SpawnSpec, spawn};
use europa_slowpath::environment::{folder, group};
use europa_slowpath::init::First;
use europa_slowpath::users::Ids;
use nix::sys::signal::Signal;

use crate::events::Events;
use crate::kept::Kept;
use crate::{Doing, Instance, NodeError};

/// Most memory of a router's programs together, the kernel's routes included: an Internet
/// table in FRR and in the kernel has room.
const MEMORY_BYTES: u64 = 2 << 30;
/// Most processes and threads of a router's programs together.
const TASKS: u64 = 512;
/// Their weight beside fast paths, which have 100 each.
const CPU_WEIGHT: u64 = 50;
/// Their limit of one CPU's time: against other programs of the machine, all of Europa has the
/// weight of ten, and a fork bomb would use most of it.
const CPU: CpuQuota =
    CpuQuota { quota: Some(Duration::from_millis(50)), period: Duration::from_millis(50) };

/// The shared state of a slow path's keepers. The first of them that needs it does the long work,
/// never the node's loop.
pub(crate) struct Base {
    pub(super) instance: Instance,
    pub(super) kept: Kept,
    pub(super) events: Events,
    pub(super) router: String,
    pub(super) ids: Ids,
    /// Ends all programs.
    pub(super) stop: Arc<AtomicBool>,
    cgroups: Cgroups,
    made: Mutex<Made>,
    /// Held while programs reload their files.
    reloading: Mutex<()>,
}

#[derive(Default)]
struct Made {
    /// The thread that removes a former slow path of this name: its group is that of this one.
    after: Option<JoinHandle<()>>,
    group: Option<Group>,
    first: Option<Child>,
}

impl Base {
    pub(super) fn new(
        instance: &Instance,
        kept: &Kept,
        (cgroups, events): (&Cgroups, &Events),
        (router, ids): (&str, Ids),
        stop: &Arc<AtomicBool>,
        (after, first): (Option<JoinHandle<()>>, Option<Child>),
    ) -> Base {
        Base {
            instance: instance.clone(),
            kept: kept.clone(),
            events: events.clone(),
            router: router.to_owned(),
            ids,
            stop: Arc::clone(stop),
            cgroups: cgroups.clone(),
            made: Mutex::new(Made { after, group: None, first }),
            reloading: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no programs of the slow path reload, and prevents further reloads.
    pub(super) fn reloading(&self) -> MutexGuard<'_, ()> {
        self.reloading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of the first process of a router.
    pub(super) fn record_name(router: &str) -> String {
        format!("init-{}", router.replace('/', "."))
    }

    /// The control group with its limits, once the former one is removed. `None` without control
    /// groups.
    pub(super) fn group(&self) -> Result<Option<Group>, NodeError> {
        self.group_in(&mut self.lock())
    }

    fn group_in(&self, made: &mut Made) -> Result<Option<Group>, NodeError> {
        if let Some(before) = made.after.take() {
            let _ = before.join();
        }
        if made.group.is_none() {
            let group = self.cgroups.group(self.instance.name(), &group(&self.router));
            made.group = group.ok();
            let limits = Limits {
                memory_bytes: Some(MEMORY_BYTES),
                tasks: Some(TASKS),
                cpu_weight: Some(CPU_WEIGHT),
                cpu_quota: Some(CPU),
                ..Limits::default()
            };
            made.group.as_ref().map_or(Ok(()), |group| group.set(&limits))?;
        }
        Ok(made.group.clone())
    }

    /// The control group and pid namespace in which a program starts.
    pub(crate) fn ready(&self) -> Result<(Option<Group>, OwnedFd), NodeError> {
        let mut made = self.lock();
        let group = self.group_in(&mut made)?;
        if let Some(child) = &mut made.first
            && child.try_wait()?.is_some()
        {
            made.first = None;
        }
        let first = match made.first.take() {
            Some(child) => child,
            None => self.start_first(group.as_ref())?,
        };
        let pid = first.pid();
        made.first = Some(first);
        let numbers = File::open(format!("/proc/{pid}/ns/pid"));
        Ok((
            group,
            numbers.doing(format!("opening the process numbers of {}", self.router))?.into(),
        ))
    }

    fn start_first(&self, group: Option<&Group>) -> Result<Child, NodeError> {
        let log = self.instance.log("node");
        let log = OpenOptions::new().create(true).append(true).open(log).doing("opening a log")?;
        let arguments = ["europa", "--instance", self.instance.name(), "init", &self.router];
        let mut child = spawn(&SpawnSpec {
            arguments: arguments.map(|word| word.as_ref()).to_vec(),
            environment: Vec::new(),
            descriptors: Vec::new(),
            log: log.as_fd(),
            group,
            pid_namespace: true,
        })?;
        self.note_first(child.pid())?;
        // From here on the next node finds it.
        child.commit();
        Ok(child)
    }

    /// For the next node, and for `europa exec`.
    fn note_first(&self, pid: u32) -> Result<(), NodeError> {
        let identity = Identity::of(pid);
        self.kept.note(&Self::record_name(&self.router), identity, &self.router)?;
        let Some(Identity { pid, started }) = identity else { return Ok(()) };
        First { pid, started }
            .note(&folder(&self.instance.directory(), &self.router))
            .doing("noting the first process of a slow path")
    }

    /// Its pid namespace ends with its last process; then its control group can be removed.
    pub(super) fn end(&self) {
        let mut made = self.lock();
        if let Some(before) = made.after.take() {
            let _ = before.join();
        }
        if let Some(mut first) = made.first.take() {
            let ended = first.kill(Signal::SIGKILL).and_then(|()| first.wait());
            if let Err(error) = ended {
                tracing::warn!("router {}: its programs: {error}", self.router);
            }
        }
        self.kept.forget(&Self::record_name(&self.router));
        let group = self.cgroups.group(self.instance.name(), &group(&self.router));
        if let Ok(group) = group
            && let Err(error) = group.remove()
        {
            tracing::warn!("router {}: the group of its programs: {error}", self.router);
        }
    }
}
