//! Names and places of one node: several may run on a host, for tests.

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::NodeError;
use crate::kept::Kept;

/// Whether desired state outlives its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It is found again by the next node of this name, also after a reboot.
    Lasting,
    /// `down` deletes it, as with `europa up`.
    Temporary,
}

/// One node of a host, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    name: String,
}

impl Instance {
    /// The node of this name: lower-case letters, digits and dashes, at most 32.
    ///
    /// # Errors
    /// Describes the form of a name.
    pub fn new(name: &str) -> Result<Self, NodeError> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) {
            return Err(NodeError::Refused(format!(
                "`{name}` is no name for a node: use up to 32 lower-case letters, digits and dashes"
            )));
        }
        Ok(Self { name: name.to_owned() })
    }

    /// All that have left a trace in `/run/europa`.
    pub(crate) fn all() -> Vec<Self> {
        let entries = std::fs::read_dir("/run/europa").into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| Self::new(entry.file_name().to_str()?).ok());
        named.collect()
    }

    /// Whether its node was killed and has left objects to adopt.
    pub(crate) fn is_orphaned(&self) -> bool {
        let lock = File::open(self.lock());
        let free = |lock| Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_ok();
        Kept::exists(self) && lock.is_ok_and(free)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of this run.
    pub fn directory(&self) -> PathBuf {
        Path::new("/run/europa").join(&self.name)
    }

    /// The socket for requests.
    pub fn socket(&self) -> PathBuf {
        self.directory().join("node.sock")
    }

    /// The lock that the node's process holds.
    pub fn lock(&self) -> PathBuf {
        self.directory().join("lock")
    }

    /// The folder of pinned maps, programs and attachments.
    pub fn pins(&self) -> PathBuf {
        self.directory().join("bpf")
    }

    /// The folder of the processes' logs.
    pub fn logs(&self) -> PathBuf {
        self.directory().join("log")
    }

    /// The log of one process: `switch`, `node`, or `slice/router`.
    pub fn log(&self, of: &str) -> PathBuf {
        self.logs().join(format!("{}.log", of.replace('/', ".")))
    }

    /// The file of its desired state.
    pub fn state(&self, lifetime: Lifetime) -> PathBuf {
        let parent = match lifetime {
            Lifetime::Lasting => Path::new("/var/lib/europa").join(&self.name),
            Lifetime::Temporary => self.directory(),
        };
        parent.join("state.redb")
    }

    /// The folder of the authority for its certificates.
    pub fn tls(&self, lifetime: Lifetime) -> PathBuf {
        self.state(lifetime).with_file_name("tls")
    }

    /// The part that the account of SSH logins may open: no node's name has a dot.
    pub(crate) fn ssh(&self) -> PathBuf {
        Path::new("/run/europa/.ssh").join(&self.name)
    }

    /// The folder of the key that identifies this node to SSH clients.
    pub(crate) fn ssh_keys(&self, lifetime: Lifetime) -> PathBuf {
        self.state(lifetime).with_file_name("ssh")
    }

    /// The record of changes to devices, by which a later process undoes them.
    pub fn undo(&self) -> PathBuf {
        self.directory().join("undo.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, good) in
            [("default", true), ("t-1", true), ("", false), ("../x", false), ("A", false)]
        {
            assert_eq!(Instance::new(name).is_ok(), good, "{name}");
        }
    }
}
