//! The user of the machine that all logins have.

use std::fs;

use nix::unistd::{Gid, Uid, User};

use crate::NodeError;

/// Its name.
pub const ACCOUNT: &str = "europa";

/// The account, which exists and which sshd takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) user: Uid,
    pub(super) group: Gid,
}

/// The command that makes the account as sshd needs it: with a shell that runs forced commands,
/// with a home folder that exists, and without a password, but not locked.
const MAKE: &str = "useradd --system --user-group --home-dir / --no-create-home \
                    --shell /bin/sh --password '*' europa";

impl Account {
    /// Looks the account up.
    ///
    /// # Errors
    /// It is missing, or sshd would refuse it; with the remedy.
    pub(super) fn find() -> Result<Account, NodeError> {
        let refused = |why: String| NodeError::Refused(format!("--ssh: {why}"));
        let found = User::from_name(ACCOUNT).ok().flatten();
        let Some(user) = found else {
            return Err(refused(format!(
                "all logins need the user {ACCOUNT} of this machine, which does not exist; make it: {MAKE}"
            )));
        };
        if user.uid.is_root() {
            return Err(refused(format!("the user {ACCOUNT} of this machine is root")));
        }
        let shell = user.shell.to_string_lossy();
        if !runs_commands(&shell) {
            return Err(refused(format!(
                "the shell of user {ACCOUNT} is {shell}, which runs no forced command: \
                 usermod --shell /bin/sh {ACCOUNT}"
            )));
        }
        if is_locked(&fs::read_to_string("/etc/shadow").unwrap_or_default()) {
            return Err(refused(format!(
                "the user {ACCOUNT} is locked, and sshd refuses it: usermod --password '*' {ACCOUNT}"
            )));
        }
        Ok(Account { user: user.uid, group: user.gid })
    }
}

/// sshd runs a forced command by the user's shell.
fn runs_commands(shell: &str) -> bool {
    let name = shell.rsplit('/').next().unwrap_or_default();
    !matches!(name, "nologin" | "false" | "true" | "sync")
}

/// Whether a line of shadow(5) locks the account.
fn is_locked(shadow: &str) -> bool {
    let line = shadow.lines().find_map(|line| line.strip_prefix(ACCOUNT)?.strip_prefix(':'));
    line.is_some_and(|line| line.starts_with('!'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_sshd_refuses() {
        for (shadow, wanted) in [
            ("root:!:1\neuropa:*:19000::::::\n", false),
            ("europa:!:19000::::::\n", true),
            ("europa:!*:19000::::::\n", true),
            ("europa-x:!:1\n", false),
            ("", false),
        ] {
            assert_eq!(is_locked(shadow), wanted, "{shadow}");
        }
        assert!(runs_commands("/bin/sh") && !runs_commands("/usr/sbin/nologin"));
    }
}
