//! Landlock: a second protection, in addition to the empty root and the system call list.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, Scope,
};

use crate::error::SandboxError;
use crate::profile::Role;

/// Denies all file system access (a program may read and execute mounted files), TCP bind and
/// connect, abstract Unix sockets, and signals to processes outside. An older kernel enforces the
/// part that it knows; `doctor` reports this.
pub(crate) fn put_up(role: Role) -> Result<(), SandboxError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    let rules = match role {
        Role::Router | Role::Switch => rules,
        Role::Program => {
            let root = PathFd::new("/").map_err(|error| {
                SandboxError::Refused(format!("landlock: opening the root: {error}"))
            })?;
            let allowed = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
            rules.add_rule(PathBeneath::new(root, allowed))?
        }
    };
    rules.restrict_self()?;
    Ok(())
}
