//! Sockets that listen and sockets that are connected, of both families.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Ports that are tried if the first one is in use.
const TRIES: u16 = 10;

/// A socket that listens.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens on a TCP port; with `search`, on one of the next ports if it is in use.
    pub(crate) fn tcp(port: u16, search: bool, local: bool) -> io::Result<(Listener, u16)> {
        let address = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let last = if search { port.saturating_add(TRIES) } else { port };
        let mut result = Err(io::ErrorKind::AddrInUse.into());
        for port in port..=last {
            result = TcpListener::bind((address, port));
            if result.is_ok() {
                break;
            }
        }
        let listener = result?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok((Listener::Tcp(listener), port))
    }

    pub(crate) fn unix(path: &str) -> io::Result<Listener> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener))
    }

    /// The next connection and its peer.
    pub(crate) fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Tcp(stream), format!(" from {from}")))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), String::new()))
            }
        }
    }
}

impl Stream {
    /// A connection that this process has inherited.
    #[allow(unsafe_code)]
    pub(crate) fn inherited(descriptor: i32) -> io::Result<Stream> {
        // Later descriptors may have reused the numbers of closed ones.
        if descriptor < 0 || !std::path::Path::new(&format!("/proc/self/fd/{descriptor}")).exists()
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        // SAFETY: the descriptor is open, and the caller of the process has given it to this socket
        // by naming it.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let stream = UnixStream::from(owned);
        stream.set_nonblocking(true)?;
        Ok(Stream::Unix(stream))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    /// A second handle, to wait for.
    pub(crate) fn watched(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }
}
