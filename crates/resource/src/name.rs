//! Names of resources.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Longest path of a Unix socket, without the zero byte at its end.
const MAX_UNIX_PATH: usize = 107;

/// A file or socket outside of a router.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A file to read.
    Read(String),
    /// A file to write, from its beginning.
    Write(String),
    /// A listening socket.
    Listen(Socket),
    /// A socket that finds another.
    Connect(Socket),
}

/// The use of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// [`Resource::Read`].
    Read,
    /// [`Resource::Write`].
    Write,
    /// [`Resource::Listen`].
    Listen,
    /// [`Resource::Connect`].
    Connect,
}

/// A socket's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Socket {
    /// The kind of socket.
    pub kind: Kind,
    /// The socket's own address if it listens, otherwise its peer's.
    pub at: Place,
    /// The socket's own address if it connects, unless the system chooses it.
    pub from: Option<Place>,
}

/// Kinds of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A stream over IP.
    Tcp,
    /// Datagrams over IP.
    Udp,
    /// A stream inside this machine.
    Unix,
    /// Datagrams inside this machine.
    UnixDatagram,
    /// A socket of memif, the protocol by which two processes agree on shared memory for frames.
    Memif,
}

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// IP address and port.
    Inet(SocketAddr),
    /// Path.
    Path(String),
}

impl Access {
    /// All, by name.
    pub const ALL: [(&'static str, Access); 4] = [
        ("read", Access::Read),
        ("write", Access::Write),
        ("listen", Access::Listen),
        ("connect", Access::Connect),
    ];
}

impl Kind {
    const ALL: [(&'static str, Kind); 5] = [
        ("tcp", Kind::Tcp),
        ("udp", Kind::Udp),
        ("unix", Kind::Unix),
        ("unix_dgram", Kind::UnixDatagram),
        ("memif", Kind::Memif),
    ];

    /// Whether the socket carries a stream of bytes, not datagrams.
    pub fn is_stream(self) -> bool {
        matches!(self, Kind::Tcp | Kind::Unix)
    }

    /// Whether its places are paths.
    pub fn is_local(self) -> bool {
        matches!(self, Kind::Unix | Kind::UnixDatagram | Kind::Memif)
    }
}

impl Socket {
    /// Reads a name in the form of documents: `udp 192.0.2.1:53 from 0.0.0.0:1053`.
    ///
    /// # Errors
    /// The text found, and the expected form.
    pub fn parse(text: &str) -> Result<Socket, String> {
        let (kind, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let known = Kind::ALL.iter().find(|(name, _)| *name == kind);
        let Some((_, kind)) = known else {
            let wanted = "expected tcp, udp, unix, unix_dgram or memif";
            return Err(format!("{wanted}, found '{kind}'"));
        };
        let (at, from) = match rest.split_once(" from ") {
            Some((at, from)) => (at, Some(from)),
            None => (rest, None),
        };
        if *kind == Kind::Memif && from.is_some() {
            return Err("a memif has no `from`".to_owned());
        }
        let place = |text| Place::parse(*kind, text);
        Ok(Socket { kind: *kind, at: place(at)?, from: from.map(place).transpose()? })
    }
}

impl Place {
    /// Reads the place of a socket of this kind.
    ///
    /// # Errors
    /// The text found, and the wanted form.
    pub fn parse(kind: Kind, text: &str) -> Result<Place, String> {
        let text = text.trim();
        if kind.is_local() {
            return path(text, MAX_UNIX_PATH).map(Place::Path);
        }
        match text.parse() {
            Ok(address) => Ok(Place::Inet(address)),
            Err(_) => Err(format!("expected ADDRESS:PORT, found '{text}'")),
        }
    }

