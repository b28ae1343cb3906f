//! # Socket
//!
//! ## Synopsis
//! `Socket("TCP", ADDR, PORT [, LOCAL_ADDR, LOCAL_PORT, ...])`,
//! `Socket("UDP", ADDR, PORT [, LOCAL_ADDR, LOCAL_PORT, ...])`,
//! `Socket("UNIX", FILENAME [, LOCAL_FILENAME, ...])`,
//! `Socket("UNIX_DGRAM", FILENAME [, LOCAL_FILENAME, ...])`
//!
//! ## Ports
//! At most one input, push or pull, and at most one push output. Packets do not flow through.
//!
//! ## Description
//! Sends the contents of packets by a socket, and makes packets of the received data.
//!
//! A server binds the address and port, or the file. It talks to one TCP or Unix peer at a time,
//! and answers the sender of the last datagram. A client connects when the router starts, and
//! receives from its peer only. A UDP client whose ADDR is 0.0.0.0 sends to each packet's
//! destination address annotation. When a connection ends, a server accepts the next one; a client
//! does not connect again. Data that a socket does not accept at once waits. When 1024 pushed
//! packets wait, the whole router waits until the peer accepts some, for a second at most; after
//! that packets are dropped. All queues of a router together keep at most five eighths of its
//! packet pool.
//!
//! At a hot swap the socket is opened again. Waiting datagrams leave by the new socket. Data for a
//! stream's peer is lost with the connection.
//!
//! In a router of a node each socket needs a grant: `listen: tcp ADDR:PORT` for a server, `connect:
//! tcp ADDR:PORT [from LOCAL_ADDR:LOCAL_PORT]` for a client. Other types have `udp`, `unix` or
//! `unix_dgram` in place of `tcp`. The socket lies in the node's namespace, not in the router's.
//!
//! ## Arguments
//! - TYPE: `TCP`, `UDP`, `UNIX` or `UNIX_DGRAM`.
//! - CLIENT (keyword): connect, do not bind. Default: true without outputs, or with a local
//!   address, otherwise false.
//! - SNAPLEN (keyword): most bytes of a packet, default 2048.
//! - HEADROOM (keyword): bytes left free in front, default 64.
//! - TIMESTAMP (keyword): give packets the time of their arrival; default true.
//! - SNDBUF, RCVBUF (keywords): bytes of the socket's buffers; default the system's. Not in a
//!   router of a node.
//! - ALLOW, DENY (keywords): names of IP route tables. A server refuses a peer that DENY's table
//!   contains, unless ALLOW's table contains it too.
//! - VERBOSE (keyword): log connections; default false.
//! - NODELAY (keyword): send small segments of TCP at once; default true.
//! - PROPER (keyword): accepted.
//!
//! ## Handlers
//! - `count` (read): packets sent.
//! - `drops` (read): packets that could not be sent.
//! - `connected` (read): whether there is a peer to send to.
//!
//! ## See also
//! `KernelTun`, `FromDevice`, `ControlSocket`

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::rc::Rc;

use europa_engine::{Interest, Resource, arguments};
use europa_resource::{Kind, Place, Socket as Name, accept};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    MsgFlags, SockaddrIn, SockaddrStorage, recv, recvmsg, send, sendmsg, setsockopt, sockopt,
};

use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::values::Port;

/// Tokens of descriptors: the socket that was opened, and the connection.
const LISTENER: u32 = 0;
const PEER: u32 = 1;
/// Most packets that wait for a socket.
const MOST_WAITING: usize = 1024;
/// Longest time that the router waits for a peer that accepts nothing while this many packets wait,
/// in milliseconds.
const PATIENCE_MS: u16 = 1000;
/// How often a socket may be writable and then not accept a whole packet.
const MOST_STALLED: u32 = 1000;
/// Packets of one turn.
const BURST: usize = 32;

