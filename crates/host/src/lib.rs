//! The environment of a host's programs: network, file system, processes and host name.
//!
//! A host is a network namespace. Its programs (`run:`, `europa exec`) share further namespaces,
//! which process 1 of the host holds: process numbers, mounts, host name, System V IPC. The first
//! program that starts in a host starts process 1. All of it is removed when that process ends.
//!
//! The file system is an overlay over the machine's: programs read the machine's files, and their
//! own writes are in memory and are deleted with the host. A path of `binds` is the machine's own.
//!
//! | file     | concern                                             |
//! |----------|-----------------------------------------------------|
//! | `hold`   | process 1: makes the namespaces and holds them      |
//! | `mounts` | the file system                                     |
//! | `table`  | the machine's mounts, and which of them are overlaid |
//! | `enter`  | a process joins a host                              |

mod enter;
mod hold;
mod mounts;
mod table;

use std::io;
use std::path::{Path, PathBuf};

use europa_image::Config;
use serde::{Deserialize, Serialize};

pub use enter::{ensure, join, numbers};
pub use hold::hold;

/// Data about the host that each start of a program needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// The host's name, which its programs see as host name.
    pub host: String,
    /// The file of the host's network namespace.
    pub namespace: PathBuf,
    /// Variables of its programs.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
    /// Files and directories of the machine that its programs use directly.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// The folder of the machine that is its programs' root directory. `None`: `/`.
    #[serde(default)]
    pub root: Option<PathBuf>,
    /// The settings of its image.
    #[serde(default)]
    pub image: Option<Config>,
}

impl Inside {
    /// The working directory in which `words` begin, and their user and group. It is for a process
    /// that has joined the host.
    ///
    /// # Errors
    /// The image has no such user.
    pub fn beginning(&self, words: &[String]) -> io::Result<(PathBuf, Option<(u32, u32)>)> {
        let config = self.image.as_ref();
        config.map_or_else(|| Ok((PathBuf::from("/"), None)), |config| config.beginning(words))
    }
}

/// A file or directory of the machine, and its place in the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Its path on the machine.
    pub from: PathBuf,
    /// Its path in the host.
    pub to: PathBuf,
    /// Programs cannot write there.
    pub read_only: bool,
}

/// The folder with notes about a host's process 1, below a node's own directory.
pub fn folder(node: &Path, host: &str) -> PathBuf {
    node.join("hosts").join(host)
}

/// Adds a path to an error.
fn at(path: &Path) -> impl Fn(nix::Error) -> std::io::Error + '_ {
    move |errno| {
        let error = std::io::Error::from(errno);
        std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    }
}
