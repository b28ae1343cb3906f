//! Follows the routes and neighbours of a namespace, and tells the fast path.
//!
//! What the kernel says comes over one socket, in order; a second one asks for lists: at the
//! start, after messages were lost, and after what the kernel changes without saying so (IPv4
//! routes and next hops vanish in silence when a device goes down). Messages that came while a
//! list was made are taken in after it. They may be older than the list, but whatever made
//! them so comes behind them; what the list has already is not added again.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use europa_channel::{Channel, ChannelError};
use europa_port::Namespace;
use europa_port::netlink::{self, DUMP, Netlink, REPLACE, Request};
use europa_router::orders::{Answer, Order};
use ipnet::IpNet;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, NetlinkAddr, SockProtocol, bind, recv, setsockopt, sockopt};

use crate::device::libc_family::{INET, INET6};
use crate::fib::{Fib, Outputs, Placement};
use crate::links::Links;
use crate::message::{Link, NDA_DST, NTF_USE, Neighbour, Object, Route, family, kind};
use crate::neighbours::Neighbours;

/// Multicast groups of route netlink: links, neighbours, routes, next hops.
const GROUPS: u32 = 1 << 0 | 1 << 2 | 1 << 6 | 1 << 10 | 1 << 31 | 1 << 4 | 1 << 8;
/// Room for messages that were not read yet: about 100 000 routes.
const BUFFER_BYTES: usize = 128 << 20;
/// Routes in one order: applied between two batches of packets, in 0.3 to 0.4 ms, 1 ms at
/// most.
const BATCH: usize = 512;
/// Orders that are not answered yet: the next one is made while one is carried out.
const WINDOW: usize = 3;
/// Messages taken in before the fast path is told.
const TURN: usize = 4096;
/// How often the fast path is asked which neighbours it uses.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// From a change that the kernel may have more to than it says, to looking at everything.
const SETTLE: Duration = Duration::from_millis(30);

/// Handlers that show the routes that the fast path has.
const ROUTES: &str = "route.table";
const ROUTES6: &str = "route6.table";
/// A table that is too long for an answer is read in parts, by so many further bits of prefixes.
const PART_BITS: u8 = 4;

const FLAG_REPLACE: u16 = 0x100;
const FLAG_APPEND: u16 = 0x800;

/// How far a mirror has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Changes that the fast path has carried out.
    pub told: AtomicU64,
    /// Prefixes with routes.
    pub routes: AtomicU64,
    /// Times that everything was read.
    pub resyncs: AtomicU64,
    /// Changes that the fast path refused.
    pub refused: AtomicU64,
}

/// What to follow, and how the fast path calls it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Where the routes are.
    pub namespace: Namespace,
    /// The router's interfaces, by number.
    pub interfaces: Vec<String>,
    /// The router's name, for the log.
    pub router: String,
}

struct Mirror {
    spec: Spec,
    events: OwnedFd,
    buffer: Vec<u8>,
    lists: Netlink,
    links: Links,
    objects: HashMap<u32, Object>,
    fib4: Fib<u32>,
    fib6: Fib<u128>,
    neighbours: Neighbours,
    resync: Option<Instant>,
    feed: Channel<Order, Answer>,
    /// Orders that wait to be sent, and what each of those under way is about.
    ready: std::collections::VecDeque<Order>,
    under_way: std::collections::VecDeque<Asked>,
    progress: Arc<Progress>,
    probe: Instant,
    /// What the fast path has from another mirror is still to be learnt.
    learns: Learns,
}

/// How far a mirror has learnt what the fast path has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learns {
    /// It is to ask, once it knows the interfaces.
    Asks,
    /// Tables that it waits for.
    Waits(usize),
}

impl Learns {
    const NOTHING: Self = Self::Waits(0);
}

/// What an order under way was.
enum Asked {
    /// So many changes.
    Changes(u64),
    /// Which neighbours of a device are used.
    Used(u32),
    /// The routes there are inside this.
    Routes(IpNet),
    /// The neighbours of a device that there are.
    Neighbours(u32),
}

