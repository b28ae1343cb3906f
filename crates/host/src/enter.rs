//! A process joins a host.

use std::fs::{self, File};
use std::io::{self, Read, pipe};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use caps::{CapSet, Capability};
use europa_slowpath::init::{self, First};
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns};

use crate::Inside;
use crate::hold::READY;

/// Capabilities that root of a host does not have, because they would affect the machine: its
/// kernel, clock, devices, mounts and log.
const DENIED: [Capability; 20] = [
    Capability::CAP_AUDIT_CONTROL,
    Capability::CAP_AUDIT_READ,
    Capability::CAP_BLOCK_SUSPEND,
    Capability::CAP_BPF,
    Capability::CAP_CHECKPOINT_RESTORE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_LINUX_IMMUTABLE,
    Capability::CAP_MAC_ADMIN,
    Capability::CAP_MAC_OVERRIDE,
    Capability::CAP_MKNOD,
    Capability::CAP_PERFMON,
    Capability::CAP_SYSLOG,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_BOOT,
    Capability::CAP_SYS_MODULE,
    Capability::CAP_SYS_PACCT,
    Capability::CAP_SYS_RAWIO,
    Capability::CAP_SYS_RESOURCE,
    Capability::CAP_SYS_TIME,
    Capability::CAP_SYS_TTY_CONFIG,
];

/// Makes later children of this process members of a host's pid namespace. The process must have
/// one thread. If the namespace does not exist, it starts `holder` as process 1, which calls
/// [`hold`](crate::hold()); `started` reports the start of a process.
///
/// # Errors
/// The kernel's error, or the holder's.
pub fn ensure(
    folder: &Path,
    holder: &mut Command,
    started: impl Fn(u32) -> Option<u64>,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // Only one process at a time starts process 1.
    let _lock = Flock::lock(File::open(folder)?, FlockArg::LockExclusive)
        .map_err(|(_, errno)| io::Error::from(errno))?;
    if let Some(numbers) = numbers(folder, &started)? {
        return init::choose_numbers(Some(numbers));
    }
    init::choose_numbers(None)?;
    let (mut says, writer) = pipe()?;
    holder.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = holder.spawn()?;
    // Only the child has the writing ends.
    holder.stdout(Stdio::null()).stderr(Stdio::null());
    let mut said = String::new();
    says.read_to_string(&mut said)?;
    if said != READY {
        // It has ended, or is about to.
        child.kill()?;
        child.wait()?;
        return Err(io::Error::other(format!("what its programs are to see: {}", said.trim())));
    }
    let pid = child.id();
    let started = started(pid).ok_or_else(|| io::Error::other("its process 1 has ended"))?;
    First { pid, started }.note(folder)
}

/// The process numbers of a host, if process 1 holds them.
///
/// # Errors
/// They cannot be opened.
pub fn numbers(folder: &Path, started: impl Fn(u32) -> Option<u64>) -> io::Result<Option<OwnedFd>> {
    init::numbers(folder, started)
}

/// Moves the calling process into the host's other namespaces, and removes its rights on the
/// machine. The process must have one thread and be in the host's pid namespace.
///
/// # Errors
/// The kernel's error.
pub fn join(
    folder: &Path,
    inside: &Inside,
    started: impl Fn(u32) -> Option<u64>,
) -> io::Result<()> {
    let first = First::read(folder)?;
    // `/proc` is still that of the machine. All files are opened before the mounts change.
    let open = |name: &str| File::open(format!("/proc/{}/ns/{name}", first.pid));
    let (network, mounts) = (open("net")?, open("mnt")?);
    let (name, ipc) = (open("uts")?, open("ipc")?);
    if started(first.pid) != Some(first.started) {
        return Err(io::Error::other(format!(
            "the programs of host {} have just ended",
            inside.host
        )));
    }
    setns(network, CloneFlags::CLONE_NEWNET)?;
    setns(name, CloneFlags::CLONE_NEWUTS)?;
    setns(ipc, CloneFlags::CLONE_NEWIPC)?;
    setns(mounts, CloneFlags::CLONE_NEWNS)?;
    for one in DENIED {
        // Capabilities that this process does not have cannot be dropped, and need not be.
        let _ = caps::drop(None, CapSet::Ambient, one);
        let _ = caps::drop(None, CapSet::Bounding, one);
        for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
            let _ = caps::drop(None, set, one);
        }
    }
    Ok(())
}
