//! Network namespaces: devices and sockets belong to one, threads may visit.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace, kept alive by its descriptor.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
    /// Identifies the namespace on this machine while it lives.
    pub inode: u64,
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.inode == other.inode
    }
}

impl Namespace {
    /// The namespace this thread is in.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn current() -> io::Result<Self> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// A namespace by path, or by name as `ip netns` knows it.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn named(name: &str) -> io::Result<Self> {
        let path = if name.contains('/') {
            PathBuf::from(name)
        } else {
            Path::new("/run/netns").join(name)
        };
        Self::open(&path)
    }

    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let inode = file.metadata()?.st_ino();
        Ok(Self { file: Arc::new(file), inode })
    }

    /// A new, empty namespace that goes when the last descriptor does.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn fresh() -> io::Result<Self> {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNET)?;
                    Self::current()
                })
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a helper thread panicked")))
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Runs `work` on a thread of its own inside `namespace`.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn in_namespace<R: Send>(
    namespace: &Namespace,
    work: impl FnOnce() -> R + Send,
) -> io::Result<R> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                setns(namespace, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a helper thread panicked")))
    })
}
