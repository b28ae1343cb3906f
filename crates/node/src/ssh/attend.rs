//! `europa ssh-attend`: starts and ends all processes of a session. It is root of the machine, in the
//! pid namespace of the router, where no process of the router can signal it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use europa_channel::Channel;
use europa_sandbox::{end_descendants, inherited, keep_orphans};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::wire::{Begin, Order, Outcome, SessionRequest, What};
use crate::Instance;

/// Time in which processes of a session should end after a request.
const GRACE: Duration = Duration::from_millis(200);
/// Time limit for their end after a kill.
const PATIENCE: Duration = Duration::from_secs(3);

/// A child, and the signals that report it.
pub(super) struct Ward {
    child: Pid,
    signals: SignalFd,
}

/// An event that a [`Ward`] waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// The child has ended with this code.
    Ended(u8),
    /// One of the descriptors can be read.
    Readable,
}

impl Ward {
    /// Starts a command. The calling process has one thread.
    pub(super) fn start(command: &mut Command) -> io::Result<Ward> {
        let child = Pid::from_raw(command.spawn()?.id().cast_signed());
        let mut wanted = SigSet::empty();
        wanted.add(Signal::SIGCHLD);
        // Blocked only now: the command must not inherit it. An earlier end is found by `wait`.
        wanted.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Ward { child, signals: SignalFd::with_flags(&wanted, flags)? })
    }

    /// Waits for the end of the child or for one of `others`, and reaps orphans.
    pub(super) fn wait(&self, others: &[BorrowedFd<'_>]) -> io::Result<Happened> {
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.child => {
                    return Ok(Happened::Ended(code as u8));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.child => {
                    return Ok(Happened::Ended(128 + signal as u8));
                }
                Ok(WaitStatus::StillAlive) => {}
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut wait = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            wait.extend(others.iter().map(|one| PollFd::new(*one, PollFlags::POLLIN)));
            match poll(&mut wait, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            if wait.iter().skip(1).any(|one| one.any() == Some(true)) {
                return Ok(Happened::Readable);
            }
            while self.signals.read_signal()?.is_some() {}
        }
    }
}

/// Attends to a session whose descriptors this process has from the node.
///
/// # Errors
/// The kernel's error.
pub fn attend(instance: &Instance) -> Result<(), String> {
    let [peer, node, input, output, errors] = inherited().map_err(|error| error.to_string())?;
    let peer: Channel<Outcome, SessionRequest> = Channel::new(peer);
    let mut node: Channel<Outcome, Order> = Channel::new(node);
    let Ok((Order::Begin(begin), _)) = node.receive() else { return Ok(()) };
    let told = errors.try_clone().map_err(|error| error.to_string())?;
    let command = entering(instance, &begin, [input, output, errors]);
    let outcome = run(command, &peer, &mut node)
        .unwrap_or_else(|error| Outcome::Refused(format!("entering {}: {error}", begin.router)));
    if let Outcome::Refused(why) = &outcome
        && begin.terminal
    {
        say(told, why);
    }
    if !end_descendants(GRACE, PATIENCE) {
        eprintln!("processes of a session in {} do not end", begin.router);
    }
    // The peer may have closed.
    let _ = peer.send(&outcome, &[]);
    let _ = node.send(&outcome, &[]);
    Ok(())
}

/// Runs the command until it, the client or the node ends.
fn run(
    mut command: Command,
    peer: &Channel<Outcome, SessionRequest>,
    node: &mut Channel<Outcome, Order>,
) -> io::Result<Outcome> {
    keep_orphans()?;
    let ward = Ward::start(&mut command)?;
    // Only the child keeps these descriptors.
    drop(command);
    Ok(match ward.wait(&[peer.as_fd(), node.as_fd()])? {
        Happened::Ended(code) => Outcome::Ended(code),
        Happened::Readable => Outcome::Refused(match node.try_receive() {
            Ok(Some((Order::End(why), _))) => why,
            Ok(None) => "the client has gone".to_owned(),
            _ => "the node has gone".to_owned(),
        }),
    })
}

/// The child that enters the router.
fn entering(instance: &Instance, begin: &Begin, standard: [OwnedFd; 3]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("europa").args(["--instance", instance.name(), "ssh-enter", &begin.router]);
    command.args(begin.terminal.then_some("--terminal"));
    command.args(begin.term.iter().map(|term| format!("--term={term}")));
    match &begin.what {
        What::Shell => {}
        What::Command(line) => {
            command.args(["--", line]);
        }
        What::Sshd(keys) => {
            command.args(["--sshd", "--"]).args(keys);
        }
    }
    let [input, output, errors] = standard;
    command.env_clear().current_dir("/").stdin(input).stdout(output).stderr(errors);
    command
}

/// Writes a reason to the user's terminal, which hangs up with its first process. Does not wait for
/// a terminal that takes nothing.
fn say(terminal: OwnedFd, why: &str) {
    if fcntl(&terminal, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok() {
        let _ = File::from(terminal).write_all(format!("\r\neuropa: {why}\r\n").as_bytes());
    }
}
