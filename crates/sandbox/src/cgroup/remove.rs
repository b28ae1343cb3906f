//! Killing the processes of a group and removing its folder.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::failed;
use crate::error::SandboxError;
use crate::spawn::{open, send_signal};

/// The longest time to wait until killed processes have ended. The kernel needs long to unmap
/// gigabytes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends SIGKILL to every process in the group.
pub(super) fn kill_all(folder: &Path) -> Result<(), SandboxError> {
    if fs::write(folder.join("cgroup.kill"), "1").is_ok() {
        return Ok(());
    }
    for pid in processes(folder)? {
        if pid == std::process::id() {
            return Err(SandboxError::Refused(format!(
                "{} contains this process itself",
                folder.display()
            )));
        }
        // The number may belong to another process by now. So open the process, then check again
        // whether it is in the group.
        let Some(pidfd) = open(pid)? else { continue };
        if processes(folder)?.contains(&pid) {
            // A failure probably means that the process has just ended; `folder` detects a
            // remaining process.
            let _ = send_signal(pidfd.as_fd(), Signal::SIGKILL);
        }
    }
    Ok(())
}

/// Removes a group's folder, after its last process is reaped.
pub(super) fn folder(folder: &Path) -> Result<(), SandboxError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                // The group still has a process: it forked while it was being killed.
                kill_all(folder)?;
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(failed(folder, error)),
        }
    }
}

fn processes(folder: &Path) -> Result<Vec<u32>, SandboxError> {
    let path = folder.join("cgroup.procs");
    match fs::read_to_string(&path) {
        Ok(text) => {
            Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != 0).collect())
        }
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {
            Ok(Vec::new())
        }
        Err(error) => Err(failed(&path, error)),
    }
}
