//! UDP sockets of links between machines, in the caller's network namespace.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{setsockopt, sockopt};

use crate::socket::set_level;

/// Bytes that may wait in a socket while the switch is absent or busy.
const BUFFER_BYTES: usize = 8 << 20;

/// Opens a socket for packets to an address and port of this machine. It does not block.
///
/// # Errors
/// The errors of bind(2): the machine does not have the address, or another program uses the port.
pub fn listen_for_tunnels(local: SocketAddr) -> io::Result<OwnedFd> {
    let socket = OwnedFd::from(open(local)?);
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES)?;
    Ok(socket)
}

/// Opens a socket for packets from an address of this machine to another machine's port. The kernel
/// chooses the local port, which does not change. So packets of one link stay in order if a network
/// spreads them by ports. Packets are not fragmented. The socket does not block.
///
/// # Errors
/// The errors of bind(2) and connect(2): the machine does not have the address, or has no route.
pub fn connect_tunnel(local: IpAddr, remote: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(SocketAddr::new(local, 0))?;
    socket.connect(remote)?;
    let socket = OwnedFd::from(socket);
    setsockopt(&socket, sockopt::SndBufForce, &BUFFER_BYTES)?;
    let (level, option, always) = match remote {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    };
    set_level(&socket, level, option, &always)?;
    Ok(socket)
}

fn open(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The longest UDP payload that reaches the other end of a connected socket unfragmented, as far as
/// the kernel knows.
///
/// # Errors
/// That of getsockopt(2).
pub fn most_payload_bytes(socket: &OwnedFd, remote: IpAddr) -> io::Result<usize> {
    // An IP header without options, and the UDP header.
    let (level, option, headers) = match remote {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, 20 + 8),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 40 + 8),
    };
    let mut bytes: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes an `int`, which is the type of `bytes` and the size in `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut bytes).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or(0).saturating_sub(headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_goes_over_both_families() {
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().expect("an address");
            let there = UdpSocket::bind((ip, 0)).expect("a socket");
            let remote = there.local_addr().expect("its address");
            let socket = connect_tunnel(ip, remote).expect("a socket");
            let most = most_payload_bytes(&socket, ip).expect("an MTU");
            assert!(most > 1200, "{most}");
            UdpSocket::from(socket).send(b"packet").expect("sent");
            let mut bytes = [0; 16];
            assert_eq!(there.recv(&mut bytes).expect("received"), 6);
            // The port is in use, and an address of another machine is refused.
            assert_eq!(
                listen_for_tunnels(remote).map_err(|e| e.kind()).err(),
                Some(io::ErrorKind::AddrInUse)
            );
        }
        let foreign = listen_for_tunnels("192.0.2.77:0".parse().expect("an address"));
        assert_eq!(foreign.map_err(|e| e.kind()).err(), Some(io::ErrorKind::AddrNotAvailable));
    }
}
