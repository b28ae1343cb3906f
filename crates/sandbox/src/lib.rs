//! The privileged code: it starts Europa's processes, confines them, and limits their use of
//! resources. Nothing else in the project changes a uid, a namespace or a control group.
//!
//! The node, which is root, starts a role process with [`spawn`]; the process first calls
//! [`enter`]. Control groups are in [`cgroup`]. [`report()`] tells `europa doctor` the missing
//! features of this kernel.
//!
//! # Threats and measures
//!
//! If a line names several measures, each must hold without the others. `tests/sandbox` tries the
//! escapes one by one, with and without the system call filter.
//!
//! | threat: a router's process ... | measure |
//! |---|---|
//! | reads or writes files | root is an empty read-only `nosuid,nodev,noexec` tmpfs, the host's tree is unmounted, not hidden; landlock denies all access; `open` is refused |
//! | reads `/proc` or `/sys` | not mounted |
//! | talks to the network | network namespace of its own with a loopback that is down; `socket`, `bind`, `connect` kill; landlock denies TCP and abstract sockets |
//! | uses a descriptor it was not meant to have | `spawn` closes all others at exec, marked or not; `enter` closes again those that the profile does not name               |
//! | loads, changes or runs BPF | `bpf` kills; the switch may use one command, `BPF_PROG_TEST_RUN` |
//! | sees, signals or traces other processes | pid namespace, in which it is number 1; `ptrace`, `kill`, `process_vm_*`, `pidfd_*` kill; each router has a uid of its own; not dumpable |
//! | becomes root | all five capability sets empty; `no_new_privs`; a user namespace without any id mapping, so that no other id exists to become |
//! | gains capabilities by a kernel bug | they count in its own user namespace, which owns none of its other namespaces, nor anything else |
//! | starts programs or processes | `execve` and `fork` kill; `RLIMIT_NPROC`, pids limit |
//! | runs code that it was sent as data | no executable mapping can be made (not for user's programs, which bring their code) |
//! | attacks the kernel through rare calls | a list of some 60 calls, by role, with arguments where they matter; everything else kills the process. `io_uring`, `userfaultfd`, `keyctl`, `perf_event_open` are in no list |
//! | uses up memory, CPU, tasks, descriptors | control group, joined before exec; `RLIMIT_NOFILE`, `NPROC`, `MEMLOCK`, `MSGQUEUE`, optionally `AS` |
//! | leaves secrets in a core dump | `RLIMIT_CORE` 0, not dumpable |
//! | types into the node's terminal | session of its own; `ioctl` allows two harmless commands |
//! | survives its router | death of number 1 takes its pid namespace along; [`cgroup::Group::remove`] kills the rest of a killed run     |
//!
//! # Decisions
//!
//! | decision | reason |
//! |---|---|
//! | a fresh network namespace per process, none shared or kept in stock | making one takes 0.6-0.8 ms of the 2.4 ms between `spawn` and the first byte from inside (64 in a row, each reaped before the next: slowest 4.3 ms; 64 alive: slowest 3.9 ms). Sharing one would join all routers' abstract sockets without a gain         |
//! | pid namespace by `spawn`, all others by `enter` | a process cannot enter a pid namespace; everything else is safest where its order is visible, on one page |
//! | user namespace last, unmapped, created by the final uid | see the table; and its 0.2 ms need no `/proc` for a mapping |
//! | `clone` with shared memory instead of `fork` | cost does not grow with the node; its threads' locks cannot be inherited half-taken |
//! | the role's own binary, from `/proc/self/exe` | no path to get wrong, and no mix of versions after an update |
//! | no parent-death signal unless asked for | switch and routers outlive the node, which adopts them |
//! | the switch has no capability | running a program needs its descriptor only (also with live frames: tested), sending on an open packet socket needs nothing |
//! | control groups are joined by `tasks` (version 1) or at birth (version 2, `clone3`) | 0.05 ms and nothing measurable; a write to `cgroup.procs` takes a global lock and waits for RCU: median 6 ms, worst 17 ms |
//! | an older kernel without landlock is accepted | it is the second fence; the first is not optional: any other failure is an error |
//! | the filter refuses instead of kills where libraries mean no harm | a panic must be able to say where it happened |
#![allow(unsafe_code)] // System calls that no crate wraps: clone3, close_range, pidfd_*.

pub mod cgroup;
mod clone;
mod descendants;
mod descriptors;
mod enter;
mod error;
mod fence;
mod privileges;
mod profile;
mod report;
mod root;
mod schedule;
mod seccomp;
mod spawn;
mod terminal;
mod tool;

pub use descendants::{end_descendants, keep_orphans};
pub use enter::enter;
pub use error::{SandboxError, descriptors_hint};
pub use profile::{BASE_UID, Enforcement, LOG_BYTES, Mount, ProcessLimits, Profile, Role};
pub use report::{Finding, State, report};
pub use schedule::{give_way, only_when_idle, schedule};
pub use spawn::{Child, Exit, Identity, SpawnSpec, spawn, spawn_within};
pub use terminal::{inherited, take_terminal};
pub use tool::{ToolLimits, lock_tool};
