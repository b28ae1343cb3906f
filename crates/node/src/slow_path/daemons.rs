//! Programs in slow paths: started after the programs that they need, and restarted when one of
//! these ends.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use europa_api::Restart;
use europa_sandbox::{Child, Exit, Identity, SpawnSpec, spawn_within};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::base::Base;
use super::board::{Board, Times};
use crate::backoff::Backoff;
use crate::{Doing, NodeError};

/// Time in which programs must end before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// Interval at which a program's keeper checks whether it must stop.
const LOOK: Duration = Duration::from_millis(200);
/// Interval of checks whether a program serves those that wait for it.
const LOOK_READY: Duration = Duration::from_millis(20);
/// A program without a file that shows its readiness counts as ready after this time.
const SETTLED: Duration = Duration::from_millis(300);
/// Time in which a program must make the file that others wait for.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// This many starts in this time are too many.
const OFTEN: (usize, Duration) = (3, Duration::from_secs(60));
/// A program that waits longer than this for another one counts as failed.
const WAITS_LONG: Duration = Duration::from_secs(3);
/// The file system keeps times with so little precision.
const CLOCK: Duration = Duration::from_millis(20);

/// The state of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Seen {
    /// The first of its processes, while it runs.
    pub(super) pid: Option<u32>,
    /// Number of restarts.
    restarts: u64,
    /// The result of its last end.
    last_end: Option<String>,
    /// The program that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    #[serde(skip)]
    waits_since: Option<Instant>,
    /// Times of its last unrequested ends.
    #[serde(skip)]
    ends: VecDeque<Instant>,
    /// It has failed and is not restarted.
    #[serde(skip)]
    failed: bool,
}

impl Seen {
    fn ended(&mut self, end: String, again: bool, well: bool, now: Instant) {
        self.pid = None;
        self.restarts += u64::from(again);
        self.last_end = Some(end);
        self.failed = !again && !well;
        if again {
            self.ends.push_back(now);
            if self.ends.len() > OFTEN.0 {
                self.ends.pop_front();
            }
        }
    }

    fn waits(&mut self, whom: Option<&str>, now: Instant) {
        if self.waits_for.as_deref() != whom {
            self.waits_for = whom.map(str::to_owned);
            self.waits_since = whom.map(|_| now);
        }
    }

    /// Why the router is not as desired.
    pub(super) fn trouble(&self, name: &str, now: Instant) -> Option<String> {
        let end = self.last_end.as_deref().unwrap_or("it has not been started");
        if self.failed {
            return Some(format!("{name} {end}"));
        }
        let long = self.waits_since.is_some_and(|since| now.duration_since(since) > WAITS_LONG);
        if let (Some(whom), true) = (&self.waits_for, long || self.last_end.is_some()) {
            return Some(format!("{name} waits for {whom}"));
        }
        let recent = self.ends.iter().filter(|end| now.duration_since(**end) < OFTEN.1).count();
        if recent >= OFTEN.0 {
            return Some(format!("{name} is started again and again: it {end}"));
        }
        // A program before its first start has not failed.
        let down = self.pid.is_none() && !self.ends.is_empty();
        down.then(|| format!("{name} {end}; it is started again"))
    }
}

/// The parts of a program that can change while it runs.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) restart: Restart,
    /// Programs that it needs.
    pub(super) needs: Vec<String>,
}

/// A program to be kept running.
#[derive(Clone)]
pub(super) struct Daemon {
    pub(super) router: String,
    pub(super) name: String,
    pub(super) command: Vec<String>,
    pub(super) capabilities: Vec<String>,
    /// Number of the network namespace that it runs in.
    pub(super) inside: u64,
    /// The file whose existence shows that it serves others, by its path on the machine.
    pub(super) ready_file: Option<PathBuf>,
    pub(super) policy: Arc<Mutex<Policy>>,
    pub(super) seen: Arc<Mutex<Seen>>,
}

/// A record of a program.
#[derive(Serialize, Deserialize)]
pub(super) struct DaemonRecord {
    /// Its definition, as text.
    pub(super) daemon: String,
    /// It has ended and is not restarted.
    pub(super) done: bool,
}

/// The thread that keeps a program running.
pub(super) struct Keeper {
    pub(super) daemon: Daemon,
    pub(super) base: Arc<Base>,
    pub(super) board: Arc<Board>,
    /// Ends this program alone.
    pub(super) stop: Arc<AtomicBool>,
    /// The former keeper of the same program, which ends first.
    pub(super) after: Option<JoinHandle<()>>,
}

