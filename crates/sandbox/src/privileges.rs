//! Ids, capabilities and the user namespace.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::error::{SandboxError, Step};

/// Gives up root permanently: no supplementary groups, `id` as every uid and gid, all five
/// capability sets empty, no new privileges.
///
/// With `user_namespace` the process also enters a new user namespace, created *after* the others
/// and without any id mapping. So no id but its own exists for it (`setuid` of anything fails), and
/// its mount and network namespaces belong to the host's user namespace: even a kernel bug that
/// handed it the full capability set would give it none over them.
pub(crate) fn give_up(id: u32, user_namespace: bool) -> Result<(), SandboxError> {
    // Needs CAP_SETPCAP, which is lost with the uid.
    clear(CapSet::Bounding, "emptying the bounding set")?;
    setgroups(&[]).step("dropping supplementary groups")?;
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    setresgid(gid, gid, gid).step("setting the group")?;
    // Some distributions allow new user namespaces only with CAP_SYS_ADMIN, and the
    // creator must already have its final uid: keep the capability over the change.
    prctl::set_keepcaps(user_namespace).step("keeping capabilities for one more step")?;
    setresuid(uid, uid, uid).step("setting the user")?;
    if user_namespace {
        let admin = CapsHashSet::from([Capability::CAP_SYS_ADMIN]);
        caps::set(None, CapSet::Effective, &admin)
            .step("raising CAP_SYS_ADMIN for one more step")?;
        unshare(CloneFlags::CLONE_NEWUSER).step("creating the user namespace")?;
        // The new namespace starts with all sets full, including the bounding set.
        clear(CapSet::Bounding, "emptying the bounding set of the user namespace")?;
    }
    prctl::set_keepcaps(false).step("keeping no capabilities")?;
    clear(CapSet::Ambient, "emptying the ambient set")?;
    clear(CapSet::Effective, "emptying the effective set")?;
    clear(CapSet::Inheritable, "emptying the inheritable set")?;
    clear(CapSet::Permitted, "emptying the permitted set")?;
    prctl::set_no_new_privs().step("refusing new privileges")?;
    // Last, because every change of ids resets it. It also makes root the owner of /proc/PID, so
    // that two processes with one uid cannot trace each other.
    prctl::set_dumpable(false).step("refusing dumps and tracers")
}

/// Gives up all capabilities and keeps the user: root is then a user like others, but still owns
/// root's files.
pub(crate) fn drop_capabilities() -> Result<(), SandboxError> {
    clear(CapSet::Bounding, "emptying the bounding set")?;
    clear(CapSet::Ambient, "emptying the ambient set")?;
    clear(CapSet::Effective, "emptying the effective set")?;
    clear(CapSet::Inheritable, "emptying the inheritable set")?;
    clear(CapSet::Permitted, "emptying the permitted set")
}

fn clear(set: CapSet, step: &'static str) -> Result<(), SandboxError> {
    caps::clear(None, set).step(step)
}