/// A socket.
pub(crate) struct Socket {
    resource: Option<Resource>,
    kind: Kind,
    client: bool,
    snap_length: usize,
    headroom: usize,
    timestamp: bool,
    verbose: bool,
    nodelay: bool,
    buffers: [Option<usize>; 2],
    tables: [Option<String>; 2],
    /// A UDP client without a peer: the port that all packets are for.
    any: Option<u16>,
    opened: Option<Rc<OwnedFd>>,
    peer: Option<Rc<OwnedFd>>,
    /// The peer that a datagram server answers.
    remote: Option<SockaddrStorage>,
    waiting: VecDeque<Packet>,
    /// Its limit in the pool.
    share: Share,
    blocked: bool,
    pulls: bool,
    count: u64,
    drops: u64,
}

impl Default for Socket {
    fn default() -> Socket {
        Socket {
            resource: None,
            kind: Kind::Tcp,
            client: false,
            snap_length: 2048,
            headroom: 64,
            timestamp: true,
            verbose: false,
            nodelay: true,
            buffers: [None; 2],
            tables: [None, None],
            any: None,
            opened: None,
            peer: None,
            remote: None,
            waiting: VecDeque::new(),
            share: Share::default(),
            blocked: false,
            pulls: false,
            count: 0,
            drops: 0,
        }
    }
}

impl Class for Socket {
    const INFO: ClassInfo = ClassInfo::new("Socket", "0-1/0-1")
        .processing("a/h")
        .flow("x/y")
        .not_inline("waits for a socket")
        .consumes();
}

/// An address of either kind.
fn address(
    name: &'static str,
    arguments: &Arguments<'_>,
    text: &str,
) -> Result<IpAddr, ConfigError> {
    match text.parse::<Ipv6Addr>() {
        Ok(address) => Ok(address.into()),
        Err(_) => arguments.value::<Ipv4Addr>(name, 1, text).map(IpAddr::from),
    }
}

impl Socket {
    /// The arguments that name the addresses: that of the peer or its own, and a local one.
    fn places(&self, arguments: &mut Arguments<'_>) -> Result<(Place, Option<Place>), ConfigError> {
        if self.kind.is_local() {
            let place = |text: String| Place::parse(self.kind, &text).map_err(ConfigError::other);
            let at = place(arguments.mandatory("FILENAME")?)?;
            let from = arguments.positional("LOCAL_FILENAME")?.map(place).transpose()?;
            return Ok((at, from));
        }
        let text: String = arguments.mandatory("ADDR")?;
        let host = address("ADDR", arguments, &text)?;
        let port: Port = arguments.mandatory("PORT")?;
        let text: Option<String> = arguments.positional("LOCAL_ADDR")?;
        let local = text.map(|text| address("LOCAL_ADDR", arguments, &text)).transpose()?;
        let local_port: Option<Port> = arguments.positional("LOCAL_PORT")?;
        let nowhere = match host {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let from = match (local, local_port) {
            (None, None) => None,
            (local, port) => {
                Some(Place::inet(local.unwrap_or(nowhere), port.unwrap_or_default().0))
            }
        };
        Ok((Place::inet(host, port.0), from))
    }

    /// Whether the server accepts packets of a peer.
    fn allows(&self, from: Option<IpAddr>, context: &mut Context<'_>) -> bool {
        let Some(address) = from.map(|from| from.to_string()) else { return true };
        let mut inside = |table: &Option<String>| {
            let table = table.as_ref()?;
            let answer = context.read_handler(&format!("{table}.lookup"), &address).ok()?;
            Some(!answer.starts_with("-1"))
        };
        let [allow, deny] = &self.tables;
        inside(allow) == Some(true) || inside(deny) != Some(true)
    }

    fn say(&self, context: &mut Context<'_>, what: &str) {
        if self.verbose {
            context.log_with(|name| format!("{name} :: Socket: {what}"));
        }
    }

    /// Takes the next connection that is allowed.
    fn accept(&mut self, context: &mut Context<'_>) {
        let Some(listener) = self.opened.clone() else { return };
        while self.peer.is_none() {
            let (peer, from) = match accept(&listener, self.kind) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => return,
            };
            if !self.allows(from, context) {
                self.say(context, &format!("denied connection{}", whom(from)));
                continue;
            }
            self.say(context, &format!("opened connection{}", whom(from)));
            self.attach(Rc::new(peer), context);
        }
    }

