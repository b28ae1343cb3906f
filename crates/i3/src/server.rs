//! A server: packets of clients, triggers, and messages of other servers.
//!
//! The time and received bytes are arguments; it returns bytes to send. No packet circulates
//! without end: each has a limited number of hops and triggers, and all its copies share a limited
//! number of copies.

mod deliver;
mod options;
mod replicate;
mod state;

use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use crate::id::{Id, Prefix};
use crate::message::{Codec, MAGIC, Member, Message, Replica, Routed};
use crate::nonce::Nonces;
use crate::ring::{Event, HOPS, Hop, Ring};
use crate::table::{Limits, Table};
use crate::wire::{Address, Packet, PacketOption, VERSION};

pub use state::Counters;

/// Most copies of one packet on all its paths together.
pub const COPIES: u16 = 1024;
/// The first byte of the public code's echo request.
const PING: u8 = 0x01;
/// Time for which the server of a prefix is cached. That server may fail unnoticed, so a prefix in
/// use is looked up again every [`ASK_AGAIN`].
const CACHED: Duration = Duration::from_secs(3);
/// Time between two look-ups of the same prefix.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// After an id without triggers was reported, time for which triggers to it are removed.
const PUSHED_BACK: Duration = Duration::from_secs(30);
/// Time for which a host behind a NAT is stored after its last packet.
const HOST_KNOWN: Duration = Duration::from_secs(60);
/// Time after a change of the ring in which triggers may still arrive: until then no trigger counts
/// as missing.
const SETTLING: Duration = Duration::from_secs(5);
/// Entries of each of the caches.
const MOST_CACHED: usize = 65_536;

/// Datagrams to send.
pub type Datagrams = Vec<(SocketAddr, Vec<u8>)>;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's position, and its address for other servers.
    pub me: Member,
    /// Servers of the ring that this server joins.
    pub seeds: Vec<SocketAddr>,
    /// The ring's key.
    pub key: Vec<u8>,
    /// Servers that keep a copy of each trigger.
    pub replicas: usize,
    /// Limits of its table.
    pub limits: Limits,
    /// The secret of its nonces.
    pub secret: [u8; 32],
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    ring: Ring,
    codec: Codec,
    table: Table,
    nonces: Nonces,
    replicas: usize,
    /// Servers of prefixes, and until when each entry is valid.
    owners: HashMap<Prefix, (SocketAddr, Duration)>,
    /// Earliest time of the next look-up of a prefix.
    asked: HashMap<Prefix, Duration>,
    /// Ids without triggers.
    pushed_back: HashMap<Id, Duration>,
    /// Hosts behind NATs that sent packets to this server.
    hosts: HashMap<SocketAddrV4, Duration>,
    waiting: HashMap<SocketAddr, Vec<Replica>>,
    /// Servers that have copies of this server's triggers.
    holders: Vec<SocketAddr>,
    /// The last known predecessor's position.
    range_from: Option<Prefix>,
    resync: bool,
    settled: Duration,
    next_forget: Duration,
    counters: Counters,
}

/// A packet that the server works on.
#[derive(Clone, Debug)]
struct Job {
    hops_left: u8,
    copies: u16,
    previous: Option<SocketAddr>,
    /// The client's address for answers, if the packet comes from a client.
    sender: Option<Address>,
    stack: Vec<Id>,
    options: Vec<PacketOption>,
    wide: bool,
    data: bool,
    payload: Vec<u8>,
}

impl Server {
    /// A server that joins its ring in later ticks.
    pub fn new(settings: &Settings) -> Server {
        let random = fastrand::Rng::with_seed(settings.seed);
        Server {
            ring: Ring::new(settings.me, &settings.seeds, random),
            codec: Codec::new(&settings.key),
            table: Table::new(settings.limits),
            nonces: Nonces::new(&settings.secret),
            replicas: settings.replicas,
            owners: HashMap::new(),
            asked: HashMap::new(),
            pushed_back: HashMap::new(),
            hosts: HashMap::new(),
            waiting: HashMap::new(),
            holders: Vec::new(),
            range_from: None,
            resync: false,
            settled: SETTLING,
            next_forget: Duration::ZERO,
            counters: Counters::default(),
        }
    }

    /// Its view of the ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The server's triggers, including copies of other servers' triggers.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Handles a datagram.
    pub fn receive(&mut self, now: Duration, from: SocketAddr, bytes: &[u8], out: &mut Datagrams) {
        match bytes.first() {
            Some(&VERSION) => self.client_packet(now, from, bytes, out),
            Some(&MAGIC) => match self.codec.read(bytes) {
                Ok(message) => self.message(now, from, message, out),
                Err(_) => self.counters.refused_messages += 1,
            },
            Some(&PING) => out.push((from, bytes.to_vec())),
            _ => self.counters.malformed += 1,
        }
        self.follow_ring(now, out);
    }

    /// Does all due work. Call it at least every 100 ms.
    pub fn tick(&mut self, now: Duration, out: &mut Datagrams) {
        let mut messages = Vec::new();
        self.ring.tick(now, &mut messages);
        self.post(messages, out);
        self.table.sweep(now);
        self.follow_ring(now, out);
        self.replicate(now, out);
        if now >= self.next_forget {
            self.next_forget = now + Duration::from_secs(1);
            self.owners.retain(|_, (_, until)| *until > now);
            self.asked.retain(|_, until| *until > now);
            self.pushed_back.retain(|_, until| *until > now);
            self.hosts.retain(|_, until| *until > now);
        }
    }

