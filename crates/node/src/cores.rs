//! Which CPUs are Europa's.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The CPUs that this process may use. The switch polls on the last one: interrupts and other
/// processes tend to be on the first ones. Routers may run on all of them, unless their document
/// says where: the kernel places them well, and a packet that finds router and switch on different
/// cores is forwarded in half the time.
pub(crate) fn cores() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// The argument that tells a process its CPUs.
pub(crate) fn argument(cpus: &[usize]) -> String {
    let numbers: Vec<String> = cpus.iter().map(usize::to_string).collect();
    format!("--cpus={}", numbers.join(","))
}
