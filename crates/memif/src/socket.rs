//! Opens sockets by path, which needs the rights of the folder's owner. All other modules work with
//! descriptors.
//!
//! A path that begins with `@` is a name in the abstract namespace of the network namespace, as is
//! DPDK's default. Any process in that network namespace can connect to it. For a path, its owner
//! and mode decide. A client can also pass a descriptor whose closing takes long (a file of FUSE),
//! so the mode should be strict.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect as connect_socket,
    listen as listen_socket, socket,
};

use crate::error::MemifError;
use crate::sys;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// Listens at a path for clients. The file has mode `mode`, e.g. `0o600`. If a socket without a
/// server is left there, it is replaced. Dropping the descriptor does not remove the file; see
/// [`clear`].
///
/// # Errors
/// Returns the path, the operation and the kernel's error: `EADDRINUSE` if another process serves
/// it.
pub fn listen(path: &Path, mode: u32) -> Result<OwnedFd, MemifError> {
    let error = |doing| move |source| MemifError::Path { path: path.to_owned(), doing, source };
    let listener = open().map_err(error("make a socket"))?;
    let address = address(path).map_err(error("use it as a socket's path"))?;
    let named = !path.as_os_str().as_bytes().starts_with(b"@");
    if named {
        clear(path).map_err(error("replace it"))?;
    }
    bind(listener.as_raw_fd(), &address).map_err(error("listen there"))?;
    if named {
        // No client can connect before the socket listens, so the mode applies from the beginning.
        fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|failed| error("set its mode")(errno(&failed)))?;
    }
    let backlog = Backlog::new(BACKLOG).map_err(error("listen there"))?;
    listen_socket(&listener, backlog).map_err(error("listen there"))?;
    Ok(listener)
}

/// Accepts the next client of a listening socket; `None` if there is none. Needs no rights.
///
/// # Errors
/// The error of accept(2).
pub fn accept(listener: &OwnedFd) -> Result<Option<OwnedFd>, MemifError> {
    match sys::accept(listener) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => Ok(None),
        Err(source) => Err(MemifError::Kernel { doing: "accept a client", source }),
    }
}

/// Connects to a server without blocking.
///
/// # Errors
/// Returns the path and the kernel's error: `ECONNREFUSED` or `ENOENT` without a server, `EAGAIN`
/// if too many clients wait there.
pub fn connect(path: &Path) -> Result<OwnedFd, MemifError> {
    let error = |doing| move |source| MemifError::Path { path: path.to_owned(), doing, source };
    let socket = open().map_err(error("make a socket"))?;
    let address = address(path).map_err(error("use it as a socket's path"))?;
    connect_socket(socket.as_raw_fd(), &address).map_err(error("connect to it"))?;
    Ok(socket)
}

fn open() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

fn address(path: &Path) -> nix::Result<UnixAddr> {
    match path.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => UnixAddr::new_abstract(name),
        None => UnixAddr::new(path),
    }
}

/// Removes the file of a Unix socket of any kind without a server.
///
/// # Errors
/// `EACCES` and similar, if it cannot be examined or removed.
pub fn clear(path: &Path) -> nix::Result<()> {
    let left = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    // If a server of another socket type listens, the answer is `EPROTOTYPE`.
    let dead = || connect_socket(open()?.as_raw_fd(), &UnixAddr::new(path)?);
    if left && dead() == Err(Errno::ECONNREFUSED) {
        fs::remove_file(path).map_err(|failed| errno(&failed))?;
    }
    Ok(())
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_left_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memif.sock");
        assert!(connect(&path).unwrap_err().to_string().contains("memif.sock: cannot connect"));
        let listener = listen(&path, 0o600).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(accept(&listener).unwrap().is_none());
        let in_use = listen(&path, 0o600).unwrap_err().to_string();
        assert!(in_use.contains("memif.sock: cannot listen there: EADDRINUSE"), "{in_use}");
        assert!(accept(&listener).unwrap().is_some(), "the one who tried");
        let _client = connect(&path).unwrap();
        assert!(accept(&listener).unwrap().is_some());
        drop(listener);
        listen(&path, 0o600).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(listen(&path, 0o600).is_err(), "no socket of ours");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn abstract_names_are_sockets_too() {
        let name = format!("@europa-memif-test-{}", std::process::id());
        let listener = listen(Path::new(&name), 0o600).unwrap();
        let _client = connect(Path::new(&name)).unwrap();
        assert!(accept(&listener).unwrap().is_some());
    }
}
