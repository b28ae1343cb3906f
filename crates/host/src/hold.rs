//! Process 1 of a host: sets up the file system for the host's programs, and keeps the namespaces
//! until it is killed.

use std::convert::Infallible;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use europa_port::Namespace;
use europa_slowpath::init;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, sethostname, setsid};

use crate::{Inside, mounts};

/// The text that process 1 prints when programs can start.
pub(crate) const READY: &str = "ready\n";

/// Becomes process 1 of a host. The calling process must have one thread and be the first of a pid
/// namespace. `folder` is the host's folder on the machine.
///
/// # Errors
/// The kernel's error.
pub fn hold(inside: &Inside, folder: &Path) -> io::Result<Infallible> {
    // Keys typed at the terminal that starts the first program must not reach the host.
    setsid()?;
    setns(Namespace::named(&inside.namespace.to_string_lossy())?, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)?;
    let aside = folder.join("root");
    fs::create_dir_all(&aside)?;
    mounts::make(&aside, inside)?;
    sethostname(&inside.host)?;
    io::stdout().write_all(READY.as_bytes())?;
    io::stdout().flush()?;
    // The process that waits for the text reads to the end of the pipe.
    let nowhere = fs::File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(nowhere.as_fd())?;
    dup2_stdout(nowhere.as_fd())?;
    dup2_stderr(nowhere.as_fd())?;
    loop {
        init::first()?;
    }
}
