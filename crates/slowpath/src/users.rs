//! The users of a router's slow path: a user namespace of its own, in which its root is nobody
//! on the host.
//!
//! A router's network namespace belongs to that user namespace. So whatever capabilities a
//! program there has, up to all of them, count for the router's own network, mounts and
//! processes, and nothing else: files and devices of the host are to it as to any unknown user.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{chown, fchown};
use std::path::Path;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

/// What the host calls user and group 0 of a slow path. High enough to be nobody's: sub-users
/// of `adduser` end below, and those of systemd's containers.
pub(crate) const FIRST_ID: u32 = 0x7000_0000;
/// How many users and groups there are.
const IDS: u32 = 65_536;
/// What [`hold`] says when its namespaces are there.
const READY: &[u8] = b"ready\n";

/// What the host calls a user or group of slow paths.
pub(crate) fn on_host(id: u32) -> u32 {
    FIRST_ID.saturating_add(id.min(IDS - 1))
}

/// A process that makes a user and a network namespace, says so on standard output, and holds
/// them until it is killed. Needs a process with one thread.
///
/// # Errors
/// What the kernel refuses.
pub fn hold() -> io::Result<std::convert::Infallible> {
    use std::io::Write as _;
    set_pdeathsig(Signal::SIGKILL)?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    io::stdout().write_all(READY)?;
    io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}

/// Waits for the word of [`hold`] and gives its user namespace users and groups.
///
/// # Errors
/// It has said something else: why it could not; or the kernel refuses the numbers.
pub fn appoint(process: u32, mut says: impl io::Read) -> io::Result<()> {
    let mut word = [0; READY.len()];
    let mut length = 0;
    while let Some(rest) = word.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match says.read(rest)? {
            0 => break,
            more => length += more,
        }
    }
    if word != READY {
        let mut said = String::from_utf8_lossy(word.get(..length).unwrap_or_default()).into_owned();
        says.read_to_string(&mut said)?;
        return Err(io::Error::other(format!("no user namespace: {}", said.trim())));
    }
    for table in ["uid_map", "gid_map"] {
        let path = format!("/proc/{process}/{table}");
        fs::write(&path, format!("0 {FIRST_ID} {IDS}"))
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    }
    Ok(())
}

/// Makes the calling process, which has one thread, root of a user namespace; its mounts are
/// its own from here on, and what they were cannot be undone.
pub(crate) fn become_root(namespace: OwnedFd) -> io::Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWUSER)?;
    // The mounts are copied for a user namespace with fewer rights than that which made them:
    // the kernel locks them, each as it is (mount_namespaces(7)).
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)?;
    setgroups(&[])?;
    let (user, group) = (Uid::from_raw(0), Gid::from_raw(0));
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    Ok(())
}

/// Gives a file or directory to a user and group of slow paths.
pub(crate) fn give(path: &Path, user: u32, group: u32) -> io::Result<()> {
    chown(path, Some(on_host(user)), Some(on_host(group)))
}

/// Gives an open file to the root of slow paths, which may open it again then.
///
/// # Errors
/// What the file system refuses.
pub fn give_to_root(file: &fs::File) -> io::Result<()> {
    fchown(file, Some(on_host(0)), Some(on_host(0)))
}
