//! Shows the files of an image at another place, owned by the users of a user namespace: user 0 of
//! the image is root of that namespace (mount_setattr(2), `MOUNT_ATTR_IDMAP`).

#![allow(unsafe_code)] // System calls that no crate wraps.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;

/// Mounts `root` at the directory `at`, read-only. `users` is a user namespace.
///
/// # Errors
/// The kernel (before 5.19) or the file system of `root` cannot map owners, or `at` is no
/// directory.
pub fn show_mapped(root: &Path, at: &Path, users: impl AsFd) -> io::Result<()> {
    let tree = clone(root)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP | libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: users.as_fd().as_raw_fd() as u64,
    };
    // SAFETY: the path is an empty C string, and the structure has the size that is given.
    let set = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(set).map_err(|errno| {
        let error = io::Error::from(errno);
        let what = "its files cannot be given to the users of a slow path: this needs Linux 5.19 and \
                    a file system such as ext4, xfs or btrfs below /var/lib";
        io::Error::new(error.kind(), format!("{what}: {error}"))
    })?;
    let at = CString::new(at.as_os_str().as_bytes())?;
    // SAFETY: both paths are C strings.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            at.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    Ok(Errno::result(moved).map(drop)?)
}

/// A separate mount of `root` that is not attached anywhere yet.
fn clone(root: &Path) -> io::Result<OwnedFd> {
    let root = CString::new(root.as_os_str().as_bytes())?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: the path is a C string; the descriptor has no other owner.
    unsafe {
        let tree = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, root.as_ptr(), flags);
        Ok(OwnedFd::from_raw_fd(Errno::result(tree)? as i32))
    }
}
