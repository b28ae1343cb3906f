//! Opening resources.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use europa_memif::{MemifError, socket as memif};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind, connect,
    setsockopt, socket, sockopt,
};

use crate::connector;
use crate::name::{Kind, Place, Resource, Socket};

/// Permissions of a memif's socket: each process that may connect shares its memory.
const MEMIF_MODE: u32 = 0o600;

impl Resource {
    /// Opens the resource for the caller itself. Sockets do not block afterwards.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(&self) -> io::Result<OwnedFd> {
        match self {
            Resource::Read(path) => Ok(File::open(path)?.into()),
            Resource::Write(path) => Ok(File::create(path)?.into()),
            Resource::Listen(socket) => socket.listen(),
            Resource::Connect(socket) => socket.connect(true),
        }
    }

    /// Opens the resource for a router, in a process that has more rights and must not wait. Files
    /// must be regular ones, and a stream may still be connecting. A file to write is always a new
    /// one, so a process with the old file cannot affect it.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_granted(&self) -> io::Result<OwnedFd> {
        let careful = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        match self {
            Resource::Read(path) => {
                let file = OpenOptions::new().read(true).custom_flags(careful.bits()).open(path)?;
                regular(file.metadata()?)?;
                Ok(file.into())
            }
            Resource::Write(path) => {
                match fs::symlink_metadata(path) {
                    Ok(there) => {
                        regular(there)?;
                        fs::remove_file(path)?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                Ok(OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?.into())
            }
            Resource::Listen(socket) => socket.listen(),
            Resource::Connect(socket) => socket.connect(false),
        }
    }

    /// Opens a substitute without side effects, for testing a configuration.
    ///
    /// # Errors
    /// The system's error.
    pub fn stand_in(&self) -> io::Result<OwnedFd> {
        match self {
            Resource::Read(_) => self.open_granted(),
            Resource::Write(_) => Ok(OpenOptions::new().write(true).open("/dev/null")?.into()),
            Resource::Listen(_) | Resource::Connect(_) => Ok(UnixDatagram::unbound()?.into()),
        }
    }

    /// Removes the file of the socket, if no server uses the socket any more.
    ///
    /// # Errors
    /// The system's error.
    pub fn clear(&self) -> io::Result<()> {
        let place = match self {
            Resource::Listen(socket) => Some(&socket.at),
            Resource::Connect(socket) => socket.from.as_ref(),
            Resource::Read(_) | Resource::Write(_) => None,
        };
        match place {
            Some(Place::Path(path)) => clear(path),
            Some(Place::Inet(_)) | None => Ok(()),
        }
    }
}

fn regular(metadata: fs::Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("not a regular file")),
    }
}

