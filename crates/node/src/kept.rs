//! Records of a node for the next one, which adopts running processes.
//!
//! It lies in `/run/europa/NAME/kept`, a small file system in memory that only root can enter:
//!
//! | name                     | content                                                 |
//! |--------------------------|---------------------------------------------------------|
//! | `KIND.PID.json`          | the record of a process that runs                       |
//! | `KIND.PID.sock`          | where it takes a node's connection                      |
//! | `NAME.json`              | the record of an object without a process               |
//! | `doorbell.WORKER`, `wake.NUMBER` | pipes that wake: see `bell`                    |
//! | `status`, `held`, `taps` | memory of the switch's that outlives it                 |
//! | `queues.PORT`            | statistics of a port's queues, written by the switch    |
//!
//! A record has the facts that are neither in the pins nor in the kernel. It is replaced as a
//! whole, so that it is never half-written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use europa_channel::{Channel, join};
use europa_sandbox::{Child, Identity};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bell::Bell;
use crate::{Doing, Instance, NodeError};

/// Changes whenever a process that was started before could misunderstand the node, or the node it:
/// with records, orders, the layout of pools and of pinned maps.
const FORMAT: u32 = 14;

/// The folder of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    folder: PathBuf,
}

/// A record in its written form. These fields are the same in all formats, so that an unknown
/// process can be ended.
#[derive(Serialize, Deserialize)]
struct Envelope {
    format: u32,
    process: Option<Identity>,
    record: Value,
}

/// A record that was found.
pub(crate) struct Found<T> {
    /// Its file, without the ending.
    pub(crate) name: String,
    pub(crate) process: Option<Identity>,
    /// `None` if another version wrote it.
    pub(crate) record: Option<T>,
}

impl Kept {
    fn at(instance: &Instance) -> Self {
        Self { folder: instance.directory().join("kept") }
    }

    /// The folder of an instance; makes it if it does not exist.
    pub(crate) fn open(instance: &Instance) -> Result<Self, NodeError> {
        let kept = Self::at(instance);
        let what = || format!("making {}", kept.folder.display());
        fs::create_dir_all(&kept.folder).doing(what())?;
        fs::set_permissions(&kept.folder, fs::Permissions::from_mode(0o700)).doing(what())?;
        // A separate file system even in memory: records must have room even if other programs fill
        // the folder's file system. A folder that a former version has filled stays unchanged.
        let is_empty = fs::read_dir(&kept.folder).doing(what())?.next().is_none();
        if is_empty && !is_mounted(&kept.folder) {
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
            mount(Some("europa"), &kept.folder, Some("tmpfs"), flags, Some("mode=0700"))
                .doing(format!("mounting a file system in memory on {}", kept.folder.display()))?;
        }
        Ok(kept)
    }

    /// Whether a node has left such a folder.
    pub(crate) fn exists(instance: &Instance) -> bool {
        Self::at(instance).folder.exists()
    }

