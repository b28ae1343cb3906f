//! The file system that a sandboxed process sees: an empty read-only tmpfs, with the read-only
//! mounts of a user's program in it.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, pivot_root};

use crate::error::{SandboxError, Step};
use crate::profile::Mount;

/// The mount point on which the new root is assembled. The mount hides the folder's contents, so
/// every host must have the folder, and no program may be below it.
const STAGE: &str = "/proc";

/// Mounts here have no devices, and executing a file gives no privilege.
const HARMLESS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// Replaces the root of the current (already private) mount namespace.
pub(crate) fn replace(mounts: &[Mount]) -> Result<(), SandboxError> {
    const NONE: Option<&str> = None;
    // Otherwise every change below would also appear in the host's namespace.
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .step("making mounts private")?;
    let exec = if mounts.is_empty() { MsFlags::MS_NOEXEC } else { MsFlags::empty() };
    mount(
        Some("none"),
        STAGE,
        Some("tmpfs"),
        HARMLESS | exec,
        // Enough room for mount points, not for data.
        Some("size=64k,nr_inodes=1024,mode=0555"),
    )
    .step("mounting the empty root")?;
    // The process must be able to pass the folders above the mounts, which it does not own.
    umask(Mode::from_bits_truncate(0o022));
    for wanted in mounts {
        bind(wanted)
            .map_err(|source| SandboxError::Mount { path: wanted.source.clone(), source })?;
    }
    umask(Mode::from_bits_truncate(0o077));
    chdir(STAGE).step("entering the empty root")?;
    // Puts the old root on top of the new one, then detaches it: so the old root needs no folder.
    pivot_root(".", ".").step("pivoting the root")?;
    umount2(".", MntFlags::MNT_DETACH).step("detaching the old root")?;
    chdir("/").step("entering the new root")?;
    mount(
        NONE,
        "/",
        NONE,
        MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | HARMLESS | exec,
        NONE,
    )
    .step("making the root read-only")
}

/// Binds one path, without the mounts below it, then makes the bind mount read-only: the first call
/// ignores such flags.
fn bind(wanted: &Mount) -> io::Result<()> {
    const NONE: Option<&str> = None;
    let place = inside(&wanted.target)?;
    if fs::metadata(&wanted.source)?.is_dir() {
        fs::create_dir_all(&place)?;
    } else {
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        if !place.exists() {
            fs::write(&place, b"")?;
        }
    }
    mount(Some(&wanted.source), &place, NONE, MsFlags::MS_BIND, NONE)?;
    mount(
        NONE,
        &place,
        NONE,
        MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | HARMLESS,
        NONE,
    )?;
    Ok(())
}

/// The path of a mount point while the root is being assembled. A target with `..` could leave the
/// stage, so it is refused.
fn inside(target: &Path) -> io::Result<PathBuf> {
    let mut place = PathBuf::from(STAGE);
    let mut depth = 0_u32;
    for component in target.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => {
                place.push(name);
                depth += 1;
            }
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "target must be absolute and without '..'",
                ));
            }
        }
    }
    if !target.is_absolute() || depth == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "target must be absolute and not '/'",
        ));
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stay_inside() {
        for (target, wanted) in [
            ("/usr/lib", Some("/proc/usr/lib")),
            ("/a/./b", Some("/proc/a/b")),
            ("/", None),
            ("usr", None),
            ("/usr/../etc", None),
            ("../etc", None),
        ] {
            assert_eq!(inside(Path::new(target)).ok(), wanted.map(PathBuf::from), "{target}");
        }
    }
}