    fn post(&mut self, messages: Vec<(SocketAddr, Message)>, out: &mut Datagrams) {
        out.extend(messages.into_iter().map(|(to, message)| (to, self.codec.write(&message))));
    }

    fn send(&mut self, to: SocketAddr, message: &Message, out: &mut Datagrams) {
        out.push((to, self.codec.write(message)));
    }

    /// Reacts to changes of the ring.
    fn follow_ring(&mut self, now: Duration, out: &mut Datagrams) {
        for event in self.ring.take_events() {
            match event {
                Event::Predecessor => self.range_changed(now, out),
                Event::Successors => self.resync = true,
                Event::Found(key, owner, _) => {
                    if self.owners.len() < MOST_CACHED && owner.at != self.ring.me().at {
                        self.owners.insert(key, (owner.at, now + CACHED));
                    }
                }
            }
        }
    }

    fn message(&mut self, now: Duration, from: SocketAddr, message: Message, out: &mut Datagrams) {
        match message {
            Message::Route(routed) => self.routed(now, routed, out),
            Message::Keep(replicas) => self.keep(now, replicas),
            Message::PushBack(id) => {
                if self.pushed_back.len() < MOST_CACHED {
                    self.pushed_back.insert(id, now + PUSHED_BACK);
                }
            }
            Message::Relay(SocketAddr::V4(to), bytes) if self.hosts.contains_key(&to) => {
                out.push((to.into(), bytes));
            }
            Message::Relay(..) => self.counters.unknown_hosts += 1,
            Message::AskState => {
                let text = self.state();
                self.send(from, &Message::State(text), out);
            }
            other => {
                let mut messages = Vec::new();
                self.ring.receive(now, from, other, &mut messages);
                self.post(messages, out);
            }
        }
    }

    /// A packet of another server.
    fn routed(&mut self, now: Duration, routed: Routed, out: &mut Datagrams) {
        let Ok(packet) = Packet::read(&routed.packet) else {
            self.counters.malformed += 1;
            return;
        };
        let Some(first) = packet.stack.first() else { return };
        let here =
            self.ring.owns(&first.prefix()) || routed.last && self.ring.accepts(&first.prefix());
        let job = Job::of(packet, routed.hops_left, routed.copies, routed.previous);
        self.run(now, job, here, out);
    }

    /// Handles a packet of a client at its first hop.
    fn client_packet(
        &mut self,
        now: Duration,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Datagrams,
    ) {
        let Ok(packet) = Packet::read(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        self.counters.client_packets += 1;
        if packet.stack.is_empty() {
            return;
        }
        let mut job = Job::of(packet, HOPS, COPIES, None);
        self.note_host(now, from, &mut job);
        self.run(now, job, false, out);
    }

    /// Handles a packet, and the packets that triggers of this server make from it.
    fn run(&mut self, now: Duration, job: Job, here: bool, out: &mut Datagrams) {
        let mut jobs = vec![(job, here)];
        while let Some((job, here)) = jobs.pop() {
            let Some(first) = job.stack.first() else { continue };
            let hop = if here { Hop::Here } else { self.ring.next_hop(&first.prefix()) };
            match hop {
                Hop::Here => {
                    let more = self.here(now, job, out);
                    jobs.extend(more.into_iter().map(|job| (job, false)));
                }
                Hop::To(next, last) => self.forward(now, job, next, last, out),
                Hop::Nowhere => self.counters.not_joined += 1,
            }
        }
    }

    /// Sends a packet to the next server, or directly to the responsible server if it is known.
    fn forward(&mut self, now: Duration, job: Job, next: Member, last: bool, out: &mut Datagrams) {
        let Some(hops_left) = job.hops_left.checked_sub(1) else {
            self.counters.looping += 1;
            return;
        };
        let Some(prefix) = job.stack.first().map(Id::prefix) else { return };
        let cached = self.owners.get(&prefix).filter(|(_, until)| *until > now);
        let cached = cached.map(|(at, _)| *at);
        let cached = cached.filter(|at| !self.ring.is_buried(*at));
        if !last && self.asked.get(&prefix).is_none_or(|until| *until <= now) {
            if self.asked.len() < MOST_CACHED {
                self.asked.insert(prefix, now + ASK_AGAIN);
            }
            let mut messages = Vec::new();
            self.ring.look_up(now, prefix, &mut messages);
            self.post(messages, out);
        }
        let (to, last) = match cached {
            Some(at) if !last => (at, true),
            _ => (next.at, last),
        };
        self.counters.forwarded += 1;
        let (copies, previous) = (job.copies, job.previous);
        let packet = job.packet().bytes();
        let routed = Routed { last, hops_left, copies, previous, packet };
        self.send(to, &Message::Route(routed), out);
    }
}

impl Job {
    fn of(packet: Packet<'_>, hops_left: u8, copies: u16, previous: Option<SocketAddr>) -> Job {
        let Packet { data, stack, options, wide, payload, .. } = packet;
        let sender = options.iter().find_map(|option| match option {
            PacketOption::Sender(at) => Some(at.clone()),
            _ => None,
        });
        let payload = payload.to_vec();
        Job { hops_left, copies, previous, sender, stack, options, wide, data, payload }
    }

    fn packet(&self) -> Packet<'_> {
        Packet {
            data: self.data,
            first_hop: false,
            stack: self.stack.clone(),
            options: self.options.clone(),
            wide: self.wide,
            payload: &self.payload,
        }
    }
}
