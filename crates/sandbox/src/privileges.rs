//! Ids, capabilities and the user namespace.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::error::{SandboxError, Step};

/// Gives up root permanently: afterwards the process has no supplementary groups, `id` as every uid
/// and gid, five empty capability sets, and cannot gain privileges.
///
/// With `user_namespace` the process also enters a new user namespace, created *after* the others
/// and without any id mapping. So only its own id exists for it (`setuid` of any id fails), and its
/// mount and network namespaces belong to the host's user namespace. Even a kernel bug that gave
/// the process all capabilities would give it no rights over these namespaces.
pub(crate) fn give_up(id: u32, user_namespace: bool) -> Result<(), SandboxError> {
    // Needs CAP_SETPCAP, which the process loses with its uid.
    clear(CapSet::Bounding, "emptying the bounding set")?;
    setgroups(&[]).step("dropping supplementary groups")?;
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    setresgid(gid, gid, gid).step("setting the group")?;
    // Some distributions allow new user namespaces only with CAP_SYS_ADMIN, and the creator must
    // already have its final uid. So keep the capability during the change of the uid.
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
    // The last step, because every change of ids resets this setting. It also makes root the owner
    // of /proc/PID, so that two processes with one uid cannot trace each other.
    prctl::set_dumpable(false).step("refusing dumps and tracers")
}

/// Gives up all capabilities and keeps the user: root then has the rights of an ordinary user, but
/// still owns root's files.
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