    /// Continues with a connection.
    fn attach(&mut self, peer: Rc<OwnedFd>, context: &mut Context<'_>) {
        context.unwatch(LISTENER, Interest::Read);
        context.watch(PEER, Interest::Read, peer.clone());
        self.peer = Some(peer);
        self.flush(context);
    }

    /// The connection has ended.
    fn close(&mut self, context: &mut Context<'_>) {
        context.unwatch(PEER, Interest::Read);
        context.unwatch(PEER, Interest::Write);
        self.say(context, "closed connection");
        self.peer = None;
        self.blocked = false;
        self.drops += self.waiting.len() as u64;
        self.waiting.clear();
        self.share.set(0);
        if let Some(listener) = self.opened.clone().filter(|_| !self.client) {
            context.watch(LISTENER, Interest::Read, listener);
            self.accept(context);
        } else {
            self.opened = None;
        }
    }

    /// Receives one packet. An error is the system's; `Ok(None)` is the end of a stream.
    fn receive(&mut self, context: &mut Context<'_>) -> Result<Option<Packet>, Errno> {
        let Some(peer) = &self.peer else { return Err(Errno::EAGAIN) };
        // Without a free buffer the packet waits in the socket.
        let mut packet = context.arena().alloc().ok_or(Errno::EAGAIN)?;
        // If the limit of the packet's headroom is lower, the headroom stays as it is.
        let _ = packet.set_headroom(self.headroom);
        let room = self.snap_length.min(packet.tailroom());
        let space = packet.put(room).ok_or(Errno::EAGAIN)?;
        let length = if self.kind.is_stream() {
            recv(peer.as_raw_fd(), space, MsgFlags::empty())?
        } else {
            let mut parts = [io::IoSliceMut::new(space)];
            let flags = MsgFlags::MSG_TRUNC;
            let message = recvmsg::<SockaddrStorage>(peer.as_raw_fd(), &mut parts, None, flags)?;
            let (length, from) = (message.bytes, message.address);
            if !self.client {
                let host = from.as_ref().and_then(SockaddrStorage::as_sockaddr_in);
                if !self.allows(host.map(|host| host.ip().into()), context) {
                    self.say(context, "dropped a datagram");
                    return Err(Errno::EINTR);
                }
                self.remote = from;
            }
            length
        };
        if length == 0 {
            return if self.kind.is_stream() { Ok(None) } else { Err(Errno::EINTR) };
        }
        // It had that much, or was cut.
        let _ = packet.take(room.saturating_sub(length));
        packet.set_extra_length(u32::try_from(length.saturating_sub(room)).unwrap_or(u32::MAX));
        if self.timestamp {
            packet.set_timestamp_ns(context.wall_ns());
        }
        Ok(Some(packet))
    }

    /// Whether there is a peer.
    fn reaches(&self) -> bool {
        self.peer.is_some() && (self.kind.is_stream() || self.client || self.remote.is_some())
    }

    /// Waits until the peer accepts more. Returns whether it does.
    fn waits(&self) -> bool {
        let Some(peer) = self.peer.as_ref().filter(|_| self.reaches()) else { return false };
        let mut wait = [PollFd::new(peer.as_fd(), PollFlags::POLLOUT)];
        poll(&mut wait, PATIENCE_MS).is_ok_and(|count| count > 0)
    }