    /// Ends every process that has a record, and takes the folder away.
    pub(crate) fn remove(instance: &Instance) -> Result<(), NodeError> {
        let kept = Self::at(instance);
        if !kept.folder.exists() {
            return Ok(());
        }
        let mut children = Vec::new();
        for found in kept.records::<Value>("") {
            if let Some(child) = found.process.map(Child::adopt).transpose()?.flatten() {
                child.kill(Signal::SIGKILL)?;
                children.push(child);
            }
        }
        for mut child in children {
            child.wait()?;
        }
        let what = || format!("removing {}", kept.folder.display());
        if is_mounted(&kept.folder) {
            let _ = umount2(&kept.folder, MntFlags::MNT_DETACH);
        }
        match fs::remove_dir_all(&kept.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).doing(what()),
            _ => Ok(()),
        }
    }

    /// Memory of this name and length.
    pub(crate) fn memory(&self, name: &str, bytes: usize) -> Result<OwnedFd, NodeError> {
        let what = || format!("making the memory {name}");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.folder.join(name)).doing(what())?;
        file.set_len(bytes as u64).doing(what())?;
        Ok(file.into())
    }

    /// Removes the name of memory; processes that have mapped it keep it.
    pub(crate) fn forget_memory(&self, name: &str) {
        let _ = fs::remove_file(self.folder.join(name));
    }

    /// The same memory, for reading only.
    pub(crate) fn memory_read_only(&self, name: &str) -> Result<OwnedFd, NodeError> {
        let file = File::open(self.folder.join(name));
        Ok(file.doing(format!("opening the memory {name} for reading"))?.into())
    }

    /// Whether there is a record of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// The bell of this name; makes it if it does not exist.
    pub(crate) fn bell(&self, name: &str) -> Result<Bell, NodeError> {
        Bell::at(&self.folder.join(name))
    }

    /// A new bell of this name, unknown to other processes.
    pub(crate) fn new_bell(&self, name: &str) -> Result<Bell, NodeError> {
        let _ = fs::remove_file(self.folder.join(name));
        self.bell(name)
    }

    fn file(&self, name: &str, end: &str) -> PathBuf {
        self.folder.join(format!("{name}.{end}"))
    }

    /// The socket to which the next node connects, for the process of this name.
    pub(crate) fn listener(&self, name: &str) -> Result<OwnedFd, NodeError> {
        let path = self.file(name, "sock");
        let what = || format!("listening at {}", path.display());
        let _ = fs::remove_file(&path);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener =
            socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).doing(what())?;
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).doing(what())?).doing(what())?;
        listen(&listener, Backlog::new(4).doing(what())?).doing(what())?;
        Ok(listener)
    }

    /// Connects to the process of this name.
    pub(crate) fn join<Out, In>(&self, name: &str) -> Result<Channel<Out, In>, NodeError>
    where
        Out: Serialize,
        In: DeserializeOwned,
    {
        join(&self.file(name, "sock"))
            .map_err(|error| NodeError::Channel { who: name.to_owned(), error })
    }

    /// Writes a record, or replaces it.
    pub(crate) fn note<T: Serialize>(
        &self,
        name: &str,
        process: Option<Identity>,
        record: &T,
    ) -> Result<(), NodeError> {
        let what = || format!("noting {name}");
        let record = serde_json::to_value(record).map_err(io::Error::from).doing(what())?;
        let envelope = Envelope { format: FORMAT, process, record };
        let text = serde_json::to_vec(&envelope).map_err(io::Error::from).doing(what())?;
        replace(&self.file(name, "json"), &text).doing(what())
    }

    /// Takes a record away, and its socket.
    pub(crate) fn forget(&self, name: &str) {
        for end in ["json", "sock"] {
            let _ = fs::remove_file(self.file(name, end));
        }
    }

    /// All records of a kind: those whose names begin with it.
    pub(crate) fn records<T: DeserializeOwned>(&self, kind: &str) -> Vec<Found<T>> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
            .filter(|name| name.starts_with(kind))
            .collect();
        names.sort_unstable();
        let read = |name: String| {
            let text = fs::read(self.file(&name, "json")).ok()?;
            let envelope: Envelope = serde_json::from_slice(&text).ok()?;
            let known = envelope.format == FORMAT;
            let record = known.then(|| serde_json::from_value(envelope.record).ok()).flatten();
            Some(Found { name, process: envelope.process, record })
        };
        names.into_iter().filter_map(read).collect()
    }
}

/// Whether a file system of its own is mounted on a folder.
fn is_mounted(folder: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    folder.parent().is_some_and(|parent| device(parent) != device(folder))
}

/// Replaces a file in one step: a reader finds the old text or the new one.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_and_others_versions_are_known_by_their_process() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept { folder: folder.path().to_owned() };
        let process = Identity::of(std::process::id());
        kept.note("router.7", process, &vec![1, 2]).unwrap();
        kept.note("router.8", None, &"another form").unwrap();
        kept.note("switch.9", None, &vec![3]).unwrap();
        let text = fs::read_to_string(kept.file("router.7", "json")).unwrap();
        let newer = text.replace("\"format\":", "\"format\":1");
        assert_ne!(text, newer);
        fs::write(kept.file("router.9", "json"), newer).unwrap();
        fs::write(kept.file("router.6", "json"), "{").unwrap();
        let found: Vec<_> = kept
            .records::<Vec<u32>>("router.")
            .into_iter()
            .map(|found| (found.name, found.process, found.record))
            .collect();
        let wanted = [
            ("router.7".to_owned(), process, Some(vec![1, 2])),
            ("router.8".to_owned(), None, None),
            ("router.9".to_owned(), process, None),
        ];
        assert_eq!(found, wanted);
        kept.forget("router.7");
        assert_eq!(kept.records::<Vec<u32>>("router.").len(), 2);
    }
}
