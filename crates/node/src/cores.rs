//! Which CPUs are Europa's.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The upper half of the CPUs that this process may use, at least one: interrupts and
/// everybody else tend to live in the lower half. The switch polls on the last one,
/// routers on all of them unless their document says where.
pub(crate) fn cores() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let usable: Vec<usize> =
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect();
    usable[usable.len() / 2..].to_vec()
}

/// The argument that tells a process its CPUs.
pub(crate) fn argument(cpus: &[usize]) -> String {
    let numbers: Vec<String> = cpus.iter().map(usize::to_string).collect();
    format!("--cpus={}", numbers.join(","))
}
