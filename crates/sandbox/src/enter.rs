//! Enters the sandbox: the steps are in the only order in which the process still has the right
//! that each step needs.

use std::ffi::CString;
use std::fs;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{sethostname, setsid};

use crate::error::{SandboxError, Step};
use crate::profile::Profile;
use crate::seccomp::Beside;
use crate::{descriptors, fence, privileges, root, seccomp};

/// Confines the calling process to the sandbox of `profile` irrevocably.
///
/// Call it right after exec, as root, with a single thread, before reading any input. After an
/// error the process is only partly confined: print the error and exit.
///
/// This function does not enter the pid namespace, because a process cannot:
/// [`spawn`](crate::spawn) makes it.
pub fn enter(profile: &Profile) -> Result<(), SandboxError> {
    check(profile)?;
    descriptors::close_others(&profile.descriptors)?;
    umask(Mode::from_bits_truncate(0o077));
    // Without a separate session, other processes on the terminal could type into it. The call
    // fails only for a process group leader: `spawn` has already made such a process a session
    // leader.
    let _ = setsid();
    let name = CString::new(profile.name.replace('\0', "")).unwrap_or_default();
    prctl::set_name(&name).step("setting the process name")?;
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWCGROUP,
    )
    .step("creating namespaces")?;
    // The kernel's limit is 64 bytes.
    sethostname(profile.name.chars().filter(char::is_ascii).take(63).collect::<String>())
        .step("setting the host name")?;
    root::replace(&profile.mounts)?;
    limit(profile)?;
    privileges::give_up(profile.uid, profile.user_namespace)?;
    if profile.die_with_parent {
        // Not earlier: the kernel resets this setting when ids change.
        prctl::set_pdeathsig(Signal::SIGKILL).step("setting the parent-death signal")?;
    }
    fence::put_up(profile.role)?;
    let beside =
        Beside { threads: profile.limits.threads > 1, shares_memory: profile.shares_memory };
    seccomp::apply(profile.role, beside, profile.enforcement)
}

/// Refuses settings that would silently make the sandbox weaker than the caller thinks.
fn check(profile: &Profile) -> Result<(), SandboxError> {
    if profile.uid == 0 {
        return Err(SandboxError::Refused("a sandboxed process cannot keep uid 0".into()));
    }
    // Most of the steps change one thread only; another thread would stay unconfined.
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(SandboxError::Refused(format!(
            "{threads} threads run, and all but this one would stay outside"
        )));
    }
    Ok(())
}

/// Resource limits, hard and soft alike.
fn limit(profile: &Profile) -> Result<(), SandboxError> {
    let limits = &profile.limits;
    // A stricter limit of the node also holds for its processes: without CAP_SYS_RESOURCE, as in a
    // container, no process can raise it.
    let (_, most_files) = getrlimit(Resource::RLIMIT_NOFILE).step("reading the limit of files")?;
    let table = [
        (Resource::RLIMIT_CORE, 0, "limiting core dumps"),
        (Resource::RLIMIT_FSIZE, limits.file_bytes, "limiting files"),
        (Resource::RLIMIT_MEMLOCK, limits.locked_bytes, "limiting locked memory"),
        (Resource::RLIMIT_MSGQUEUE, 0, "limiting message queues"),
        (Resource::RLIMIT_NOFILE, limits.open_files.min(most_files), "limiting open files"),
        (Resource::RLIMIT_NPROC, limits.threads, "limiting threads"),
    ];
    for (resource, value, step) in table {
        setrlimit(resource, value, value).step(step)?;
    }
    if let Some(bytes) = limits.address_space_bytes {
        setrlimit(Resource::RLIMIT_AS, bytes, bytes).step("limiting the address space")?;
    }
    Ok(())
}