    /// Sends waiting data, as much as the socket accepts.
    fn flush(&mut self, context: &mut Context<'_>) {
        let mut refused = false;
        while let Some(packet) = self.waiting.front_mut() {
            let Some(peer) = &self.peer else { return };
            match send_packet(peer, packet, self.kind, self.any, self.remote.as_ref()) {
                Ok(()) => {
                    refused = false;
                    self.count += 1;
                    self.waiting.pop_front();
                }
                Err(Errno::EINTR) => {}
                // The error is about an earlier datagram; this one is not sent yet.
                Err(Errno::ECONNREFUSED) if !self.kind.is_stream() && !refused => refused = true,
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINPROGRESS | Errno::ENOTCONN)
                    if self.kind.is_stream() || self.client =>
                {
                    if !self.blocked {
                        self.blocked = true;
                        context.watch(PEER, Interest::Write, peer.clone());
                    }
                    return;
                }
                Err(error) if self.kind.is_stream() => {
                    self.say(context, error.desc());
                    return self.close(context);
                }
                // This packet is too long, or has no receiver. It is lost, but the next one may
                // pass.
                Err(_) => {
                    refused = false;
                    self.drops += 1;
                    self.waiting.pop_front();
                }
            }
        }
        if std::mem::take(&mut self.blocked) {
            context.unwatch(PEER, Interest::Write);
        }
    }
}

/// The peer of a connection, if it has an address.
fn whom(from: Option<IpAddr>) -> String {
    from.map_or_else(String::new, |from| format!(" from {from}"))
}

/// Sends a packet. If the socket of a stream is full, the part that was sent is removed from the
/// packet.
fn send_packet(
    peer: &OwnedFd,
    packet: &mut Packet,
    kind: Kind,
    any: Option<u16>,
    remote: Option<&SockaddrStorage>,
) -> Result<(), Errno> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    if kind.is_stream() {
        while !packet.data().is_empty() {
            let sent = send(peer.as_raw_fd(), packet.data(), flags)?;
            // No more than there was.
            let _ = packet.pull(sent);
        }
        return Ok(());
    }
    let sent = match (any, remote) {
        (Some(port), _) => {
            let [a, b, c, d] = packet.annotation(annotation::DST_IP);
            let to = SockaddrIn::new(a, b, c, d, port);
            sendmsg(peer.as_raw_fd(), &[io::IoSlice::new(packet.data())], &[], flags, Some(&to))
        }
        (None, Some(to)) => {
            sendmsg(peer.as_raw_fd(), &[io::IoSlice::new(packet.data())], &[], flags, Some(to))
        }
        (None, None) => send(peer.as_raw_fd(), packet.data(), flags),
    };
    sent.map(drop)
}