impl Socket {
    fn listen(&self) -> io::Result<OwnedFd> {
        match (self.kind, &self.at) {
            (Kind::Tcp, Place::Inet(address)) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                // Connections that it accepts inherit this option.
                let _ = setsockopt(&listener, sockopt::TcpNoDelay, &true);
                Ok(listener.into())
            }
            (Kind::Udp, Place::Inet(address)) => {
                let socket = UdpSocket::bind(address)?;
                socket.set_nonblocking(true)?;
                Ok(socket.into())
            }
            (Kind::Unix, Place::Path(path)) => {
                clear(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(listener.into())
            }
            (Kind::UnixDatagram, Place::Path(path)) => {
                clear(path)?;
                let socket = UnixDatagram::bind(path)?;
                socket.set_nonblocking(true)?;
                Ok(socket.into())
            }
            (Kind::Memif, Place::Path(path)) => {
                memif::listen(Path::new(path), MEMIF_MODE).map_err(of_memif)
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// A datagram socket without a peer address accepts all peers. A memif has a
    /// [`Connector`](crate::Connector).
    fn connect(&self, wait: bool) -> io::Result<OwnedFd> {
        if let (Kind::Memif, Place::Path(path)) = (self.kind, &self.at) {
            return connector::serve(path.into());
        }
        let kind = if self.kind.is_stream() { SockType::Stream } else { SockType::Datagram };
        let family = match &self.at {
            Place::Path(_) => AddressFamily::Unix,
            Place::Inet(address) if address.is_ipv4() => AddressFamily::Inet,
            Place::Inet(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_CLOEXEC;
        let flags = if wait { flags } else { flags | SockFlag::SOCK_NONBLOCK };
        let socket = socket(family, kind, flags, None)?;
        if self.kind == Kind::Tcp {
            setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
        }
        match &self.from {
            Some(Place::Inet(address)) => {
                setsockopt(&socket, sockopt::ReuseAddr, &true)?;
                bind(socket.as_raw_fd(), &SockaddrStorage::from(*address))?;
            }
            Some(Place::Path(path)) => {
                clear(path)?;
                bind(socket.as_raw_fd(), &UnixAddr::new(path.as_str())?)?;
            }
            None => {}
        }
        match &self.at {
            Place::Path(path) => reach(&socket, &UnixAddr::new(path.as_str())?)?,
            Place::Inet(address) if address.ip().is_unspecified() && !self.kind.is_stream() => {}
            Place::Inet(address) => reach(&socket, &SockaddrStorage::from(*address))?,
        }
        if wait {
            nix::fcntl::fcntl(&socket, nix::fcntl::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(socket)
    }
}

/// Accepts the next connection of a listening socket, and returns its peer. It does not block.
///
/// # Errors
/// The system's error: [`io::ErrorKind::WouldBlock`] if no connection is waiting.
pub fn accept(listener: &OwnedFd, kind: Kind) -> io::Result<(OwnedFd, Option<IpAddr>)> {
    let listener = listener.try_clone()?;
    if kind.is_local() {
        let (stream, _) = UnixListener::from(listener).accept()?;
        stream.set_nonblocking(true)?;
        return Ok((stream.into(), None));
    }
    let (stream, from) = TcpListener::from(listener).accept()?;
    stream.set_nonblocking(true)?;
    Ok((stream.into(), Some(from.ip())))
}

/// The system's error.
pub(crate) fn of_memif(error: MemifError) -> io::Error {
    match error {
        MemifError::Path { source, .. } | MemifError::Kernel { source, .. } => source.into(),
        other => io::Error::other(other.to_string()),
    }
}

/// Connects, or begins to.
fn reach(socket: &OwnedFd, to: &dyn SockaddrLike) -> io::Result<()> {
    match connect(socket.as_raw_fd(), to) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes the socket of a process that has ended.
fn clear(path: &str) -> io::Result<()> {
    Ok(memif::clear(Path::new(path))?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::name::Access;

    fn resource(access: Access, what: &str) -> Resource {
        Resource::parse(access, what).unwrap()
    }

    #[test]
    fn files_are_regular_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let write = resource(Access::Write, &path("a"));
        File::from(write.open_granted().unwrap()).write_all(b"old, and longer").unwrap();
        let mut old = File::open(path("a")).unwrap();
        File::from(write.open_granted().unwrap()).write_all(b"new").unwrap();
        let mut text = String::new();
        old.read_to_string(&mut text).unwrap();
        assert_eq!(
            (text.as_str(), fs::read(path("a")).unwrap()),
            ("old, and longer", b"new".to_vec())
        );
        std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
        let error = resource(Access::Write, &path("link")).open_granted().unwrap_err();
        assert_eq!(error.to_string(), "not a regular file");
        assert!(resource(Access::Read, "/dev/zero").open_granted().is_err());
        assert!(resource(Access::Read, &path("none")).open_granted().is_err());
        // A test has no side effects.
        write.stand_in().unwrap();
        assert_eq!(fs::read(path("a")).unwrap(), b"new");
    }

    #[test]
    fn sockets_find_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").to_str().unwrap().to_owned();
        let listen = resource(Access::Listen, &format!("unix {path}"));
        let first = listen.open_granted().unwrap();
        assert!(listen.open_granted().is_err(), "somebody listens");
        resource(Access::Connect, &format!("unix {path}")).open_granted().unwrap();
        listen.clear().unwrap();
        resource(Access::Connect, &format!("unix {path}")).open_granted().expect("still there");
        drop(first);
        listen.open().expect("what was left behind is taken away");
        for kind in ["unix", "unix_dgram", "memif"] {
            let listen = resource(Access::Listen, &format!("{kind} {path}"));
            let served = listen.open().unwrap();
            for other in ["unix", "unix_dgram", "memif"] {
                resource(Access::Listen, &format!("{other} {path}")).clear().unwrap();
            }
            assert!(fs::exists(&path).unwrap(), "{kind}: somebody serves it");
            drop(served);
            listen.clear().unwrap();
            assert!(!fs::exists(&path).unwrap(), "{kind}: nobody serves it");
            listen.clear().expect("nothing to clear");
        }
        fs::write(&path, "a file").unwrap();
        listen.clear().unwrap();
        fs::remove_file(&path).expect("no socket, not ours");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let connect = resource(Access::Connect, &format!("tcp {address}"));
        let mut stream = TcpStream::from(connect.open().unwrap());
        stream.write_all(b"x").unwrap();
        let mut byte = [0];
        tcp.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }
}
