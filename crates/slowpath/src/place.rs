//! Files of a slow path, written from outside while its programs run.
//!
//! Those programs may make links anywhere in it, even to the host's directories, which this process
//! could write: so it follows no link.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

/// The name of a new file until it replaces the old one.
const NEW: &str = ".europa-new";

/// The owner of a file, in the host's numbers, and its permissions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
}

impl Rights {
    fn give(self, file: &OwnedFd) -> io::Result<()> {
        fchown(file, Some(Uid::from_raw(self.user)), Some(Gid::from_raw(self.group)))?;
        Ok(fchmod(file, Mode::from_bits_truncate(self.mode))?)
    }
}

/// How a text replaces another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a new file: a reader finds the old text or the new one.
    Swap,
    /// In the existing file, as programs have mounted that file.
    Overwrite,
}

/// Makes `folder` of a slow path's file system `root`, and its parents, whose rights are `above`.
pub(crate) fn make_folder(
    root: &Path,
    folder: &Path,
    above: Rights,
    own: Option<Rights>,
) -> io::Result<()> {
    let opened = open_folder(root, folder, Some(above))?;
    own.map_or(Ok(()), |own| own.give(&opened))
}

/// Writes a file.
pub(crate) fn write(
    root: &Path,
    path: &Path,
    text: &[u8],
    (above, own): (Rights, Rights),
    way: Way,
) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = open_folder(root, folder, Some(above))?;
    if way == Way::Overwrite {
        // Without waiting for the other end, if a program has put a pipe there.
        let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&folder, name, flags, Mode::empty()) {
            Ok(there) => {
                let file = File::from(there);
                if !file.metadata()?.is_file() {
                    return Err(io::Error::other("it is no file any more"));
                }
                file.write_all_at(text, 0)?;
                file.set_len(text.len() as u64)?;
                return own.give(&file.into());
            }
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match unlinkat(&folder, NEW, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(&folder, NEW, flags, Mode::from_bits_truncate(0o600))?);
    file.write_all(text)?;
    own.give(&file.into())?;
    Ok(renameat(&folder, NEW, &folder, name)?)
}

/// Takes a file away, or a directory that is empty.
pub(crate) fn remove(root: &Path, path: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let folder = match open_folder(root, folder, None) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let removed = match unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::EISDIR) => unlinkat(&folder, name, UnlinkatFlags::RemoveDir),
        other => other,
    };
    match removed {
        Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn open_folder(root: &Path, folder: &Path, make: Option<Rights>) -> io::Result<OwnedFd> {
    let mut here: OwnedFd = File::open(root)?.into();
    for part in folder.components() {
        let Component::Normal(name) = part else { continue };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = |here: &OwnedFd| openat(here, name, flags, Mode::empty());
        here = match (open(&here), make) {
            (Err(Errno::ENOENT), Some(rights)) => {
                mkdirat(&here, name, Mode::from_bits_truncate(0o700))?;
                let made = open(&here)?;
                rights.give(&made)?;
                made
            }
            (Err(Errno::ENOTDIR | Errno::ELOOP), _) => {
                let name = name.to_string_lossy();
                return Err(io::Error::other(format!("{name} is no directory there any more")));
            }
            (other, _) => other?,
        };
    }
    Ok(here)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// Tests need no rights: all files belong to this process's user.
    fn rights(mode: u32) -> Rights {
        let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
        Rights { user: user.as_raw(), group: group.as_raw(), mode }
    }

    #[test]
    fn files_are_replaced_and_links_are_not_followed() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = inside.path();
        let put = |path: &str, text: &str, way| {
            write(root, Path::new(path), text.as_bytes(), (rights(0o755), rights(0o640)), way)
        };
        put("/run/a/x.conf", "old", Way::Swap).unwrap();
        let number = || fs::metadata(root.join("run/a/x.conf")).unwrap().ino();
        let read = || fs::read_to_string(root.join("run/a/x.conf")).unwrap();
        let before = number();
        put("/run/a/x.conf", "n", Way::Overwrite).unwrap();
        assert_eq!((read().as_str(), number()), ("n", before));
        put("/run/a/x.conf", "newer", Way::Swap).unwrap();
        assert_eq!(read(), "newer");
        assert_ne!(number(), before);
        assert_eq!(fs::metadata(root.join("run/a/x.conf")).unwrap().mode() & 0o777, 0o640);

        // A directory that has become a link to one of the host's.
        fs::remove_dir_all(root.join("run/a")).unwrap();
        symlink(outside.path(), root.join("run/a")).unwrap();
        for way in [Way::Swap, Way::Overwrite] {
            let error = put("/run/a/x.conf", "text", way).expect_err("a link");
            assert!(error.to_string().contains("no directory there any more"), "{error}");
        }
        assert!(remove(root, Path::new("/run/a/x.conf")).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);

        // A file that has become a link to one of the host's.
        let target = outside.path().join("secret");
        fs::write(&target, "untouched").unwrap();
        symlink(&target, root.join("run/y")).unwrap();
        assert!(put("/run/y", "text", Way::Overwrite).is_err());
        put("/run/y", "text", Way::Swap).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(root.join("run/y")).unwrap(), "text");

        remove(root, Path::new("/run/y")).unwrap();
        remove(root, Path::new("/none/y")).unwrap();
        assert!(!root.join("run/y").exists());
    }
}