/// Why a run is over.
enum End {
    Exit(Exit),
    /// A program that it needs has ended.
    WithNeeded(String),
    Stopped,
}

impl Daemon {
    /// Notes its state, or reads it.
    pub(super) fn seen<R>(&self, look: impl FnOnce(&mut Seen) -> R) -> R {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn record_name(&self) -> String {
        format!("daemon-{}.{}", self.router.replace('/', "."), self.name)
    }

    /// Its definition, to compare it with that of a program of another node.
    pub(super) fn text(&self) -> String {
        let Daemon { router, name, command, capabilities, inside, .. } = self;
        format!("{:?}", (router, name, command, capabilities, inside))
    }
}

impl Keeper {
    fn note(&self, process: Option<u32>) -> Result<(), NodeError> {
        let record = DaemonRecord { daemon: self.daemon.text(), done: process.is_none() };
        let process = process.and_then(Identity::of);
        self.base.kept.note(&self.daemon.record_name(), process, &record)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.base.stop.load(Ordering::Relaxed)
    }

    /// Runs the program until it must stop. The first process is `adopted`, if a former node left
    /// one.
    pub(super) fn keep(mut self, mut adopted: Option<Child>) {
        if let Some(before) = self.after.take() {
            // A keeper does not panic; if it did, it keeps nothing any more.
            let _ = before.join();
        }
        let name = self.daemon.name.clone();
        let mut backoff = Backoff::new();
        loop {
            let Some(needed) = self.await_needed() else {
                if let Some(child) = adopted
                    && let Err(error) = child.kill(Signal::SIGKILL)
                {
                    tracing::warn!("router {}: {name}: {error}", self.daemon.router);
                }
                break;
            };
            let started = Instant::now();
            let end = self.run(adopted.take(), &needed);
            let policy = self.daemon.policy();
            let well = matches!(end, Ok(End::Exit(Exit::Code(0))));
            let again = match policy.restart {
                Restart::Always => true,
                Restart::OnFailure => !well,
                Restart::Never => false,
            };
            let end = match end {
                Ok(End::Stopped) => break,
                Ok(End::WithNeeded(whom)) => {
                    self.board.down(&name);
                    self.daemon.seen(|seen| {
                        seen.pid = None;
                        seen.restarts += 1;
                    });
                    let message = format!("{name} is started again, as {whom} is");
                    self.base.events.note("router", &self.daemon.router, "ProgramEnded", message);
                    continue;
                }
                Ok(End::Exit(Exit::Code(0))) => "ended".to_owned(),
                // The meaning of exit codes for `europa daemon` and shells.
                Ok(End::Exit(Exit::Code(code))) if code > 128 => {
                    format!("was killed by signal {}", code - 128)
                }
                Ok(End::Exit(exit)) => exit.to_string(),
                Err(error) => format!("cannot run: {error}"),
            };
            if again {
                self.board.down(&name);
            } else {
                self.board.done(&name, well);
            }
            let due = backoff.failed(started.elapsed(), Instant::now());
            // A program that ends at once has no chance to do better at once.
            let due = due.max(started + Duration::from_millis(100));
            self.tell(&end, again.then_some(due), well);
            self.daemon.seen(|seen| seen.ended(end, again, well, Instant::now()));
            if !again {
                if let Err(error) = self.note(None) {
                    tracing::warn!("router {}: {name}: {error}", self.daemon.router);
                }
                return;
            }
            while Instant::now() < due && !self.is_stopped() {
                std::thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
            }
        }
        self.board.down(&name);
        self.daemon.seen(|seen| {
            seen.pid = None;
            seen.waits(None, Instant::now());
        });
        self.base.kept.forget(&self.daemon.record_name());
    }

    /// Reports an end; with `due` the program is started again then.
    fn tell(&self, end: &str, due: Option<Instant>, well: bool) {
        let daemon = &self.daemon;
        let mut message = format!("{} {end}", daemon.name);
        if let Some(due) = due {
            let wait = due.saturating_duration_since(Instant::now()).as_millis();
            message += &format!("; it is started again in {wait} ms");
        }
        let events = &self.base.events;
        if due.is_none() && well {
            events.note("router", &daemon.router, "ProgramEnded", message);
        } else {
            events.warn("router", &daemon.router, "ProgramEnded", message);
        }
    }