/// Follows until the router closes `feed`.
///
/// # Errors
/// What keeps it from following.
pub fn run(
    spec: Spec,
    feed: Channel<Order, Answer>,
    progress: Arc<Progress>,
) -> Result<(), MirrorError> {
    Mirror::new(spec, feed, progress)?.follow_to_the_end()
}

/// Like [`run`], for a fast path that another mirror has told something already: what of that
/// is not so any more is taken back.
///
/// # Errors
/// What keeps it from following.
pub fn resume(
    spec: Spec,
    feed: Channel<Order, Answer>,
    progress: Arc<Progress>,
) -> Result<(), MirrorError> {
    let mut mirror = Mirror::new(spec, feed, progress)?;
    mirror.learns = Learns::Asks;
    mirror.follow_to_the_end()
}

/// Why a mirror stopped.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// Netlink.
    #[error("netlink: {0}")]
    Netlink(#[from] io::Error),
    /// The router.
    #[error("the fast path: {0}")]
    Channel(#[from] ChannelError),
}

/// A socket that hears of every change in a namespace.
pub(crate) fn subscribe(namespace: &Namespace, groups: u32) -> io::Result<OwnedFd> {
    let socket = netlink::open(namespace, SockProtocol::NetlinkRoute)?;
    // What does not fit is noticed, and made good by reading everything.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES);
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

impl Mirror {
    fn new(
        spec: Spec,
        feed: Channel<Order, Answer>,
        progress: Arc<Progress>,
    ) -> io::Result<Mirror> {
        let count = spec.interfaces.len();
        let outputs = Outputs { host: count, discard: count + 1 };
        let v6 = |first: u16, bits: u8| (u128::from(first) << 112, bits);
        let base4 = vec![(0, 0)];
        let mapped = (0xffff_0000_0000, 96);
        let base6 = vec![v6(0, 0), (0, 128), mapped, v6(0xff00, 8), v6(0xfe80, 10)];
        Ok(Mirror {
            events: subscribe(&spec.namespace, GROUPS)?,
            buffer: vec![0; 1 << 16],
            lists: Netlink::route(&spec.namespace)?,
            links: Links::new(spec.interfaces.clone()),
            objects: HashMap::new(),
            fib4: Fib::new(outputs, base4, Vec::new()),
            fib6: Fib::new(outputs, base6, vec![v6(0xff00, 8), v6(0xfe80, 10)]),
            neighbours: Neighbours::default(),
            resync: Some(Instant::now()),
            feed,
            ready: Default::default(),
            under_way: Default::default(),
            progress,
            probe: Instant::now() + PROBE_EVERY,
            learns: Learns::NOTHING,
            spec,
        })
    }

    fn follow_to_the_end(&mut self) -> Result<(), MirrorError> {
        match self.follow() {
            Err(MirrorError::Channel(ChannelError::Closed)) => Ok(()),
            other => other,
        }
    }

    fn follow(&mut self) -> Result<(), MirrorError> {
        loop {
            let now = Instant::now();
            if self.resync.is_some_and(|due| due <= now) {
                // What was said before is taken in before.
                while self.hear(TURN)? == TURN {}
                self.resync = None;
                self.read_all()?;
                if self.learns == Learns::Asks {
                    self.ask_tables();
                }
            }
            if self.probe <= now {
                self.probe = now + PROBE_EVERY;
                self.ask_used();
            }
            self.tell()?;
            let timeout = self.resync.map_or(self.probe, |due| due.min(self.probe));
            let timeout = timeout.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(timeout.as_micros().div_ceil(1000))
                .unwrap_or(PollTimeout::MAX);
            let mut wait = [
                PollFd::new(self.events.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.feed.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut wait, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let [events, answers] = wait.map(|fd| fd.any() == Some(true));
            if answers {
                self.take_answers()?;
            }
            if events {
                self.hear(TURN)?;
            }
        }
    }

    /// Sends what there is room for.
    fn tell(&mut self) -> Result<(), MirrorError> {
        while self.under_way.len() < WINDOW {
            if self.ready.is_empty() && self.learns == Learns::NOTHING {
                self.compose();
            }
            let Some(order) = self.ready.pop_front() else { break };
            let asked = match &order {
                Order::Read { path, parameter } if path == ROUTES || path == ROUTES6 => {
                    parameter.parse().map_or(Asked::Changes(0), Asked::Routes)
                }
                Order::Read { path, parameter } if path.ends_with(".table") => {
                    Asked::Neighbours(parameter.parse().unwrap_or(0))
                }
                Order::Read { parameter, .. } => Asked::Used(parameter.parse().unwrap_or(0)),
                Order::Write { value, .. } => Asked::Changes(value.lines().count() as u64),
                _ => Asked::Changes(0),
            };
            self.feed.send(&order, &[])?;
            self.under_way.push_back(asked);
        }
        Ok(())
    }

    /// Makes orders of what has changed.
    fn compose(&mut self) {
        let write = |path: String, value| Order::Write { path, value };
        if self.neighbours.is_dirty() {
            let mut texts = HashMap::new();
            self.neighbours.tell(BATCH, &self.links, &mut texts);
            for ((interface, is_v4), text) in texts {
                self.ready.push_back(write(format!("{}.load", forward(interface, is_v4)), text));
            }
        }
        let mut text = String::with_capacity(BATCH * 32);
        if self.fib4.is_dirty() {
            self.fib4.tell(BATCH, &self.links, &self.objects, &mut text);
            if !text.is_empty() {
                self.ready.push_back(write("route.load".into(), std::mem::take(&mut text)));
            }
        }
        if self.fib6.is_dirty() {
            self.fib6.tell(BATCH, &self.links, &self.objects, &mut text);
            if !text.is_empty() {
                self.ready.push_back(write("route6.load".into(), text));
            }
        }
    }

    fn take_answers(&mut self) -> Result<(), MirrorError> {
        while let Some((answer, _)) = self.feed.try_receive()? {
            match (self.under_way.pop_front(), answer) {
                (Some(Asked::Changes(count)), Answer::Done(_)) => {
                    self.progress.told.fetch_add(count, Ordering::Relaxed);
                }
                (Some(Asked::Changes(count)), Answer::Refused(why)) => {
                    self.progress.refused.fetch_add(count, Ordering::Relaxed);
                    tracing::warn!("router {}: routes: {why}", self.spec.router);
                }
                (Some(Asked::Used(device)), Answer::Done(used)) => self.keep_fresh(device, &used),
                (Some(Asked::Routes(within)), answer) => self.learn_routes(within, answer),
                (Some(Asked::Neighbours(device)), answer) => {
                    if let Answer::Done(text) = answer {
                        let words = text.lines().filter_map(|line| line.split_whitespace().next());
                        for address in words.filter_map(|word| word.parse().ok()) {
                            self.neighbours.learn(device, address);
                        }
                    }
                    self.learnt();
                }
                (_, answer) => tracing::debug!("router {}: {answer:?}", self.spec.router),
            }
        }
        Ok(())
    }

    /// Asks what the fast path has.
    fn ask_tables(&mut self) {
        let read = |path: &str, parameter: String| Order::Read { path: path.into(), parameter };
        let mut reads = Vec::new();
        for (path, all) in [(ROUTES, "0.0.0.0/0"), (ROUTES6, "::/0")] {
            reads.push(read(path, all.into()));
        }
        for (device, interface) in self.links.interfaces() {
            for is_v4 in [true, false] {
                let path = format!("{}.table", forward(interface, is_v4));
                reads.push(read(&path, device.to_string()));
            }
        }
        self.learns = Learns::Waits(reads.len());
        self.ready.extend(reads);
    }

    /// Takes in which routes the fast path has inside a prefix. It is told what differs.
    fn learn_routes(&mut self, within: IpNet, answer: Answer) {
        match answer {
            Answer::Done(text) => {
                for (prefix, way) in text.lines().filter_map(|line| line.split_once('\t')) {
                    if let Ok(prefix) = prefix.parse() {
                        self.learn_route(prefix, way.replace('\t', " "));
                    }
                }
            }
            Answer::TooLong(_) => {
                let longest = within.prefix_len() + PART_BITS;
                // No part shows those that are shorter than it.
                for length in within.prefix_len()..longest {
                    for prefix in within.subnets(length).into_iter().flatten() {
                        self.learn_route(prefix, String::new());
                    }
                }
                let path = if within.addr().is_ipv4() { ROUTES } else { ROUTES6 };
                for part in within.subnets(longest).into_iter().flatten() {
                    self.ready
                        .push_back(Order::Read { path: path.into(), parameter: part.to_string() });
                    if let Learns::Waits(left) = &mut self.learns {
                        *left += 1;
                    }
                }
            }
            Answer::Refused(why) | Answer::Ended(why) => tracing::warn!(
                "router {}: routes that went while no node ran may stay until it is restarted: \
                 {why}",
                self.spec.router
            ),
        }
        self.learnt();
    }

    fn learn_route(&mut self, prefix: IpNet, way: String) {
        match prefix {
            IpNet::V4(net) => self.fib4.learn((u32::from(net.addr()), net.prefix_len()), way),
            IpNet::V6(net) => self.fib6.learn((u128::from(net.addr()), net.prefix_len()), way),
        }
    }

    fn learnt(&mut self) {
        if let Learns::Waits(left) = &mut self.learns {
            *left = left.saturating_sub(1);
        }
    }

    /// Asks which neighbours the fast path has sent to.
    fn ask_used(&mut self) {
        for (device, interface) in self.links.interfaces() {
            for is_v4 in [true, false] {
                self.ready.push_back(Order::Read {
                    path: format!("{}.used", forward(interface, is_v4)),
                    // Comes back with the answer's place in the queue.
                    parameter: device.to_string(),
                });
            }
        }
    }

    /// Lets the kernel ask neighbours that only the fast path uses whether they are still
    /// there: it would never notice that one has gone.
    fn keep_fresh(&mut self, device: u32, used: &str) {
        for address in self.neighbours.to_probe(device, used) {
            let (family, octets) = match address {
                IpAddr::V4(address) => (INET, address.octets().to_vec()),
                IpAddr::V6(address) => (INET6, address.octets().to_vec()),
            };
            let mut body = vec![family, 0, 0, 0];
            body.extend(device.to_ne_bytes());
            // No state: as it is. NTF_USE: as if a packet had been sent.
            body.extend([0, 0, NTF_USE, 0]);
            let mut request = Request::new(kind::NEWNEIGH, REPLACE, &body).with(NDA_DST, &octets);
            if let Err(error) = self.lists.talk(&mut request, |_, _| ()) {
                tracing::debug!("router {}: neighbour {address}: {error}", self.spec.router);
            }
        }
    }

    /// Reads up to `most` messages. Returns how many there were.
    fn hear(&mut self, most: usize) -> Result<usize, MirrorError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.hear_into(&mut buffer, most);
        self.buffer = buffer;
        Ok(result?)
    }

    fn hear_into(&mut self, buffer: &mut [u8], most: usize) -> io::Result<usize> {
        for count in 0..most {
            let length = match recv(self.events.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(count),
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOBUFS) => {
                    // Some were lost; those behind them are still good.
                    self.resync = Some(Instant::now());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let (Some(length), Some(head)) =
                (netlink::number(rest, 0), rest.first_chunk::<16>())
            {
                let Some(message) = rest.get(16..length as usize) else { break };
                let kind = u16::from_ne_bytes([head[4], head[5]]);
                let flags = u16::from_ne_bytes([head[6], head[7]]);
                self.take_in(kind, flags, message);
                rest = rest.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
            }
        }
        Ok(most)
    }

    fn settle(&mut self) {
        let due = Instant::now() + SETTLE;
        self.resync = Some(self.resync.map_or(due, |before| before.min(due)));
    }

    fn take_in(&mut self, kind: u16, flags: u16, message: &[u8]) {
        match kind {
            kind::NEWROUTE | kind::DELROUTE => {
                let placement = match flags {
                    flags if flags & FLAG_REPLACE != 0 => Placement::Replace,
                    flags if flags & FLAG_APPEND != 0 => Placement::Back,
                    _ => Placement::Front,
                };
                let gone = kind == kind::DELROUTE;
                let known = match family(message) {
                    INET => change(&mut self.fib4, message, gone, placement),
                    INET6 => change(&mut self.fib6, message, gone, placement),
                    _ => true,
                };
                if !known {
                    self.settle();
                }
            }
            kind::NEWNEIGH | kind::DELNEIGH => {
                if let Some(neighbour) = Neighbour::parse(message) {
                    self.neighbours.hear(&neighbour, kind == kind::DELNEIGH);
                }
            }
            kind::NEWLINK | kind::DELLINK => {
                // Bridges speak of their ports by the same messages.
                if family(message) != 0 {
                    return;
                }
                let Some(link) = Link::parse(message) else { return };
                // One that is down has taken routes along, also such as came before this message and
                // after the list that said so already.
                let is_up = link.up;
                if kind == kind::DELLINK {
                    self.links.remove(link.index);
                } else if !self.links.add(link) && is_up {
                    return;
                }
                self.reconsider();
                self.settle();
            }
            kind::NEWNEXTHOP => {
                if let Some((id, object)) = Object::parse(message)
                    && let Some(old) = self.objects.insert(id, object.clone())
                    && old != object
                {
                    self.reconsider();
                }
            }
            kind::DELNEXTHOP => {
                if let Some((id, _)) = Object::parse(message) {
                    self.objects.remove(&id);
                    // Routes that use it went with it, and groups lost a member.
                    self.settle();
                }
            }
            // With an address, routes go that were sent from it.
            kind::DELADDR => self.settle(),
            _ => {}
        }
    }

    fn reconsider(&mut self) {
        self.fib4.reconsider(&self.links, &self.objects);
        self.fib6.reconsider(&self.links, &self.objects);
    }

    /// Reads everything.
    fn read_all(&mut self) -> io::Result<()> {
        self.progress.resyncs.fetch_add(1, Ordering::Relaxed);
        self.lists.interrupted = false;
        self.links.clear();
        let links = &mut self.links;
        self.lists.talk(&mut Request::new(kind::GETLINK, DUMP, &[0; 16]), |_, message| {
            if let Some(link) = Link::parse(message) {
                links.add(link);
            }
        })?;
        let mut objects = HashMap::new();
        let listed =
            self.lists.talk(&mut Request::new(kind::GETNEXTHOP, DUMP, &[0; 8]), |_, message| {
                objects.extend(Object::parse(message));
            });
        if let Err(error) = listed {
            tracing::debug!("next hop objects: {error}");
        }
        self.objects = objects;
        let mut neighbours = Vec::new();
        self.lists.talk(&mut Request::new(kind::GETNEIGH, DUMP, &[0; 12]), |_, message| {
            neighbours.extend(Neighbour::parse(message));
        })?;
        self.neighbours.replace_all(&neighbours);
        read_routes(&mut self.lists, &mut self.fib4)?;
        read_routes(&mut self.lists, &mut self.fib6)?;
        self.reconsider();
        let routes = (self.fib4.len() + self.fib6.len()) as u64;
        self.progress.routes.store(routes, Ordering::Relaxed);
        if self.lists.interrupted {
            let due = Instant::now() + 10 * SETTLE;
            self.resync.get_or_insert(due);
        }
        Ok(())
    }
}

/// The element that sends an interface's packets.
fn forward(interface: usize, is_v4: bool) -> String {
    format!("{}{interface}", if is_v4 { "forward" } else { "forward6_" })
}

/// Takes in a route message. False if something must have been missed.
fn change<A: crate::message::Address>(
    fib: &mut Fib<A>,
    message: &[u8],
    gone: bool,
    placement: Placement,
) -> bool {
    match Route::parse(message) {
        None => true,
        Some(route) if gone => fib.remove(route),
        Some(route) => {
            fib.add(route, placement);
            true
        }
    }
}

fn read_routes<A: crate::message::Address>(
    lists: &mut Netlink,
    fib: &mut Fib<A>,
) -> io::Result<()> {
    let mut body = [0; 12];
    body[0] = A::FAMILY;
    let mut routes: Vec<Route<A>> = Vec::new();
    lists.talk(&mut Request::new(kind::GETROUTE, DUMP, &body), |_, message| {
        routes.extend(Route::parse(message));
    })?;
    fib.replace_all(routes.into_iter());
    Ok(())
}
