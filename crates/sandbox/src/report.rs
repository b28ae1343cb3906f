//! The parts of the sandbox that this kernel can build, for `europa doctor`.

use std::fs;

use libc::c_long;
use nix::errno::Errno;

use crate::cgroup::{Cgroups, Controller, Version};

/// How far a measure is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Completely.
    Full,
    /// A part of the measure is available; the finding names the missing part.
    Partial,
    /// Not at all.
    Missing,
}

/// One measure of the sandbox on this machine.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The measure.
    pub measure: &'static str,
    /// How far it is available.
    pub state: State,
    /// The observation, and the consequence if the measure is incomplete.
    pub detail: String,
}

/// Asks the kernel. This changes nothing and needs no privilege.
pub fn report() -> Vec<Finding> {
    let mut findings = vec![landlock(), user_namespaces(), seccomp()];
    findings.extend(namespaces());
    findings.extend(control_groups());
    findings
}

fn landlock() -> Finding {
    const VERSION: c_long = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the attribute must be null and of size 0.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION)
    };
    let (state, detail) = match Errno::result(abi) {
        Ok(abi @ 6..) => (State::Full, format!("version {abi}")),
        Ok(abi) => (
            State::Partial,
            format!("version {abi}; from 4 on TCP, from 6 on abstract sockets are fenced too"),
        ),
        Err(error) => (
            State::Missing,
            format!(
                "{error}; the empty root and the system call list stand without a second fence"
            ),
        ),
    };
    Finding { measure: "landlock", state, detail }
}

fn user_namespaces() -> Finding {
    let limit = fs::read_to_string("/proc/sys/user/max_user_namespaces")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let (state, detail) = match limit {
        None => (State::Missing, "not in this kernel; processes change their uid only".to_owned()),
        Some(0_u64) => (
            State::Missing,
            "user.max_user_namespaces is 0; processes change their uid only".to_owned(),
        ),
        Some(limit) => (State::Full, format!("up to {limit}")),
    };
    Finding { measure: "user namespaces", state, detail }
}

fn seccomp() -> Finding {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let (state, detail) = if actions.split_whitespace().any(|action| action == "kill_process") {
        (State::Full, "system call lists kill on violation".to_owned())
    } else {
        (State::Missing, "no seccomp filters in this kernel: Europa does not start".to_owned())
    };
    Finding { measure: "seccomp", state, detail }
}

fn namespaces() -> Option<Finding> {
    let wanted = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];
    let missing: Vec<&str> = wanted
        .into_iter()
        .filter(|name| fs::symlink_metadata(format!("/proc/self/ns/{name}")).is_err())
        .collect();
    (!missing.is_empty()).then(|| Finding {
        measure: "namespaces",
        state: State::Missing,
        detail: format!("{} not in this kernel: Europa does not start", missing.join(", ")),
    })
}

fn control_groups() -> Vec<Finding> {
    let cgroups = Cgroups::detect().unwrap_or_default();
    Controller::ALL
        .into_iter()
        .map(|controller| {
            let (state, detail) = match cgroups.hierarchy(controller) {
                Some(hierarchy) => {
                    let version = if hierarchy.version == Version::V1 { 1 } else { 2 };
                    (State::Full, format!("version {version}, {}", hierarchy.root.display()))
                }
                None => (
                    State::Missing,
                    format!("no controller {}: {}", controller.name(), controller.consequence()),
                ),
            };
            let measure = match controller {
                Controller::Cpu => "cgroup cpu",
                Controller::CpuAccounting => "cgroup cpuacct",
                Controller::CpuSet => "cgroup cpuset",
                Controller::Memory => "cgroup memory",
                Controller::Pids => "cgroup pids",
            };
            Finding { measure, state, detail }
        })
        .collect()
}
