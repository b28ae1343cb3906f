//! The only file with clocks and sockets: it moves datagrams between a socket and a state machine.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt, sockopt,
};

use crate::client::{Arrived, Client};
use crate::server::{Datagrams, Server};

/// Time between two ticks at most.
const TICK: Duration = Duration::from_millis(50);
/// Datagrams of one system call, in each direction.
const BATCH: usize = 64;
/// Most batches that are received between two ticks.
const BATCHES: usize = 8;
/// Bytes of a datagram at most.
const LONGEST: usize = 65_536;
/// Size of the socket's buffer in bytes, if the kernel allows it.
const SOCKET_BYTES: usize = 4 << 20;

/// A socket with a clock that begins at 0.
#[derive(Debug)]
pub struct Wire {
    socket: UdpSocket,
    start: Instant,
    buffers: Vec<Vec<u8>>,
}

fn headers() -> MultiHeaders<SockaddrStorage> {
    MultiHeaders::preallocate(BATCH, None)
}

/// The address of an IPv4 or IPv6 socket.
fn address(at: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = at.as_sockaddr_in().map(|at| SocketAddr::from((at.ip(), at.port())));
    v4.or_else(|| at.as_sockaddr_in6().map(|at| SocketAddr::from((at.ip(), at.port()))))
}

impl Wire {
    /// A socket with this address.
    ///
    /// # Errors
    /// The address is not this machine's, or the port is taken.
    pub fn bind(at: SocketAddr) -> io::Result<Wire> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        // A smaller buffer works too, but bursts then lose more datagrams.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BYTES);
        let _ = setsockopt(&socket, sockopt::SndBuf, &SOCKET_BYTES);
        let buffers = vec![vec![0; LONGEST]; BATCH];
        Ok(Wire { socket, start: Instant::now(), buffers })
    }

    /// Its address.
    ///
    /// # Errors
    /// The system's.
    pub fn at(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits for datagrams until the next tick, and gives each to `take`.
    ///
    /// # Errors
    /// A system error, except errors about single datagrams.
    fn turn(
        &mut self,
        limit: Duration,
        mut take: impl FnMut(Duration, SocketAddr, &[u8]),
    ) -> io::Result<()> {
        let timeout = PollTimeout::try_from(limit.min(TICK)).unwrap_or(PollTimeout::ZERO);
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        for _ in 0..BATCHES {
            let received = self.receive()?;
            for (buffer, (length, from)) in self.buffers.iter().zip(&received) {
                if let Some(from) = from {
                    take(self.start.elapsed(), *from, &buffer[..*length]);
                }
            }
            if received.len() < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Receives datagrams into the first buffers; returns their lengths and senders.
    fn receive(&mut self) -> io::Result<Vec<(usize, Option<SocketAddr>)>> {
        let mut headers = headers();
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let socket = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        match recvmmsg(socket, &mut headers, slices.iter_mut(), flags, None) {
            Ok(all) => Ok(all.map(|one| (one.bytes, one.address.and_then(address))).collect()),
            // ECONNREFUSED reports an ICMP error about an earlier datagram.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends datagrams. A datagram that cannot be sent is lost.
    pub fn send(&self, out: &mut Datagrams) {
        for batch in out.chunks(BATCH) {
            let mut headers = headers();
            let slices: Vec<[IoSlice<'_>; 1]> =
                batch.iter().map(|(_, bytes)| [IoSlice::new(bytes)]).collect();
            let to: Vec<Option<SockaddrStorage>> =
                batch.iter().map(|(to, _)| Some(SockaddrStorage::from(*to))).collect();
            let mut first = 0;
            // The call ends at a datagram that fails. It reports an error only if the first one
            // fails.
            while first < batch.len() {
                let (socket, rest) = (self.socket.as_raw_fd(), &slices[first..]);
                let no_control: [nix::sys::socket::ControlMessage<'_>; 0] = [];
                let sent = sendmmsg(
                    socket,
                    &mut headers,
                    rest,
                    &to[first..],
                    no_control,
                    MsgFlags::MSG_DONTWAIT,
                );
                first += sent.map_or(1, |all| all.count().max(1));
            }
        }
        out.clear();
    }

    /// Sends one datagram, and waits for datagrams until `take` returns a value.
    ///
    /// # Errors
    /// A system error. `None` if the time is over.
    pub fn ask<T>(
        &mut self,
        to: SocketAddr,
        question: &[u8],
        limit: Duration,
        mut take: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let end = self.now() + limit;
        let mut answer = None;
        while answer.is_none() && self.now() < end {
            self.socket.send_to(question, to)?;
            let again = self.now() + limit / 4;
            while answer.is_none() && self.now() < again {
                self.turn(TICK, |_, from, bytes| {
                    if from == to && answer.is_none() {
                        answer = take(bytes);
                    }
                })?;
            }
        }
        Ok(answer)
    }

    /// Runs a server until `stops`; then it leaves its ring.
    ///
    /// # Errors
    /// The system's.
    pub fn serve(&mut self, server: &mut Server, stops: impl Fn() -> bool) -> io::Result<()> {
        let mut out = Datagrams::new();
        while !stops() {
            server.tick(self.now(), &mut out);
            self.send(&mut out);
            self.turn(TICK, |now, from, bytes| server.receive(now, from, bytes, &mut out))?;
            self.send(&mut out);
        }
        server.leave(self.now(), &mut out);
        self.send(&mut out);
        Ok(())
    }

    /// Runs a client until `take` breaks. It is called with each arrived message, and with `None`
    /// at each tick; datagrams that it adds are sent.
    ///
    /// # Errors
    /// The system's.
    pub fn run(
        &mut self,
        client: &mut Client,
        mut take: impl FnMut(&mut Client, Duration, Vec<Arrived>, &mut Datagrams) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let mut out = Datagrams::new();
        loop {
            client.tick(self.now(), &mut out);
            self.send(&mut out);
            let mut arrived = Vec::new();
            let wait = Duration::from_millis(20);
            self.turn(wait, |now, from, bytes| {
                arrived.extend(client.receive(now, from, bytes, &mut out));
            })?;
            let flow = take(client, self.now(), arrived, &mut out);
            self.send(&mut out);
            if flow.is_break() {
                return Ok(());
            }
        }
    }
}

/// The own address on the path to a server.
///
/// # Errors
/// There is no route to it.
pub fn own_address(towards: SocketAddr) -> io::Result<std::net::IpAddr> {
    let any: SocketAddr = match towards {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let probe = UdpSocket::bind(any)?;
    // This sends no packet: the kernel only chooses a route.
    probe.connect(towards)?;
    probe.local_addr().map(|at| at.ip())
}
