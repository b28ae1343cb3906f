//! Confines a short-lived tool, such as a compiler, that handles an untrusted file.
//!
//! Unlike a role, a tool needs no root: any user can confine their own process. The tool reads the
//! given files and executes programs below the system's folders. It writes to its standard output
//! and error only and reaches no network; its time and memory are limited.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::geteuid;

use crate::error::{SandboxError, Step};
use crate::profile::{Enforcement, Role};
use crate::seccomp::{self, Beside};
use crate::{descriptors, privileges};

/// The folders in which the system keeps programs, libraries and headers.
const SYSTEM: [&str; 4] = ["/usr", "/lib", "/lib64", "/bin"];

/// The limits of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// Seconds on a CPU.
    pub cpu_seconds: u64,
    /// Bytes of address space.
    pub address_space_bytes: u64,
}

/// Confines the calling process irrevocably, before it executes a tool. In addition to the system's
/// folders, the process may read `readable`.
///
/// # Errors
/// The failed step; the process must then end.
pub fn lock_tool(readable: &[PathBuf], limits: &ToolLimits) -> Result<(), SandboxError> {
    descriptors::close_others(&[])?;
    let table = [
        (Resource::RLIMIT_CORE, 0, "limiting core dumps"),
        (Resource::RLIMIT_FSIZE, 0, "limiting files"),
        (Resource::RLIMIT_NOFILE, 64, "limiting open files"),
        (Resource::RLIMIT_CPU, limits.cpu_seconds, "limiting CPU time"),
        (Resource::RLIMIT_AS, limits.address_space_bytes, "limiting the address space"),
    ];
    for (resource, value, step) in table {
        setrlimit(resource, value, value).step(step)?;
    }
    if geteuid().is_root() {
        privileges::drop_capabilities()?;
    }
    prctl::set_no_new_privs().step("refusing new privileges")?;
    fence(readable)?;
    let beside = Beside { threads: false, shares_memory: false };
    seccomp::apply(Role::Program, beside, Enforcement::Kill)
}

/// Only landlock closes the rest of the file system, so a kernel without landlock is an error.
fn fence(readable: &[PathBuf]) -> Result<(), SandboxError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    let open = |path: &PathBuf| {
        PathFd::new(path).map_err(|error| {
            SandboxError::Refused(format!("landlock: opening {}: {error}", path.display()))
        })
    };
    let system = SYSTEM.map(PathBuf::from).into_iter().filter(|path| path.exists());
    for path in system {
        rules = rules.add_rule(PathBeneath::new(open(&path)?, read | AccessFs::Execute))?;
    }
    for path in readable {
        let access = if path.is_dir() { read } else { AccessFs::ReadFile.into() };
        rules = rules.add_rule(PathBeneath::new(open(path)?, access))?;
    }
    match rules.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(SandboxError::Refused(
            "this kernel has no landlock, so nothing would keep a tool away from other files"
                .into(),
        )),
        _ => Ok(()),
    }
}
