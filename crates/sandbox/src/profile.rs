//! The rights of a role process after [`enter`](crate::enter).

use std::os::fd::RawFd;
use std::path::PathBuf;

/// First of the uids (and equal gids) that Europa's processes run under; the switch has this one,
/// router `id` has `BASE_UID + 1 + id`. Far above the ids that distributions assign to users (up to
/// 60 000) and to subordinate ids of the first users (from 100 000 or 524 288, 65 536 each).
pub const BASE_UID: u32 = 2_000_000;

/// Most bytes of the log of one process.
pub const LOG_BYTES: u64 = 16 << 20;

/// Which system call list, landlock rules and default limits apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `europa router`: Europa's own engine working on one packet pool.
    Router,
    /// `europa switch`: the workers; may kick, which is one `bpf` command.
    Switch,
    /// A data plane written by a user: loads its own code from read-only mounts.
    Program,
}

/// A host path that a user's program can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// File or folder on the host. Mounts below it are not carried along.
    pub source: PathBuf,
    /// Absolute path inside the sandbox.
    pub target: PathBuf,
}

/// Resource limits that belong to the process; those of the control group are in
/// [`cgroup::Limits`](crate::cgroup::Limits).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Highest descriptor number plus one (`RLIMIT_NOFILE`).
    pub open_files: u64,
    /// Threads of this uid in its user namespace (`RLIMIT_NPROC`). 1 also removes
    /// thread creation from the system call list.
    pub threads: u64,
    /// Bytes that may be locked into memory (`RLIMIT_MEMLOCK`).
    pub locked_bytes: u64,
    /// Highest length of a written file (`RLIMIT_FSIZE`), here the log: a write beyond it fails.
    pub file_bytes: u64,
    /// Bytes of address space (`RLIMIT_AS`), pools included; `None`: no limit, the control group
    /// bounds the used memory.
    pub address_space_bytes: Option<u64>,
}

/// The result of a system call that is in no list of the role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// The process is killed with `SIGSYS`.
    #[default]
    Kill,
    /// For debugging: the call fails with `ENOSYS`.
    NotImplemented,
    /// For debugging, no protection: the call is done and logged by the kernel
    /// (audit log, `type=1326`), so that a missing call can be found.
    Log,
}

/// The settings for [`enter`](crate::enter).
#[derive(Clone, Debug)]
pub struct Profile {
    /// Selects the system call list.
    pub role: Role,
    /// Shown as process name (first 15 bytes) and as host name.
    pub name: String,
    /// Uid and gid of the process; never 0.
    pub uid: u32,
    /// Descriptors that stay open in addition to 0, 1 and 2.
    pub descriptors: Vec<RawFd>,
    /// The process's view of the file system; empty for Europa's own roles.
    pub mounts: Vec<Mount>,
    /// Limits of the process.
    pub limits: ProcessLimits,
    /// Whether to enter a new user namespace without mapped ids. Off only where the host forbids
    /// user namespaces (`doctor` reports it).
    pub user_namespace: bool,
    /// Whether the kernel kills the process when the *thread* that spawned it ends. Off
    /// for switch and routers, which outlive the node: it adopts them. A parent that
    /// died before [`enter`](crate::enter) is not noticed; the end of the control
    /// socket is the dependable sign.
    pub die_with_parent: bool,
    /// Whether a router may share memory with processes that others hand over ([`Role::Router`]).
    pub shares_memory: bool,
    /// The result of a forbidden system call.
    pub enforcement: Enforcement,
}

impl Profile {
    /// Profile of an isolated router with the node-wide number `id`.
    pub fn router(name: &str, id: u32) -> Self {
        Self {
            role: Role::Router,
            name: name.to_owned(),
            uid: BASE_UID.saturating_add(1).saturating_add(id),
            descriptors: Vec::new(),
            mounts: Vec::new(),
            limits: ProcessLimits {
                open_files: 64,
                threads: 1,
                locked_bytes: 0,
                file_bytes: LOG_BYTES,
                address_space_bytes: None,
            },
            user_namespace: true,
            die_with_parent: false,
            shares_memory: false,
            enforcement: Enforcement::Kill,
        }
    }

    /// Profile of the switch: a thread per worker, a descriptor per pool.
    pub fn switch() -> Self {
        Self {
            role: Role::Switch,
            name: "europa-switch".to_owned(),
            uid: BASE_UID,
            limits: ProcessLimits {
                open_files: 16_384,
                threads: 512,
                locked_bytes: 0,
                file_bytes: LOG_BYTES,
                address_space_bytes: None,
            },
            ..Self::router("", 0)
        }
    }

    /// Profile of a user's own program: call [`enter`](crate::enter), then `execve`
    /// a path inside the mounts. Descriptors without close-on-exec survive that.
    pub fn program(name: &str, id: u32, mounts: Vec<Mount>) -> Self {
        Self {
            role: Role::Program,
            mounts,
            limits: ProcessLimits {
                open_files: 256,
                threads: 64,
                locked_bytes: 0,
                file_bytes: LOG_BYTES,
                address_space_bytes: None,
            },
            ..Self::router(name, id)
        }
    }
}
