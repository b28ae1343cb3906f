//! Servers and clients in virtual time, with a network that delays and loses packets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::SocketAddr;
use std::time::Duration;

use europa_i3::client::{Arrived, Client};
use europa_i3::server::{Datagrams, Server, Settings};
use europa_i3::table::Limits;
use europa_i3::wire::VERSION;
use europa_i3::{Codec, Member, Message, Prefix, SUCCESSORS};

const TICK: Duration = Duration::from_millis(50);

type Flying = Reverse<(Duration, u64, SocketAddr, SocketAddr, Vec<u8>)>;

pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) servers: BTreeMap<SocketAddr, Server>,
    pub(crate) clients: BTreeMap<SocketAddr, Client>,
    /// Arrivals at clients, in order.
    pub(crate) arrived: Vec<(Duration, SocketAddr, Arrived)>,
    /// Answers to look-ups by token.
    found: BTreeMap<u64, (Member, u8)>,
    /// Servers in every server's list; if empty, the servers that run at its start.
    pub(crate) list: Vec<SocketAddr>,
    /// While the network is split: the servers of one part.
    pub(crate) part: BTreeSet<SocketAddr>,
    /// Lost datagrams in 1000.
    pub(crate) lost: u32,
    pub(crate) replicas: usize,
    /// Hosts behind NATs, and the addresses that they get.
    pub(crate) nat: BTreeMap<SocketAddr, SocketAddr>,
    /// Pairs of a NAT's address and a remote address from which it accepts datagrams.
    opened: BTreeSet<(SocketAddr, SocketAddr)>,
    flying: BinaryHeap<Flying>,
    number: u64,
    pub(crate) random: fastrand::Rng,
    codec: Codec,
}

/// The address of a server or client by number.
pub(crate) fn at(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    SocketAddr::from(([10, 0, high, low], 5610))
}

