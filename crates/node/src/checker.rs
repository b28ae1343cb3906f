//! Configurations are tried in a sandbox before anything is changed for them.
//!
//! The text of a tenant is compiled where a tenant's router would run, and nowhere else.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use europa_channel::{Channel, pair};
use europa_control::Verdict;
use europa_router::orders::{Answer, Order, Start};
use europa_sandbox::cgroup::{Group, Limits};
use europa_sandbox::{Child, SpawnSpec, spawn};
use nix::sys::signal::Signal;

use crate::NodeError;

/// Most memory of the process that tries configurations: a router's limit.
const MEMORY_BYTES: u64 = 1 << 30;

/// How long one configuration may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A configuration to try, and stand-ins for its grants.
pub(crate) struct Trial {
    pub(crate) start: Start,
    pub(crate) grants: Vec<OwnedFd>,
}

/// A process that tries configurations, one after the other.
pub(crate) struct Checker {
    child: Child,
    orders: Channel<Order, Answer>,
    left: VecDeque<Trial>,
    warnings: Vec<String>,
    until: Instant,
    group: Option<Group>,
    /// Kills of its group before it started.
    kills_before: Option<u64>,
}

impl Checker {
    /// Starts a process under the uid of a router with this number, which no router has.
    pub(crate) fn start(
        plans: Vec<Trial>,
        number: u32,
        log: &File,
        group: Option<Group>,
    ) -> Result<Self, NodeError> {
        if let Some(group) = &group {
            group.set(&Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() })?;
        }
        let kills_before = group.as_ref().and_then(Group::memory_kills);
        let who = || "the process that checks configurations".to_owned();
        let failed = |error| NodeError::Channel { who: who(), error };
        let (orders, theirs) = pair().map_err(failed)?;
        let number = number.to_string();
        let child = spawn(&SpawnSpec {
            arguments: vec![
                "europa".as_ref(),
                "router".as_ref(),
                "--number".as_ref(),
                number.as_ref(),
                "--name".as_ref(),
                "check/configurations".as_ref(),
            ],
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log: log.as_fd(),
            group: group.as_ref(),
            pid_namespace: true,
        })?;
        let until = Instant::now() + PATIENCE;
        let (left, warnings) = (plans.into(), Vec::new());
        let mut checker = Self { child, orders, left, warnings, until, group, kills_before };
        checker.ask()?;
        Ok(checker)
    }

    fn ask(&mut self) -> Result<(), NodeError> {
        if let Some(next) = self.left.front() {
            self.until = Instant::now() + PATIENCE;
            let order = Order::Check(Box::new(next.start.clone()));
            let grants: Vec<BorrowedFd<'_>> = next.grants.iter().map(AsFd::as_fd).collect();
            self.orders.send(&order, &grants).map_err(|error| NodeError::Channel {
                who: "the process that checks configurations".into(),
                error,
            })?;
        }
        Ok(())
    }

    /// When to look at it next, though it says nothing.
    pub(crate) fn due(&self) -> Instant {
        self.until
    }

    /// The answer to wait for.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.orders.as_fd()
    }

    /// Reads its answer, if there is one, and asks the next question.
    pub(crate) fn go_on(&mut self) -> Verdict {
        loop {
            if self.left.is_empty() {
                return Verdict::Right(std::mem::take(&mut self.warnings));
            }
            match self.orders.try_receive() {
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
                Err(error) => {
                    let what = "the process that checks configurations ended";
                    return Verdict::Failed(format!(
                        "{what} ({error}): `europa logs node` says why"
                    ));
                }
            }
        }
    }

    /// The refusal of the configuration that it reads.
    fn wrong(&self, why: String) -> Verdict {
        let file = self.left.front().map_or("", |trial| trial.start.file.as_str());
        Verdict::Wrong(format!("{file}: reading this configuration {why}"))
    }

    fn used_up_its_memory(&self) -> bool {
        let kills = self.group.as_ref().and_then(Group::memory_kills);
        kills.zip(self.kills_before).is_some_and(|(now, before)| now > before)
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        if self.child.kill(Signal::SIGKILL).is_ok() {
            let _ = self.child.wait();
        }
    }
}
