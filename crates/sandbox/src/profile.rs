//! The rights of a role process after [`enter`](crate::enter).

use std::os::fd::RawFd;
use std::path::PathBuf;

/// The first of the uids (and equal gids) that Europa's processes run under: the switch has this
/// uid, router `id` has `BASE_UID + 1 + id`. These uids are far above those that distributions
/// assign to users (up to 60 000) and above the subordinate ids of the first users (from 100 000 or
/// 524 288, 65 536 each).
pub const BASE_UID: u32 = 2_000_000;

/// The longest log of one process, in bytes.
pub const LOG_BYTES: u64 = 16 << 20;

/// A role: it selects the system call list, the landlock rules and the default limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `europa router`: Europa's own engine working on one packet pool.
    Router,
    /// `europa switch`: the workers. It may start the transmit program, which is one `bpf` command.
    Switch,
    /// A data plane written by a user: loads its own code from read-only mounts.
    Program,
}

/// A host path that a user's program can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// A file or folder on the host. Mounts below it are not included.
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
    /// The number of threads of this uid in its user namespace (`RLIMIT_NPROC`). 1 also removes
    /// thread creation from the system call list.
    pub threads: u64,
    /// Bytes that may be locked into memory (`RLIMIT_MEMLOCK`).
    pub locked_bytes: u64,
    /// The longest file that the process may write (`RLIMIT_FSIZE`), here the log: a write beyond
    /// it fails.
    pub file_bytes: u64,
    /// Bytes of address space (`RLIMIT_AS`), including pools. `None` means no limit; the control
    /// group still limits the used memory.
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
    /// For debugging, without protection: the kernel makes the call and logs it (audit log,
    /// `type=1326`), which shows a call that is missing in the list.
    Log,
}

/// The settings for [`enter`](crate::enter).
#[derive(Clone, Debug)]
pub struct Profile {
    /// Selects the system call list.
    pub role: Role,
    /// The process name (first 15 bytes) and the host name.
    pub name: String,
    /// Uid and gid of the process; never 0.
    pub uid: u32,
    /// Descriptors that stay open in addition to 0, 1 and 2.
    pub descriptors: Vec<RawFd>,
    /// The process's view of the file system; empty for Europa's own roles.
    pub mounts: Vec<Mount>,
    /// Limits of the process.
    pub limits: ProcessLimits,
    /// Whether to enter a new user namespace without mapped ids. `false` only on hosts that forbid
    /// user namespaces (`doctor` reports this).
    pub user_namespace: bool,
    /// Whether the kernel kills the process when the *thread* that spawned it ends. `false` for the
    /// switch and routers, which outlive the node: the next node adopts them. If the parent ends
    /// before [`enter`](crate::enter), the process does not notice this; the end of the control
    /// socket is the reliable sign.
    pub die_with_parent: bool,
    /// Whether a router may share memory with processes that pass it their memory
    /// ([`Role::Router`]).
    pub shares_memory: bool,
    /// The result of a forbidden system call.
    pub enforcement: Enforcement,
}

impl Profile {
    /// The profile of an isolated router that has the number `id` within the node.
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

    /// The profile of the switch: one thread for each worker, and one descriptor for each pool.
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

    /// The profile of a user's own program: the process calls [`enter`](crate::enter), then
    /// `execve` with a path inside the mounts. Descriptors without close-on-exec stay open.
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