    /// Waits for the programs that it needs. Returns the number of their starts; `None` if it must
    /// stop.
    fn await_needed(&self) -> Option<Times> {
        loop {
            if self.is_stopped() {
                return None;
            }
            let needs = self.daemon.policy().needs;
            match self.board.times(&needs) {
                Ok(times) => {
                    self.daemon.seen(|seen| seen.waits(None, Instant::now()));
                    return Some(times);
                }
                Err(missing) => {
                    self.daemon.seen(|seen| seen.waits(Some(&missing), Instant::now()));
                    self.board.wait(LOOK);
                }
            }
        }
    }

    /// Runs it once.
    fn run(&self, adopted: Option<Child>, needed: &Times) -> Result<End, NodeError> {
        let (began, clock) = (Instant::now(), SystemTime::now());
        let mut is_up = adopted.is_some();
        let mut child = match adopted {
            Some(child) => child,
            None => self.spawn()?,
        };
        self.note(Some(child.pid()))?;
        // From here on the next node finds it.
        child.commit();
        self.daemon.seen(|seen| seen.pid = Some(child.pid()));
        if is_up {
            self.board.up(&self.daemon.name);
        }
        let mut told: Option<(Instant, End)> = None;
        loop {
            if let Some(exit) = child.try_wait()? {
                return Ok(told.map_or(End::Exit(exit), |(_, why)| why));
            }
            match &told {
                None => {
                    if let Some(why) = self.reason_to_stop(needed) {
                        self.board.down(&self.daemon.name);
                        child.kill(Signal::SIGTERM)?;
                        told = Some((Instant::now(), why));
                    } else if !is_up && self.serves(began, clock) {
                        is_up = true;
                        self.board.up(&self.daemon.name);
                    }
                }
                Some((at, _)) if at.elapsed() > GRACE => child.kill(Signal::SIGKILL)?,
                Some(_) => {}
            }
            let look = if is_up || told.is_some() { LOOK } else { LOOK_READY };
            let mut wait = [PollFd::new(child.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(look).unwrap_or(PollTimeout::ZERO);
            let _ = poll(&mut wait, timeout);
        }
    }

    fn reason_to_stop(&self, needed: &Times) -> Option<End> {
        if self.is_stopped() {
            return Some(End::Stopped);
        }
        let gone = self.board.first_changed(needed, &self.daemon.policy().needs);
        gone.map(End::WithNeeded)
    }

    /// Whether it serves programs that need it.
    fn serves(&self, began: Instant, clock: SystemTime) -> bool {
        // A program with an expected end serves after its end.
        if self.daemon.policy().restart != Restart::Always {
            return false;
        }
        let Some(file) = &self.daemon.ready_file else { return began.elapsed() > SETTLED };
        let made = std::fs::symlink_metadata(file).and_then(|found| found.modified());
        made.is_ok_and(|made| made + CLOCK >= clock) || began.elapsed() > READY_WITHIN
    }

    fn spawn(&self) -> Result<Child, NodeError> {
        let (daemon, base) = (&self.daemon, &self.base);
        let (group, numbers) = base.ready()?;
        let log = base.instance.log(&format!("{}.{}", daemon.router, daemon.name));
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.doing(format!("opening {}", log.display()))?;
        base.ids.give_to_root(&file).doing(format!("giving {} away", log.display()))?;
        let arguments = daemon_arguments(base, "waits", &daemon.capabilities, &daemon.command);
        Ok(spawn_within(
            numbers.as_fd(),
            &SpawnSpec {
                arguments: arguments.iter().map(|word| word.as_ref()).collect(),
                environment: Vec::new(),
                descriptors: Vec::new(),
                log: file.as_fd(),
                group: group.as_ref(),
                pid_namespace: false,
            },
        )?)
    }
}

/// The arguments of `europa daemon`.
pub(super) fn daemon_arguments<'a>(
    base: &'a Base,
    part: &'a str,
    capabilities: &'a [String],
    command: &'a [String],
) -> Vec<&'a str> {
    let instance = base.instance.name();
    let mut arguments = vec!["europa", "--instance", instance, "daemon", &base.router];
    arguments.extend(["--part", part]);
    arguments.extend(capabilities.iter().flat_map(|one| ["--keep", one.as_str()]));
    arguments.push("--");
    arguments.extend(command.iter().map(String::as_str));
    arguments
}

#[cfg(test)]
mod tests;
