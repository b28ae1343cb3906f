//! The CPUs and the scheduling policy of a polling process.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::{SandboxError, Step};

/// Lets this process run on `cpus` only (on any CPU, if the list is empty) and makes it a batch
/// process, which does not interrupt others when it wakes up. Europa's own pollers change this
/// later (`Preemption` in `crates/pool`); a user's program cannot.
///
/// # Errors
/// A CPU does not exist, or the kernel's error.
pub fn schedule(cpus: &[usize]) -> Result<(), SandboxError> {
    let this = Pid::from_raw(0);
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu).step("choosing a CPU")?;
        }
        sched_setaffinity(this, &set).step("choosing CPUs")?;
    }
    become_of(libc::SCHED_BATCH).step("becoming a batch process")?;
    // The process sleeps for short times; the kernel would extend them to more than twice their
    // length.
    nix::sys::prctl::set_timerslack(1).step("asking for exact timers")
}

/// Lets this thread run only while its core is idle: any process that wakes up interrupts it, even
/// a batch process. This is for work that is not urgent and holds no shared lock.
///
/// # Errors
/// The kernel's error.
pub fn only_when_idle() -> Result<(), SandboxError> {
    become_of(libc::SCHED_IDLE).step("working only when nobody else does")
}

fn become_of(policy: i32) -> nix::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters exist during the call, which changes no memory of this process.
    let result = unsafe { libc::sched_setscheduler(0, policy, &parameters) };
    Errno::result(result).map(drop)
}

/// Lowers this process's priority: on a contended core, it gets a tenth of the time of an ordinary
/// process. This is for observers, which must not slow the observed process.
///
/// # Errors
/// The kernel's error.
pub fn give_way() -> Result<(), SandboxError> {
    // SAFETY: the call takes numbers and changes no memory.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    Errno::result(result).map(drop).step("letting others go first")
}