fn tester() -> SocketAddr {
    SocketAddr::from(([10, 9, 9, 9], 1))
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        println!("seed {seed}");
        World {
            now: Duration::ZERO,
            servers: BTreeMap::new(),
            clients: BTreeMap::new(),
            arrived: Vec::new(),
            found: BTreeMap::new(),
            list: Vec::new(),
            part: BTreeSet::new(),
            lost: 0,
            replicas: 3,
            nat: BTreeMap::new(),
            opened: BTreeSet::new(),
            flying: BinaryHeap::new(),
            number: 0,
            random: fastrand::Rng::with_seed(seed),
            codec: Codec::new(b"ring"),
        }
    }

    /// Starts a server that joins by way of any other.
    pub(crate) fn start(&mut self, number: u16) {
        let mut seeds = self.list.clone();
        if seeds.is_empty() {
            seeds = self.servers.keys().copied().collect();
        }
        let me = Member { id: Prefix::of_text(&format!("server {number}")), at: at(number) };
        let settings = Settings {
            me,
            seeds,
            key: b"ring".to_vec(),
            replicas: self.replicas,
            limits: Limits::default(),
            secret: [number as u8; 32],
            seed: self.random.u64(..),
        };
        self.servers.insert(me.at, Server::new(&settings));
    }

    /// A ring of `count` servers at rest.
    pub(crate) fn ring(seed: u64, count: u16) -> World {
        let mut world = World::new(seed);
        for number in 0..count {
            world.start(number);
            world.run(Duration::from_millis(300));
        }
        world.run(Duration::from_secs(10));
        world
    }

    pub(crate) fn kill(&mut self, at: SocketAddr) {
        self.servers.remove(&at);
    }

    pub(crate) fn leave(&mut self, at: SocketAddr) {
        let mut out = Datagrams::new();
        if let Some(mut server) = self.servers.remove(&at) {
            server.leave(self.now, &mut out);
        }
        self.post(at, out);
    }

    pub(crate) fn post(&mut self, from: SocketAddr, out: Datagrams) {
        let outside = self.nat.get(&from).copied();
        for (to, bytes) in out {
            self.opened.extend(outside.map(|outside| (outside, to)));
            let from = outside.unwrap_or(from);
            if self.random.u32(..1000) >= self.lost {
                let delay = Duration::from_micros(self.random.u64(500..20_000));
                self.number += 1;
                self.flying.push(Reverse((self.now + delay, self.number, from, to, bytes)));
            }
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let tick = self.now + TICK;
            while let Some(Reverse((when, ..))) = self.flying.peek()
                && *when <= tick
            {
                let Some(Reverse((when, _, from, to, bytes))) = self.flying.pop() else { break };
                self.now = self.now.max(when);
                self.deliver(from, to, &bytes);
            }
            self.now = tick;
            let servers: Vec<SocketAddr> = self.servers.keys().copied().collect();
            for at in servers {
                let mut out = Datagrams::new();
                self.servers.get_mut(&at).expect("it").tick(self.now, &mut out);
                self.post(at, out);
            }
            let clients: Vec<SocketAddr> = self.clients.keys().copied().collect();
            for at in clients {
                let mut out = Datagrams::new();
                self.clients.get_mut(&at).expect("it").tick(self.now, &mut out);
                self.post(at, out);
            }
        }
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if self.part.contains(&from) != self.part.contains(&to) {
            return;
        }
        let mut out = Datagrams::new();
        let inside = self.nat.iter().find(|(_, outside)| **outside == to).map(|(host, _)| *host);
        if inside.is_some() && !self.opened.contains(&(to, from)) {
            return;
        }
        let to = inside.unwrap_or(to);
        if let Some(server) = self.servers.get_mut(&to) {
            server.receive(self.now, from, bytes, &mut out);
        } else if let Some(client) = self.clients.get_mut(&to) {
            assert!(bytes[0] == VERSION || bytes[0] == 1, "a client gets {bytes:?}");
            let arrived = client.receive(self.now, from, bytes, &mut out);
            self.arrived.extend(arrived.into_iter().map(|one| (self.now, to, one)));
        } else if to == tester()
            && let Ok(Message::Found { token, owner, hops }) = self.codec.read(bytes)
        {
            self.found.insert(token, (owner, hops));
        }
        self.post(to, out);
    }

    /// Joined servers by position.
    pub(crate) fn order(&self) -> Vec<Member> {
        let mut all: Vec<Member> = self.servers.values().map(|server| server.ring().me()).collect();
        all.sort();
        all
    }

    /// The responsible server of a position, found by comparing all servers.
    pub(crate) fn oracle(&self, key: &Prefix) -> Member {
        let order = self.order();
        *order.iter().find(|one| one.id >= *key).unwrap_or(&order[0])
    }

    /// Mistakes of the ring at rest: each server must know its exact neighbours.
    pub(crate) fn faults(&self) -> Vec<String> {
        let order = self.order();
        let count = order.len();
        let mut faults = Vec::new();
        for (number, me) in order.iter().enumerate() {
            let ring = self.servers[&me.at].ring();
            let around = ring.neighbours();
            let after = (1..count.min(SUCCESSORS + 1)).map(|step| order[(number + step) % count]);
            let after: Vec<Member> = after.collect();
            if around.successors != after {
                faults.push(format!("{}: {:?}, not {after:?}", me.at, around.successors));
            }
            let before = (count > 1).then(|| order[(number + count - 1) % count]);
            if around.predecessor != before {
                faults.push(format!("{}: after {:?}, not {before:?}", me.at, around.predecessor));
            }
        }
        faults
    }

    /// Runs until the ring has no mistakes. Returns the time.
    pub(crate) fn settle(&mut self, limit: Duration) -> Duration {
        let start = self.now;
        while !self.faults().is_empty() {
            assert!(self.now - start < limit, "after {limit:?}: {:#?}", self.faults());
            self.run(Duration::from_millis(100));
        }
        self.now - start
    }

    /// Looks a position up from a server; returns the answer and its hops.
    pub(crate) fn look_up(&mut self, from: SocketAddr, key: Prefix) -> Option<(Member, u8)> {
        let token = self.random.u64(..);
        let question = Message::Find { token, key, origin: tester(), hops_left: 64, hops: 0 };
        let bytes = self.codec.write(&question);
        self.post(tester(), vec![(from, bytes)]);
        for _ in 0..20 {
            self.run(TICK);
            if let Some(answer) = self.found.remove(&token) {
                return Some(answer);
            }
        }
        None
    }

    /// A random position.
    pub(crate) fn key(&mut self) -> Prefix {
        let mut key = Prefix([0; 24]);
        self.random.fill(&mut key.0);
        key
    }

    /// A random server's address.
    pub(crate) fn any(&mut self) -> SocketAddr {
        let all: Vec<SocketAddr> = self.servers.keys().copied().collect();
        all[self.random.usize(..all.len())]
    }
}
