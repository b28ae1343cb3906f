//! Reloads programs one after the other, in a separate thread.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_api::Reload;
use europa_sandbox::{Child, Exit, Identity, SpawnSpec, spawn_within};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::base::Base;
use super::daemons::{Daemon, daemon_arguments};
use super::handlers::await_handler;
use crate::{Doing, NodeError};

/// Time limit of a command.
const PATIENCE: Duration = Duration::from_secs(30);
/// A program that a signal ends does so within this time.
const SETTLED: Duration = Duration::from_millis(300);
/// Number of bytes of a command's last output that are shown.
const TOLD_BYTES: usize = 4096;

/// The programs of a router that must reload their files.
pub(crate) struct Reloads {
    pub(super) base: Arc<Base>,
    pub(super) all: Vec<(Daemon, Reload)>,
}

/// The outcome of [`Reloads::run`].
pub(crate) struct Reloaded {
    /// Programs that have read their files again.
    pub(super) done: Vec<String>,
    /// The program that failed, and those that were not tried after it, each with its way of
    /// reloading.
    pub(super) left: Vec<(String, Reload)>,
    /// Why it could not.
    pub(super) why: Option<String>,
}

impl Reloads {
    /// The router.
    pub(crate) fn router(&self) -> &str {
        &self.base.router
    }

    /// Reloads one after the other, up to the first that fails.
    pub(crate) fn run(&self) -> Reloaded {
        // A former change may still reload programs.
        let _alone = self.base.reloading();
        let mut outcome = Reloaded { done: Vec::new(), left: Vec::new(), why: None };
        for (daemon, reload) in &self.all {
            if outcome.why.is_none() {
                let done = match reload {
                    Reload::Signal(name) => by_signal(daemon, name),
                    Reload::Command(words) => by_command(&self.base, daemon, words),
                };
                match done {
                    Ok(()) => {
                        outcome.done.push(daemon.name.clone());
                        continue;
                    }
                    Err(error) => {
                        outcome.why =
                            Some(format!("{} could not be reloaded: {error}", daemon.name));
                    }
                }
            }
            outcome.left.push((daemon.name.clone(), reload.clone()));
        }
        outcome
    }
}

fn refused(why: impl Into<String>) -> NodeError {
    NodeError::Refused(why.into())
}

/// The process that waits for a program, while it runs.
fn process(daemon: &Daemon) -> Result<Child, NodeError> {
    let identity = daemon.seen(|seen| seen.pid).and_then(Identity::of);
    let child = identity.map(Child::adopt).transpose()?.flatten();
    child.ok_or_else(|| refused("it does not run"))
}

fn by_signal(daemon: &Daemon, name: &str) -> Result<(), NodeError> {
    let signal: Signal =
        format!("SIG{name}").parse().map_err(|_| refused(format!("{name} is no signal")))?;
    let mut child = process(daemon)?;
    if !await_handler(child.pid(), signal) {
        return Err(refused(format!(
            "it would end by the signal {name}, which it does not handle"
        )));
    }
    child.kill(signal)?;
    let mut wait = [PollFd::new(child.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(SETTLED).unwrap_or(PollTimeout::ZERO);
    let _ = poll(&mut wait, timeout);
    match child.try_wait()? {
        Some(_) => Err(refused(format!("it ended when it got the signal {name}"))),
        None => Ok(()),
    }
}

fn by_command(base: &Base, daemon: &Daemon, words: &[String]) -> Result<(), NodeError> {
    let waits = process(daemon)?;
    // Uses its pid namespace, so that process numbers in its files are valid.
    let path = format!("/proc/{}/ns/pid_for_children", waits.pid());
    let numbers: OwnedFd = File::open(&path).doing(format!("opening {path}"))?.into();
    let (group, _) = base.ready()?;
    let (mut printed, writer) = std::io::pipe().doing("making a pipe")?;
    fcntl(&printed, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).doing("making a pipe")?;
    let arguments = daemon_arguments(base, "beside", &daemon.capabilities, words);
    let mut child = spawn_within(
        numbers.as_fd(),
        &SpawnSpec {
            arguments: arguments.iter().map(|word| word.as_ref()).collect(),
            environment: Vec::new(),
            descriptors: Vec::new(),
            log: writer.as_fd(),
            group: group.as_ref(),
            pid_namespace: false,
        },
    )?;
    drop(writer);
    let (exit, said) = await_end(&mut child, &mut printed)?;
    let log = base.instance.log(&format!("{}.{}", daemon.router, daemon.name));
    // The output is added to the program's log too; without the log it is still shown.
    let _ = OpenOptions::new().append(true).open(log).and_then(|mut log| log.write_all(&said));
    let text = String::from_utf8_lossy(&said).trim().to_owned();
    match exit {
        Some(Exit::Code(0)) => Ok(()),
        Some(exit) => Err(refused(format!("{} {exit}: {text}", words.join(" ")))),
        None => {
            let most = PATIENCE.as_secs();
            Err(refused(format!("{} did not end within {most} s: {text}", words.join(" "))))
        }
    }
}

/// Waits for the end of a command: how it ended, if in time, and its last output.
fn await_end(
    child: &mut Child,
    printed: &mut PipeReader,
) -> Result<(Option<Exit>, Vec<u8>), NodeError> {
    let (until, mut said) = (Instant::now() + PATIENCE, Vec::new());
    let mut bytes = [0; TOLD_BYTES];
    let mut hear = |said: &mut Vec<u8>| {
        while let Ok(length @ 1..) = printed.read(&mut bytes) {
            said.extend_from_slice(bytes.get(..length).unwrap_or_default());
            said.drain(..said.len().saturating_sub(TOLD_BYTES));
        }
    };
    loop {
        hear(&mut said);
        if let Some(exit) = child.try_wait()? {
            hear(&mut said);
            return Ok((Some(exit), said));
        }
        if Instant::now() >= until {
            child.kill(Signal::SIGKILL)?;
            child.wait()?;
            return Ok((None, said));
        }
        // A pipe that is full stops the command: it is read often enough.
        let mut wait = [PollFd::new(child.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut wait, PollTimeout::from(20u8));
    }
}
