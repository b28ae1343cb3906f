//! The first process of a program's process numbers: starts it, takes care of orphans, hands
//! signals on, writes what it prints into its log, and ends with it. Everything that is left then is
//! killed by the kernel.

use std::io::{self, PipeReader, Read, pipe, stderr};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::output::{Output, PAUSE};

/// Bytes of what is printed that are passed on at once.
const AT_ONCE: usize = 1 << 16;

/// Runs `command` to its end. What it prints goes to this process's standard error.
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
    // Blocked only now: the program must not inherit it. What came before is found below.
    let mut wanted = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        wanted.add(signal);
    }
    wanted.thread_block()?;
    let signals = SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
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
                // It may have gone this moment.
                Ok(other) => drop(kill(child, other)),
            }
        }
        log.pass_on();
    }
}

/// Takes care of whoever has ended: how the child has, if it has.
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

/// What a program prints.
struct Log {
    /// `None` when nobody prints any more.
    printed: Option<PipeReader>,
    output: Output<io::Stderr>,
}

impl Log {
    /// Waits for a signal, or for something printed.
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

    /// Passes on what is there now, and not what comes meanwhile.
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
