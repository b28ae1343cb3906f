//! Programs in slow paths: started, and again when they end.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use europa_api::Restart;
use europa_sandbox::cgroup::{Cgroups, CpuQuota, Group, Limits};
use europa_sandbox::{Child, Exit, Identity, SpawnSpec, spawn};
use europa_slowpath::environment::group;
use europa_slowpath::users;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::events::Events;
use crate::kept::Kept;
use crate::{Doing, Instance, NodeError};

/// How long programs have to end before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// Most memory of a router's programs together, the kernel's routes included: an Internet
/// table in FRR and in the kernel has room.
const MEMORY_BYTES: u64 = 2 << 30;
/// Most processes and threads of a router's programs together.
const TASKS: u64 = 512;
/// Their weight beside fast paths, which have 100 each.
const CPU_WEIGHT: u64 = 50;
/// They have one CPU's time at most: beside programs that are not Europa's, all of Europa counts
/// as much as ten, and a fork bomb had most of it.
const CPU: CpuQuota =
    CpuQuota { quota: Some(Duration::from_millis(50)), period: Duration::from_millis(50) };
/// How often a program's keeper looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);

/// What became of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Seen {
    /// The first of its processes, while it runs.
    pid: Option<u32>,
    /// Times that it was started again.
    restarts: u64,
    /// How it ended the last time.
    last_end: Option<String>,
}

/// A program to be kept running.
#[derive(Clone)]
pub(super) struct Daemon {
    pub(super) router: String,
    pub(super) name: String,
    pub(super) command: Vec<String>,
    pub(super) restart: Restart,
    pub(super) capabilities: Vec<String>,
    pub(super) seen: Arc<Mutex<Seen>>,
}

/// A record of a program.
#[derive(Serialize, Deserialize)]
pub(super) struct DaemonRecord {
    /// What it is, as text.
    pub(super) daemon: String,
    /// It has ended and is not to be started again.
    pub(super) done: bool,
}

/// What keeps a program running.
pub(super) struct Keeper {
    pub(super) daemon: Daemon,
    pub(super) instance: Instance,
    pub(super) kept: Kept,
    pub(super) group: Option<Group>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) events: Events,
}

/// The group of a router's programs, with their limits. Without groups there are none.
pub(super) fn group_of(
    cgroups: &Cgroups,
    instance: &Instance,
    router: &str,
) -> Result<Option<Group>, NodeError> {
    let Ok(group) = cgroups.group(instance.name(), &group(router)) else { return Ok(None) };
    let limits = Limits {
        memory_bytes: Some(MEMORY_BYTES),
        tasks: Some(TASKS),
        cpu_weight: Some(CPU_WEIGHT),
        cpu_quota: Some(CPU),
        ..Limits::default()
    };
    group.set(&limits)?;
    Ok(Some(group))
}

impl Daemon {
    /// Looks at, or changes, what is known of it.
    pub(super) fn seen<R>(&self, look: impl FnOnce(&mut Seen) -> R) -> R {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn record_name(&self) -> String {
        format!("daemon-{}.{}", self.router.replace('/', "."), self.name)
    }

    /// What it is, to tell whether another node has started the same.
    pub(super) fn text(&self) -> String {
        let Daemon { router, name, command, restart, capabilities, .. } = self;
        format!("{:?}", (router, name, command, restart, capabilities))
    }
}

impl Keeper {
    fn note(&self, process: Option<u32>) -> Result<(), NodeError> {
        let record = DaemonRecord { daemon: self.daemon.text(), done: process.is_none() };
        self.kept.note(&self.daemon.record_name(), process.and_then(Identity::of), &record)
    }

    /// Runs the program until told to stop; at first that of another node, if there is one.
    pub(super) fn keep(&self, mut adopted: Option<Child>) {
        let daemon = &self.daemon;
        let mut backoff = Backoff::new();
        loop {
            let started = Instant::now();
            let end = match self.run(adopted.take()) {
                Ok(None) => {
                    self.kept.forget(&daemon.record_name());
                    return;
                }
                Ok(Some(exit)) => Ok(exit),
                Err(error) => Err(error),
            };
            let well = matches!(end, Ok(Exit::Code(0)));
            let again = match daemon.restart {
                Restart::Always => true,
                Restart::OnFailure => !well,
                Restart::Never => false,
            };
            let due = backoff.failed(started.elapsed(), Instant::now());
            // A program that ends at once has no chance to do better at once.
            let due = due.max(started + Duration::from_millis(100));
            let end = match end {
                Ok(Exit::Code(0)) => "ended".to_owned(),
                // What `europa daemon` and shells make of it.
                Ok(Exit::Code(code)) if code > 128 => {
                    format!("was killed by signal {}", code - 128)
                }
                Ok(exit) => exit.to_string(),
                Err(error) => format!("cannot run: {error}"),
            };
            let mut message = format!("{} {end}", daemon.name);
            if again {
                let wait = due.saturating_duration_since(Instant::now()).as_millis();
                message += &format!("; it is started again in {wait} ms");
                self.events.warn("router", &daemon.router, "ProgramEnded", message);
            } else {
                self.events.note("router", &daemon.router, "ProgramEnded", message);
            }
            daemon.seen(|seen| {
                seen.pid = None;
                seen.restarts += u64::from(again);
                seen.last_end = Some(end);
            });
            if !again {
                if let Err(error) = self.note(None) {
                    tracing::warn!("router {}: {}: {error}", daemon.router, daemon.name);
                }
                return;
            }
            while Instant::now() < due {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Runs it once: how it ended, or `None` if it was stopped.
    fn run(&self, adopted: Option<Child>) -> Result<Option<Exit>, NodeError> {
        let mut child = match adopted {
            Some(child) => child,
            None => self.spawn()?,
        };
        self.note(Some(child.pid()))?;
        self.daemon.seen(|seen| seen.pid = Some(child.pid()));
        let mut told: Option<Instant> = None;
        loop {
            if let Some(exit) = child.try_wait()? {
                return Ok(told.is_none().then_some(exit));
            }
            match told {
                None if self.stop.load(Ordering::Relaxed) => {
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

    fn spawn(&self) -> Result<Child, NodeError> {
        let daemon = &self.daemon;
        let log = self.instance.log(&format!("{}.{}", daemon.router, daemon.name));
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.doing(format!("opening {}", log.display()))?;
        users::give_to_root(&file).doing(format!("giving {} away", log.display()))?;
        let mut arguments: Vec<&str> =
            vec!["europa", "--instance", self.instance.name(), "daemon", &daemon.router];
        for capability in &daemon.capabilities {
            arguments.extend(["--keep", capability]);
        }
        arguments.push("--");
        arguments.extend(daemon.command.iter().map(String::as_str));
        Ok(spawn(&SpawnSpec {
            arguments: arguments.iter().map(|word| word.as_ref()).collect(),
            environment: Vec::new(),
            descriptors: Vec::new(),
            log: file.as_fd(),
            group: self.group.as_ref(),
            pid_namespace: true,
        })?)
    }
}
