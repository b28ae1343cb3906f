//! Sockets that hold reserved ports in the namespace of the node, and the ports that Linux must not
//! give programs of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use europa_api::PortProtocol;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};

use super::assign::Reserved;

/// Ports that the kernel gives no program of itself, in the namespace of the reading thread.
const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";
/// Numbers for `any` of a slice without a range of its own.
pub(super) const FREE: RangeInclusive<u16> = 1024..=32_767;

/// The sockets of a reservation, by protocol, number and addresses.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<(PortProtocol, u16, Vec<IpAddr>), Vec<OwnedFd>>);

impl Held {
    /// Releases those that no reservation has.
    pub(super) fn retain(&mut self, all: &[Reserved]) {
        self.0.retain(|(protocol, port, addresses), _| {
            all.iter().any(|one| {
                one.protocol == *protocol && one.port == *port && one.addresses == *addresses
            })
        });
    }

    /// Holds the port of a reservation. With `any` and no number, or one that another program has,
    /// it takes the first free number of a range.
    pub(super) fn hold(&mut self, one: &mut Reserved, range: RangeInclusive<u16>) {
        let key = |port| (one.protocol, port, one.addresses.clone());
        if one.port != 0 && self.0.contains_key(&key(one.port)) {
            one.message = None;
            return;
        }
        let mut refused = match one.port {
            0 => None,
            port => match hold(one.protocol, port, &one.addresses) {
                Ok(sockets) => {
                    self.0.insert(key(port), sockets);
                    one.message = None;
                    return;
                }
                Err(error) => Some(error),
            },
        };
        if one.any {
            for port in range.chain(FREE) {
                match hold(one.protocol, port, &one.addresses) {
                    Ok(sockets) => {
                        self.0.insert(key(port), sockets);
                        (one.port, one.message) = (port, None);
                        return;
                    }
                    Err(error) => refused = Some(error),
                }
            }
            one.port = 0;
        }
        let why = match refused {
            Some(error) if error.kind() == io::ErrorKind::AddrInUse => {
                "another program of the machine has it: `ss -lntup` shows which".to_owned()
            }
            Some(error) => error.to_string(),
            None => "no number is free".to_owned(),
        };
        one.message = Some(why);
    }
}

/// Binds a port at all of these addresses; without any, at all of the node.
fn hold(protocol: PortProtocol, port: u16, addresses: &[IpAddr]) -> io::Result<Vec<OwnedFd>> {
    if !addresses.is_empty() {
        return addresses.iter().map(|address| bound(protocol, *address, port, false)).collect();
    }
    match bound(protocol, Ipv6Addr::UNSPECIFIED.into(), port, true) {
        // A machine without IPv6.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32) => {
            Ok(vec![bound(protocol, Ipv4Addr::UNSPECIFIED.into(), port, false)?])
        }
        socket => Ok(vec![socket?]),
    }
}

/// A socket that has a port and receives nothing there. Without SO_REUSEADDR no other can share it.
fn bound(protocol: PortProtocol, address: IpAddr, port: u16, both: bool) -> io::Result<OwnedFd> {
    let kind = match protocol {
        PortProtocol::Tcp => SockType::Stream,
        PortProtocol::Udp => SockType::Datagram,
    };
    let (family, at) = match address {
        IpAddr::V4(v4) => (AddressFamily::Inet, SocketAddr::V4(SocketAddrV4::new(v4, port))),
        IpAddr::V6(v6) => (AddressFamily::Inet6, SocketAddr::V6(SocketAddrV6::new(v6, port, 0, 0))),
    };
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &!both)?;
    }
    if protocol == PortProtocol::Udp {
        // Packets that reach it anyway take no memory.
        setsockopt(&socket, sockopt::RcvBuf, &1)?;
    }
    bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrStorage::from(at))?;
    Ok(socket)
}

/// Has the kernel give none of these numbers to a program of itself, in place of those of `before`.
/// Numbers of other programs stay.
///
/// # Errors
/// The parameter cannot be read or written.
pub(super) fn keep_from_others(before: &BTreeSet<u16>, wanted: &BTreeSet<u16>) -> io::Result<()> {
    let text = fs::read_to_string(RESERVED)?;
    let mut all = read(&text);
    all.retain(|port| !before.contains(port));
    all.extend(wanted);
    let new = write(&all);
    if new == text.trim() { Ok(()) } else { fs::write(RESERVED, new + "\n") }
}

/// Reads numbers and ranges with commas.
fn read(text: &str) -> BTreeSet<u16> {
    let mut all = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            all.extend(first..=last);
        }
    }
    all
}

/// Writes them so.
fn write(all: &BTreeSet<u16>) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for port in all {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*port) => *last = *port,
            _ => ranges.push((*port, *port)),
        }
    }
    let text = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ports() {
        for (text, written) in
            [("", ""), ("8080", "8080"), ("22,80-82,90", "22,80-82,90"), ("1,2,3\n", "1-3")]
        {
            assert_eq!(write(&read(text)), written, "{text:?}");
        }
        assert_eq!(write(&BTreeSet::from([65_534, 65_535, 1])), "1,65534-65535");
    }

    #[test]
    fn a_held_port_is_no_other_programs() {
        let mut held = Held::default();
        let mut one = Reserved {
            slice: "red".into(),
            row: 0,
            protocol: PortProtocol::Tcp,
            any: true,
            port: 0,
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            place: None,
            message: None,
        };
        held.hold(&mut one, 24_000..=24_100);
        assert!(one.message.is_none() && one.port >= 1024, "{one:?}");
        // The standard library sets SO_REUSEADDR, as servers do.
        let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, one.port));
        assert_eq!(other.map_err(|e| e.kind()).err(), Some(io::ErrorKind::AddrInUse));
        let mut same = Reserved { any: false, row: 1, slice: "blue".into(), ..one.clone() };
        Held::default().hold(&mut same, 1..=0);
        assert!(same.message.is_some_and(|why| why.contains("another program")));
        held.retain(&[]);
        let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, one.port));
        assert!(other.is_ok(), "released");
    }
}
