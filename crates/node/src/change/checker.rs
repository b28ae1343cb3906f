//! Tests configurations in a sandbox before any change.
//!
//! The text of a tenant is only compiled in a sandbox like that of a tenant's router.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use europa_channel::{Channel, ChannelError, pair};
use europa_control::Verdict;
use europa_router::orders::{Answer, Order, Start};
use europa_sandbox::cgroup::{Group, Limits};
use europa_sandbox::{Child, SpawnSpec, spawn};
use nix::sys::signal::Signal;

use crate::NodeError;

/// Most memory of the process that tries configurations: a router's limit.
const MEMORY_BYTES: u64 = 1 << 30;

/// Time limit of one configuration.
const PATIENCE: Duration = Duration::from_secs(20);

/// A configuration to test, and substitutes for its grants.
pub(crate) struct Trial {
    /// `slice/router`.
    pub(crate) router: String,
    pub(crate) start: Start,
    /// The program with its elements, if the owner has written some.
    pub(crate) elements: Option<String>,
    pub(crate) grants: Vec<OwnedFd>,
}

/// Tests configurations, one after the other. One process tests successive configurations with the
/// same elements.
pub(crate) struct Checker {
    process: Checking,
    left: VecDeque<Trial>,
    warnings: Vec<String>,
    until: Instant,
    number: u32,
    log: File,
    group: Option<Group>,
    /// Kills of its group before it started.
    kills_before: Option<u64>,
}

/// A process that tries configurations.
struct Checking {
    child: Child,
    orders: Channel<Order, Answer>,
    elements: Option<String>,
}

impl Checking {
    /// Starts a process under the uid of a router number that no router has.
    fn start(
        number: u32,
        elements: Option<&str>,
        log: &File,
        group: Option<&Group>,
    ) -> Result<Self, NodeError> {
        let (orders, theirs) = pair().map_err(failed)?;
        let number = number.to_string();
        let name = "check/configurations";
        let mut arguments = vec!["europa", "router", "--number", &number, "--name", name];
        if let Some(elements) = elements {
            arguments.extend(["--elements", elements]);
        }
        let child = spawn(&SpawnSpec {
            arguments: arguments.into_iter().map(OsStr::new).collect(),
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log: log.as_fd(),
            group,
            pid_namespace: true,
        })?;
        Ok(Self { child, orders, elements: elements.map(str::to_owned) })
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        if self.child.kill(Signal::SIGKILL).is_ok() {
            let _ = self.child.wait();
        }
    }
}

/// A failure of the channel to the process.
fn failed(error: ChannelError) -> NodeError {
    NodeError::Channel { who: "the process that checks configurations".into(), error }
}

impl Checker {
    /// Begins to try `trials`, under the uid of a router with this number, which no router has.
    pub(crate) fn start(
        trials: Vec<Trial>,
        number: u32,
        log: File,
        group: Option<Group>,
    ) -> Result<Self, NodeError> {
        if let Some(group) = &group {
            group.set(&Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() })?;
        }
        let kills_before = group.as_ref().and_then(Group::memory_kills);
        let left = VecDeque::from(trials);
        let elements = left.front().and_then(|trial| trial.elements.as_deref());
        let process = Checking::start(number, elements, &log, group.as_ref())?;
        let (until, warnings) = (Instant::now() + PATIENCE, Vec::new());
        let mut checker = Self { process, left, warnings, until, number, log, group, kills_before };
        checker.ask()?;
        Ok(checker)
    }

    fn ask(&mut self) -> Result<(), NodeError> {
        let Some(next) = self.left.front() else { return Ok(()) };
        if next.elements != self.process.elements {
            let elements = next.elements.as_deref();
            self.process = Checking::start(self.number, elements, &self.log, self.group.as_ref())?;
        }
        self.until = Instant::now() + PATIENCE;
        let order = Order::Check(Box::new(next.start.clone()));
        let grants: Vec<BorrowedFd<'_>> = next.grants.iter().map(AsFd::as_fd).collect();
        self.process.orders.send(&order, &grants).map_err(failed)
    }

    /// The time of the next check if there is no answer.
    pub(crate) fn due(&self) -> Instant {
        self.until
    }

    /// The answer to wait for.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.process.orders.as_fd()
    }

    /// Reads its answer, if there is one, and sends the next configuration.
    pub(crate) fn go_on(&mut self) -> Verdict {
        loop {
            if self.left.is_empty() {
                return Verdict::Right(std::mem::take(&mut self.warnings));
            }
            match self.process.orders.try_receive() {
                Ok(Some((Answer::Done(warnings), _))) => {
                    let lines = warnings.lines().map(|line| line.replacen(": warning: ", ": ", 1));
                    self.warnings.extend(lines);
                    self.left.pop_front();
                    if let Err(error) = self.ask() {
                        return Verdict::Failed(error.to_string());
                    }
                }
                Ok(Some((Answer::Refused(why), _))) => return Verdict::Wrong(why),
                // Only a router inside the switch reports it.
                Ok(Some((Answer::Ended(why), _))) => return Verdict::Failed(why),
                Ok(Some((Answer::TooLong(bytes), _))) => {
                    return Verdict::Wrong(format!("its messages have {bytes} bytes"));
                }
                Ok(None) if self.until <= Instant::now() => {
                    let seconds = PATIENCE.as_secs();
                    return self.wrong(format!("takes longer than {seconds} s"));
                }
                Ok(None) => return Verdict::NotYet,
                Err(_) if self.used_up_its_memory() => {
                    let mebibytes = MEMORY_BYTES >> 20;
                    return self.wrong(format!(
                        "takes more than {mebibytes} MiB: use fewer elements, or smaller tables"
                    ));
                }
                Err(_) if let Some(elements) = &self.process.elements => {
                    return Verdict::Wrong(format!(
                        "elements: {elements} ended before it answered: its `main` is to call \
                         europa_driver::main"
                    ));
                }
                Err(error) => {
                    let what = "the process that checks configurations ended";
                    return Verdict::Failed(format!(
                        "{what} ({error}): `europa logs node` says why"
                    ));
                }
            }
        }
    }

    /// The refusal of the current configuration.
    fn wrong(&self, why: String) -> Verdict {
        let which = self.left.front().map(|trial| (&*trial.start.file, &*trial.router));
        let (file, router) = which.unwrap_or_default();
        Verdict::Wrong(format!("{file}: reading the configuration of router {router} {why}"))
    }

    fn used_up_its_memory(&self) -> bool {
        let kills = self.group.as_ref().and_then(Group::memory_kills);
        kills.zip(self.kills_before).is_some_and(|(now, before)| now > before)
    }
}
