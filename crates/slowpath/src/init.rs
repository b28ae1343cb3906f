//! Process numbers of a slow path: one pid namespace for all programs and shells of its router, and
//! inside it one for each program, which ends with the program.
//!
//! | process                | where                   | task                                      |
//! |------------------------|-------------------------|-------------------------------------------|
//! | [`first`]              | number 1 of the router  | holds the namespace, reaps orphans        |
//! | [`accompany`]          | in the router's         | starts a program's number 1, waits for it |
//! | [`run`]                | number 1 of a program   | starts it, reaps orphans, writes its log  |
//!
//! A program's namespace ends with its number 1: the kernel kills the remaining processes.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read, pipe, stderr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use caps::CapSet;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_no_new_privs;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use serde::{Deserialize, Serialize};

use crate::output::{Output, PAUSE};

/// Bytes of output that are passed on at once.
const AT_ONCE: usize = 1 << 16;
/// Signals that the waiting process passes to programs.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];
/// Time limit for other processes of its namespace when the machine shuts down.
const GRACE: Duration = Duration::from_secs(2);
/// `si_code` of signals that the kernel sends, such as those of a terminal's keys.
const FROM_KERNEL: i32 = 0x80;
/// The file in a slow path's folder that identifies its number 1.
const FILE: &str = "init.json";

/// The identity of a router's number 1. The number alone may belong to another process by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct First {
    /// Its number as the host sees it.
    pub pid: u32,
    /// The time at which the process was started, in clock ticks since the start of the machine.
    pub started: u64,
}

impl First {
    /// Notes it in the slow path's folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(self, folder: &Path) -> io::Result<()> {
        let new = folder.join("init.json.new");
        fs::write(&new, serde_json::to_vec(&self)?)?;
        fs::rename(&new, folder.join(FILE))
    }

    /// Reads the notes of [`First::note`].
    ///
    /// # Errors
    /// There are none.
    pub fn read(folder: &Path) -> io::Result<First> {
        Ok(serde_json::from_slice(&fs::read(folder.join(FILE))?)?)
    }
}

/// The pid namespace of a slow path, if a first process holds it; `started` returns the start of a
/// process.
///
/// # Errors
/// It cannot be opened.
pub fn numbers(folder: &Path, started: impl Fn(u32) -> Option<u64>) -> io::Result<Option<OwnedFd>> {
    let Ok(text) = fs::read(folder.join(FILE)) else { return Ok(None) };
    let first: First = serde_json::from_slice(&text)?;
    let namespace = match File::open(format!("/proc/{}/ns/pid", first.pid)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    // Checked while the namespace is open: it belongs to the intended process.
    Ok((started(first.pid) == Some(first.started)).then(|| namespace.into()))
}

/// Lets the children of this process, which must have one thread, start in the pid namespace of a
/// slow path, or in a new one if there is none.
///
/// # Errors
/// The kernel's error.
pub fn choose_numbers(numbers: Option<OwnedFd>) -> io::Result<()> {
    match numbers {
        Some(namespace) => setns(namespace, CloneFlags::CLONE_NEWPID)?,
        None => unshare(CloneFlags::CLONE_NEWPID)?,
    }
    Ok(())
}

/// The first process of a router: holds its pid namespace until the node ends it, and reaps
/// orphans. It has no rights.
///
/// # Errors
/// The kernel's error.
pub fn first() -> io::Result<()> {
    let refused = |error: caps::errors::CapsError| io::Error::other(error.to_string());
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set).map_err(refused)?;
    }
    set_no_new_privs()?;
    std::env::set_current_dir("/")?;
    let signals = blocked(&[Signal::SIGCHLD, Signal::SIGTERM])?;
    let mut end: Option<Instant> = None;
    loop {
        while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
            waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG))
        {}
        let now = Instant::now();
        if end.is_some_and(|end| end <= now) {
            return Ok(());
        }
        let timeout = end.and_then(|end| PollTimeout::try_from(end - now).ok());
        let mut wait = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wait, timeout.unwrap_or(PollTimeout::NONE)) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = signals.read_signal()? {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                end.get_or_insert(Instant::now() + GRACE);
            }
        }
    }
}

