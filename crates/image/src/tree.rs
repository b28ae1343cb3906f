//! Changes files below a root directory. Symbolic links are resolved as in a process with this root
//! directory, so no file outside is reached.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::error::wrong;

/// Longest path of an entry, as in the kernel.
const LONGEST: usize = 4096;

/// A root directory.
pub(crate) struct Tree {
    root: OwnedFd,
}

/// Owner and rights of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
    /// Seconds since 1970.
    pub(crate) changed: u64,
}

/// A name in an open directory.
pub(crate) struct Place {
    /// Keeps the directory open.
    _directory: OwnedFd,
    /// A path through the descriptor: no link on the way is resolved again.
    path: PathBuf,
}

impl Tree {
    pub(crate) fn open(root: &Path) -> io::Result<Tree> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Tree { root: open(root, flags, Mode::empty())? })
    }

    /// Opens a directory below the root; symbolic links, including absolute ones, stay inside.
    fn directory(&self, path: &Path) -> nix::Result<OwnedFd> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        openat2(&self.root, path, how)
    }

    /// The place of `path`. If `make` is set, missing directories on the way are made.
    pub(crate) fn place(&self, path: &Path, make: bool) -> io::Result<Place> {
        let name = path.file_name().ok_or_else(|| wrong("an entry has no name"))?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let directory = match self.directory(parent) {
            Err(nix::Error::ENOENT) if make => {
                self.make_directories(parent)?;
                self.directory(parent)?
            }
            other => other?,
        };
        Ok(Place::new(directory, name))
    }

    /// The names in a directory.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let directory = self.directory(path)?;
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn make_directories(&self, path: &Path) -> io::Result<()> {
        let mut done = PathBuf::new();
        for part in path.components() {
            let above = self.directory(&done)?;
            done.push(part);
            if matches!(self.directory(&done), Err(nix::Error::ENOENT)) {
                // If a link leads nowhere, this fails.
                fs::create_dir(Place::new(above, part.as_os_str()).path)?;
            }
        }
        Ok(())
    }
}

impl Place {
    fn new(directory: OwnedFd, name: &OsStr) -> Place {
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Place { _directory: directory, path }
    }

    /// Removes the existing file, or a directory with everything below it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&self.path),
            Ok(_) => fs::remove_file(&self.path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory, which may already exist.
    pub(crate) fn directory(&self, attributes: Attributes) -> io::Result<()> {
        if !fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_dir()) {
            self.remove()?;
            fs::create_dir(&self.path)?;
        }
        lchown(&self.path, Some(attributes.user), Some(attributes.group))?;
        // The path is a directory, and the tree has no other writer.
        fs::set_permissions(&self.path, Permissions::from_mode(attributes.mode))
    }

    /// Makes a file; replaces an existing one.
    pub(crate) fn file(&self, mut content: impl Read, attributes: Attributes) -> io::Result<u64> {
        self.remove()?;
        let mut file: File =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        let bytes = io::copy(&mut content, &mut file)?;
        fchown(&file, Some(attributes.user), Some(attributes.group))?;
        // This must follow the change of the owner, which would clear the set-user-ID bit.
        file.set_permissions(Permissions::from_mode(attributes.mode))?;
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(attributes.changed));
        changed.map_or(Ok(()), |changed| file.set_modified(changed))?;
        Ok(bytes)
    }

    /// Makes a symbolic link; replaces an existing file.
    pub(crate) fn link(&self, to: &Path, attributes: Attributes) -> io::Result<()> {
        self.remove()?;
        symlink(to, &self.path)?;
        lchown(&self.path, Some(attributes.user), Some(attributes.group))
    }

    /// Makes another name for the file `of`.
    pub(crate) fn hard_link(&self, of: &Place) -> io::Result<()> {
        if fs::symlink_metadata(&of.path)?.is_dir() {
            return Err(wrong("a directory has no second name"));
        }
        // The place may already be a name of this file, and the only one.
        if self.is_same(of) {
            return Ok(());
        }
        self.remove()?;
        fs::hard_link(&of.path, &self.path)
    }

    fn is_same(&self, of: &Place) -> bool {
        let number = |path: &Path| fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()));
        number(&self.path).is_ok_and(|own| number(&of.path).is_ok_and(|other| own == other))
    }

    /// Makes a named pipe; replaces an existing file.
    pub(crate) fn pipe(&self, attributes: Attributes) -> io::Result<()> {
        self.remove()?;
        mkfifo(&self.path, Mode::from_bits_truncate(attributes.mode))?;
        lchown(&self.path, Some(attributes.user), Some(attributes.group))
    }
}

/// The path of an entry relative to the root directory: without `.` and a leading slash. Empty for
/// the root directory itself.
pub(crate) fn inside(path: &[u8]) -> io::Result<PathBuf> {
    let shown = String::from_utf8_lossy(path).into_owned();
    if path.len() > LONGEST || CString::new(path).is_err() {
        return Err(wrong(format!("{shown:.80}: no path")));
    }
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) if part.as_bytes().len() <= 255 => inside.push(part),
            Component::CurDir | Component::RootDir => {}
            _ => return Err(wrong(format!("{shown:.80}: leads out of the image"))),
        }
    }
    Ok(inside)
}
