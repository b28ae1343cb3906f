//! Network namespaces. Devices and sockets belong to one; threads can enter one.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

/// A network namespace, kept alive by its descriptor.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
    /// Identifies the namespace on this machine as long as it exists.
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
    /// If no namespace has that name.
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

    /// A new, empty namespace that ends with its last descriptor.
    ///
    /// # Errors
    /// The kernel refuses.
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

    /// Every visible namespace, each once: by a name of `ip netns` or Docker, a descriptor of this
    /// process, or a process. The search is lazy.
    pub(crate) fn visible() -> impl Iterator<Item = Self> {
        let own = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("net:["))
        };
        let names = ["/run/netns", "/run/docker/netns"].into_iter().flat_map(list);
        let descriptors = std::iter::once("/proc/self/fd").flat_map(list).filter(own);
        let processes = std::iter::once("/proc").flat_map(list).map(|path| path.join("ns/net"));
        let mut seen = HashSet::new();
        names.chain(descriptors).chain(processes).filter_map(move |path| {
            // Most processes share a namespace: open one descriptor for each.
            let inode = fs::metadata(&path).ok()?.st_ino();
            if seen.contains(&inode) {
                return None;
            }
            let namespace = Self::open(&path).ok().filter(|found| found.inode == inode)?;
            seen.insert(inode);
            Some(namespace)
        })
    }

    /// The namespace's name for users: that of `ip netns`, otherwise `net:[inode]`.
    pub fn label(&self) -> String {
        list("/run/netns")
            .into_iter()
            .find(|path| fs::metadata(path).is_ok_and(|data| data.st_ino() == self.inode))
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_else(|| format!("net:[{}]", self.inode))
    }

    /// The user namespace that owns this one: rights in it are rights here.
    ///
    /// # Errors
    /// If it lies outside of this process's user namespace.
    pub fn owner(&self) -> io::Result<OwnedFd> {
        // SAFETY: the request takes no argument, and returns a descriptor without another owner.
        unsafe {
            let descriptor = libc::ioctl(self.file.as_raw_fd(), libc::NS_GET_USERNS);
            Ok(OwnedFd::from_raw_fd(nix::errno::Errno::result(descriptor)?))
        }
    }

    /// A socket of this namespace, independent of the namespace of its user.
    pub(crate) fn socket(
        &self,
        family: AddressFamily,
        kind: SockType,
        flags: SockFlag,
        protocol: Option<SockProtocol>,
    ) -> io::Result<OwnedFd> {
        let open = || Ok(socket(family, kind, flags | SockFlag::SOCK_CLOEXEC, protocol)?);
        // Entering a namespace needs a thread and CAP_SYS_ADMIN; in the present namespace neither
        // is needed.
        if Self::current()? == *self { open() } else { in_namespace(self, open)? }
    }
}

/// The entries of a directory; empty if it cannot be read.
fn list(directory: &str) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Runs `work` in a new thread inside `namespace`.
///
/// # Errors
/// The namespace cannot be entered.
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