    /// The place of an IP socket.
    pub fn inet(address: impl Into<IpAddr>, port: u16) -> Place {
        Place::Inet(SocketAddr::new(address.into(), port))
    }
}

fn path(text: &str, most: usize) -> Result<String, String> {
    if text.is_empty() {
        return Err("expected a path, found nothing".to_owned());
    }
    if text.len() > most || text.contains('\0') {
        return Err(format!("'{text}' is no path of up to {most} bytes"));
    }
    Ok(text.to_owned())
}

impl Resource {
    /// Reads a name in the form of documents.
    ///
    /// # Errors
    /// The text found, and the expected form.
    pub fn parse(access: Access, what: &str) -> Result<Resource, String> {
        let file = || {
            let name = path(what, 4095)?;
            match name.starts_with('/') {
                true => Ok(name),
                false => Err(format!("expected a path from the root, found '{name}'")),
            }
        };
        Ok(match access {
            Access::Read => Resource::Read(file()?),
            Access::Write => Resource::Write(file()?),
            Access::Listen => {
                let socket = Socket::parse(what)?;
                if socket.from.is_some() {
                    return Err("`from` belongs to `connect`".to_owned());
                }
                Resource::Listen(socket)
            }
            Access::Connect => Resource::Connect(Socket::parse(what)?),
        })
    }

    /// Its use.
    pub fn access(&self) -> Access {
        match self {
            Resource::Read(_) => Access::Read,
            Resource::Write(_) => Access::Write,
            Resource::Listen(_) => Access::Listen,
            Resource::Connect(_) => Access::Connect,
        }
    }

    /// Whether using the resource makes memory that is shared with another process.
    pub fn shares_memory(&self) -> bool {
        let (Resource::Listen(socket) | Resource::Connect(socket)) = self else { return false };
        socket.kind == Kind::Memif
    }

    /// Its name without its use.
    pub fn what(&self) -> String {
        match self {
            Resource::Read(path) | Resource::Write(path) => path.clone(),
            Resource::Listen(socket) | Resource::Connect(socket) => socket.to_string(),
        }
    }
}

impl std::str::FromStr for Resource {
    type Err = String;

    /// Reads the text of [`fmt::Display`]: `read: /var/traces/in.pcap`.
    fn from_str(text: &str) -> Result<Resource, String> {
        let (name, what) = text.split_once(':').unwrap_or((text, ""));
        let access = Access::ALL.iter().find(|(known, _)| *known == name.trim());
        let (_, access) = access.ok_or_else(|| format!("'{name}' is nothing to do"))?;
        Resource::parse(*access, what.trim())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Access::ALL.iter().find(|(_, access)| *access == self.access());
        write!(f, "{}: {}", name.map_or("", |(name, _)| name), self.what())
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Kind::ALL.iter().find(|(_, kind)| *kind == self.kind);
        write!(f, "{} {}", name.map_or("", |(name, _)| name), self.at)?;
        match &self.from {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Inet(address) => address.fmt(f),
            Place::Path(path) => path.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (access, what) in [
            (Access::Read, "/a b/c.pcap"),
            (Access::Write, "/x"),
            (Access::Listen, "tcp 0.0.0.0:80"),
            (Access::Listen, "unix /run/x.sock"),
            (Access::Listen, "memif /run/x.sock"),
            (Access::Connect, "memif @x"),
            (Access::Connect, "udp 192.0.2.1:53 from 0.0.0.0:1053"),
            (Access::Connect, "unix_dgram /run/x from /run/y"),
            (Access::Connect, "tcp [2001:db8::1]:80"),
        ] {
            let resource = Resource::parse(access, what).unwrap();
            assert_eq!((resource.access(), resource.what()), (access, what.to_owned()));
            assert_eq!(resource.to_string().parse(), Ok(resource));
        }
        let resource = Resource::parse(Access::Connect, " udp   10.0.0.1:7 ").unwrap();
        assert_eq!(resource.to_string(), "connect: udp 10.0.0.1:7");
    }

    #[test]
    fn mistakes_are_named() {
        for (access, what, error) in [
            (Access::Read, "", "expected a path, found nothing"),
            (Access::Read, "a.pcap", "expected a path from the root, found 'a.pcap'"),
            (
                Access::Listen,
                "sctp 1.2.3.4:5",
                "expected tcp, udp, unix, unix_dgram or memif, found 'sctp'",
            ),
            (Access::Listen, "tcp 80", "expected ADDRESS:PORT, found '80'"),
            (Access::Listen, "udp 1.2.3.4:5 from 1.2.3.4:6", "`from` belongs to `connect`"),
            (Access::Connect, "unix", "expected a path, found nothing"),
            (Access::Connect, "memif /x from /y", "a memif has no `from`"),
        ] {
            assert_eq!(Resource::parse(access, what), Err(error.to_owned()), "{what}");
        }
    }
}
