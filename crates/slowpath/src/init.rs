//! The first process of a program's process numbers: starts it, takes care of orphans, hands
//! signals on, and ends with it. Everything that is left then is killed by the kernel.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Runs `command` to its end.
///
/// # Errors
/// It cannot be started.
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let child = command.spawn()?;
    let child = Pid::from_raw(child.id() as i32);
    // Blocked only now: the program must not inherit it. What came before is found below.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    loop {
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                    return Ok(ExitStatus::from_raw(code << 8));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                    return Ok(ExitStatus::from_raw(signal as i32));
                }
                Ok(WaitStatus::StillAlive) | Err(nix::Error::ECHILD) => break,
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match signals.wait()? {
            Signal::SIGCHLD => {}
            other => {
                // It may have gone this moment.
                let _ = kill(child, other);
            }
        }
    }
}