impl Element for Socket {
    arguments! { this, given;
        let kind = mandatory "TYPE": String;
        keyword "VERBOSE": bool = false => this.verbose;
        keyword "SNAPLEN": usize = 2048 => this.snap_length;
        keyword "HEADROOM": usize = 64 => this.headroom;
        keyword "TIMESTAMP": bool = true => this.timestamp;
        keyword "SNDBUF": usize => this.buffers[0];
        keyword "RCVBUF": usize => this.buffers[1];
        keyword "ALLOW": String => this.tables[0];
        keyword "DENY": String => this.tables[1];
        keyword "NODELAY": bool = true => this.nodelay;
        keyword "PROPER": bool => _;
        let client = keyword "CLIENT": bool;
        then {
            this.kind = match kind.to_ascii_uppercase().as_str() {
                "TCP" => Kind::Tcp,
                "UDP" => Kind::Udp,
                "UNIX" => Kind::Unix,
                "UNIX_DGRAM" => Kind::UnixDatagram,
                _ => return Err(ConfigError::at(0, format!("unknown socket type '{kind}'"))),
            };
            let (at, from) = this.places(given)?;
            this.client = client.unwrap_or(given.outputs() == 0 || from.is_some());
            if let (Kind::Udp, true, Place::Inet(to)) = (this.kind, this.client, &at) {
                this.any = to.ip().is_unspecified().then_some(to.port());
            }
            this.resource = Some(match this.client {
                true => Resource::Connect(Name { kind: this.kind, at, from }),
                false => Resource::Listen(Name { kind: this.kind, at, from: None }),
            });
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let Some(resource) = &self.resource else { return Ok(()) };
        let opened = Rc::new(context.open(resource)?);
        for (name, bytes) in ["SNDBUF", "RCVBUF"].into_iter().zip(self.buffers) {
            let set = |bytes| match name {
                "SNDBUF" => setsockopt(&*opened, sockopt::SndBuf, bytes),
                _ => setsockopt(&*opened, sockopt::RcvBuf, bytes),
            };
            if let Some(Err(error)) = bytes.as_ref().map(set) {
                return Err(ConfigError::other(format!("{name}: {}", error.desc())));
            }
        }
        if self.kind == Kind::Tcp && !self.nodelay {
            // Connections that a server accepts inherit the option. A socket of another kind does
            // not have it.
            let _ = setsockopt(&*opened, sockopt::TcpNoDelay, &false);
        }
        self.opened = Some(opened.clone());
        if self.kind.is_stream() && !self.client {
            context.watch(LISTENER, Interest::Read, opened);
        } else {
            // Reading is needed even without an output: it shows the end of a stream.
            context.watch(PEER, Interest::Read, opened.clone());
            self.peer = Some(opened);
        }
        self.share = context.share(Purpose::Queues);
        self.pulls = context.is_pull(0);
        if self.pulls {
            context.add_task(1024);
        }
        Ok(())
    }

    fn descriptor_ready(&mut self, token: u32, interest: Interest, context: &mut Context<'_>) {
        match (token, interest) {
            (LISTENER, _) => self.accept(context),
            (_, Interest::Write) => {
                self.flush(context);
                self.share.set(self.waiting.len());
            }
            (_, Interest::Read) => {
                for _ in 0..BURST {
                    match self.receive(context) {
                        Ok(Some(packet)) => context.push(0, packet),
                        Ok(None) => return self.close(context),
                        Err(Errno::EINTR) => {}
                        // The error is about an earlier datagram without a receiver.
                        Err(Errno::ECONNREFUSED) if !self.kind.is_stream() => {}
                        Err(Errno::EAGAIN) => return,
                        Err(error) => {
                            self.say(context, error.desc());
                            return self.close(context);
                        }
                    }
                }
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut stalled = 0;
        loop {
            let room = MOST_WAITING.saturating_sub(self.waiting.len());
            let room = room.min(self.share.left()).max(usize::from(self.waiting.is_empty()));
            self.waiting.extend(batch.drain_front(if self.reaches() { room } else { 0 }));
            if !self.blocked {
                self.flush(context);
            }
            if batch.is_empty() || stalled == MOST_STALLED || !self.waits() {
                break;
            }
            let before = self.waiting.len();
            self.flush(context);
            stalled = if self.waiting.len() < before { 0 } else { stalled + 1 };
        }
        self.drops += batch.len() as u64;
        self.share.set(self.waiting.len());
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if self.blocked || !self.reaches() || !self.waiting.is_empty() {
            return false;
        }
        let mut batch = context.take_batch();
        let count = context.pull(0, BURST, &mut batch);
        self.waiting.extend(batch.drain());
        context.give_batch(batch);
        self.flush(context);
        self.share.set(self.waiting.len());
        count > 0
    }

    // Waiting datagrams leave by the new socket. Waiting data of a stream is lost: the old
    // connection, which ends, may have sent half a packet.
    keep! { this, old if old.resource == this.resource && !this.kind.is_stream();
        remote;
        then {
            this.waiting.append(&mut old.waiting);
            this.share.set(this.waiting.len());
        }
    }

    fn resume(&mut self, context: &mut Context<'_>) {
        self.flush(context);
        self.share.set(self.waiting.len());
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "drops" => this.drops;
        read "connected" => this.reaches();
    }
}

#[cfg(test)]
mod tests;