/// Blocks signals, and makes a descriptor that receives them.
fn blocked(wanted: &[Signal]) -> io::Result<SignalFd> {
    let wanted: SigSet = wanted.iter().copied().collect();
    wanted.thread_block()?;
    Ok(SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Unblocks the signals that [`accompany`] has blocked in this process, its child.
///
/// # Errors
/// The kernel's error.
pub fn begin_anew() -> io::Result<()> {
    Ok(SigSet::all().thread_unblock()?)
}

/// Runs `command` to its end and passes signals on. When a terminal stops the command, this
/// process stops too. The command begins with signals blocked, see [`begin_anew`].
///
/// # Errors
/// It cannot be started.
pub fn accompany(mut command: Command) -> io::Result<ExitStatus> {
    // Blocked first: a signal between both calls would end this process, and the command would
    // continue without it.
    let signals = blocked(&[&[Signal::SIGCHLD][..], &PASSED_ON].concat())?;
    let child = Pid::from_raw(command.spawn()?.id() as i32);
    loop {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        match waitpid(Pid::from_raw(-1), Some(flags)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                return Ok(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                return Ok(ExitStatus::from_raw(signal as i32));
            }
            Ok(WaitStatus::Stopped(pid, _)) if pid == child => {
                kill(getpid(), Signal::SIGSTOP)?;
                kill(child, Signal::SIGCONT)?;
            }
            Ok(WaitStatus::StillAlive) => {
                let mut wait = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
                match poll(&mut wait, PollTimeout::NONE) {
                    Ok(_) | Err(nix::Error::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
                while let Some(signal) = signals.read_signal()? {
                    // A terminal's keys reach the command anyway.
                    let keys = signal.ssi_code == FROM_KERNEL;
                    match Signal::try_from(signal.ssi_signo as i32) {
                        Ok(Signal::SIGCHLD) | Err(_) => {}
                        // It may have ended already.
                        Ok(other) if !keys => drop(kill(child, other)),
                        Ok(_) => {}
                    }
                }
            }
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Runs `command` to its end. Its output goes to this process's standard error.
///
/// # Errors
/// It cannot be started.
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let (printed, writer) = pipe()?;
    fcntl(&printed, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn()?;
    let child = Pid::from_raw(child.id() as i32);
    // The writing ends are the program's alone.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // Blocked only now, because the program must not inherit it. Earlier signals are found below.
    let signals = blocked(&[&[Signal::SIGCHLD][..], &PASSED_ON].concat())?;
    let mut log = Log { printed: Some(printed), output: Output::new(stderr(), Instant::now()) };
    loop {
        if let Some(status) = reap(child)? {
            log.pass_on();
            log.output.tell_left_out();
            return Ok(status);
        }
        log.wait(&signals)?;
        while let Some(signal) = signals.read_signal()? {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGCHLD) | Err(_) => {}
                // It may have ended already.
                Ok(other) => drop(kill(child, other)),
            }
        }
        log.pass_on();
    }
}

/// Reaps ended processes: how the child has ended, if it has.
fn reap(child: Pid) -> io::Result<Option<ExitStatus>> {
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                return Ok(Some(ExitStatus::from_raw(code << 8)));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                return Ok(Some(ExitStatus::from_raw(signal as i32)));
            }
            Ok(WaitStatus::StillAlive) | Err(nix::Error::ECHILD) => return Ok(None),
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The output of a program.
struct Log {
    /// `None` once all writers have closed.
    printed: Option<PipeReader>,
    output: Output<io::Stderr>,
}

impl Log {
    /// Waits for a signal, or for output.
    fn wait(&mut self, signals: &SignalFd) -> io::Result<()> {
        let mut wait = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let rests = self.output.is_used_up(AT_ONCE, Instant::now());
        let mut timeout = PollTimeout::NONE;
        match &self.printed {
            Some(_) if rests => timeout = PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::NONE),
            Some(printed) => wait.push(PollFd::new(printed.as_fd(), PollFlags::POLLIN)),
            None => {}
        }
        match poll(&mut wait, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes on the present output, and not later output.
    fn pass_on(&mut self) {
        let mut bytes = vec![0; AT_ONCE];
        let Some(printed) = &mut self.printed else { return };
        match printed.read(&mut bytes) {
            Ok(0) => self.printed = None,
            Ok(length) => self.output.pass(&bytes[..length], Instant::now()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.printed = None,
        }
    }
}
