//! A client: it keeps triggers inserted, sends packets, and receives packets.
//!
//! Times are those of the public code's client: a trigger is refreshed after 8 s, and an insertion
//! without an answer is repeated after 2 s. If a server does not answer, the first server that
//! answers an echo request replaces it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::id::{Id, Prefix};
use crate::server::Datagrams;
use crate::wire::{Address, Packet, PacketOption, Trigger, TriggerUse, VERSION};

/// Time from an acknowledgement to the next insertion.
pub const REFRESH: Duration = Duration::from_secs(8);
/// An insertion without an answer is repeated after this time.
pub const RETRY: Duration = Duration::from_secs(2);
/// While packets are sent, the client asks their server for its address at this interval.
const ASK: Duration = Duration::from_secs(2);
/// A server that does not answer a probe within this time is not used.
const SILENT: Duration = Duration::from_millis(1_500);
/// Time for which a server's address is used.
const CACHED: Duration = Duration::from_secs(30);
/// Bytes of an echo request of the public code.
const PING_BYTES: usize = 40;
const PING: u8 = 0x01;

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A packet: the ids with the matched one first, and the payload.
    Data(Vec<Id>, Vec<u8>),
    /// A trigger is inserted, for the first time or after a change.
    Inserted(Id),
    /// A trigger's constraint does not hold.
    ConstraintFailed(Id),
    /// There is no trigger for an id to which this client sent.
    NotPresent(Id),
}

#[derive(Clone, Debug)]
struct Wanted {
    trigger: Trigger,
    inserted: bool,
    next: Duration,
    unanswered: u32,
}

/// The server of a prefix, as far as it is known.
#[derive(Clone, Debug, Default)]
struct Way {
    server: Option<(SocketAddr, Duration)>,
    asked: Option<Duration>,
    next_ask: Duration,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    me: SocketAddr,
    servers: Vec<SocketAddr>,
    current: usize,
    wanted: Vec<Wanted>,
    ways: HashMap<Prefix, Way>,
    /// End of a probe; until then, the first server that answers an echo request becomes the
    /// current one.
    probing: Option<Duration>,
    reached: bool,
    random: fastrand::Rng,
}

impl Client {
    /// A client with this address that begins with one of `servers`, which must not be empty.
    pub fn new(me: SocketAddr, servers: Vec<SocketAddr>, seed: u64) -> Client {
        let mut random = fastrand::Rng::with_seed(seed);
        let current = random.usize(..servers.len().max(1));
        let (wanted, ways) = (Vec::new(), HashMap::new());
        Client { me, servers, current, wanted, ways, probing: None, reached: false, random }
    }

    /// Keeps a trigger inserted from now on.
    pub fn insert(&mut self, now: Duration, trigger: Trigger) {
        self.wanted.push(Wanted { trigger, inserted: false, next: now, unanswered: 0 });
    }

    /// Removes the triggers of an id.
    pub fn remove(&mut self, now: Duration, id: &Id, out: &mut Datagrams) {
        let (gone, kept) = self.wanted.drain(..).partition(|one| one.trigger.id == *id);
        self.wanted = kept;
        let gone: Vec<Wanted> = gone;
        for Wanted { trigger, .. } in gone {
            self.send_trigger(now, TriggerUse::Remove, &trigger, out);
        }
    }

    /// Whether all wanted triggers are inserted.
    pub fn is_inserted(&self) -> bool {
        self.wanted.iter().all(|one| one.inserted)
    }

    /// Asks all servers for an echo. The first one that answers is used from then on.
    pub fn probe(&mut self, now: Duration, out: &mut Datagrams) {
        self.probing = Some(now + RETRY);
        let mut ping = [0; PING_BYTES];
        ping[0] = PING;
        out.extend(self.servers.iter().map(|at| (*at, ping.to_vec())));
    }

    /// Whether a server answered an echo request.
    pub fn is_reached(&self) -> bool {
        self.reached
    }

    /// Changes the client's address: removes triggers to the old address, and inserts triggers to
    /// the new one.
    pub fn move_to(&mut self, now: Duration, me: SocketAddr, out: &mut Datagrams) {
        let (old, new) = (Address::from(self.me), Address::from(me));
        self.me = me;
        for index in 0..self.wanted.len() {
            if self.wanted[index].trigger.to != old {
                continue;
            }
            let before = self.wanted[index].trigger.clone();
            self.send_trigger(now, TriggerUse::Remove, &before, out);
            let one = &mut self.wanted[index];
            one.trigger.to = new.clone();
            (one.inserted, one.next, one.unanswered) = (false, now, 0);
        }
    }

    /// Sends a payload to a stack of ids, which must not be empty.
    pub fn send(&mut self, now: Duration, stack: Vec<Id>, payload: &[u8], out: &mut Datagrams) {
        let Some(prefix) = stack.first().map(Id::prefix) else { return };
        let to = self.server(now, &prefix);
        let mut options = vec![PacketOption::Sender(self.me.into())];
        let way = self.ways.entry(prefix).or_default();
        if way.next_ask <= now {
            way.next_ask = now + ASK;
            way.asked.get_or_insert(now);
            options.push(PacketOption::RequestForCache);
        }
        let packet = Packet { first_hop: true, options, ..Packet::data(stack, payload) };
        out.extend(to.map(|to| (to, packet.bytes())));
    }

    /// Does all due work. Call it at least every 100 ms.
    pub fn tick(&mut self, now: Duration, out: &mut Datagrams) {
        let silent: Vec<Prefix> = self
            .ways
            .iter()
            .filter(|(_, way)| way.asked.is_some_and(|asked| asked + SILENT <= now))
            .map(|(prefix, _)| *prefix)
            .collect();
        for prefix in silent {
            self.suspect(now, &prefix, out);
        }
        self.ways
            .retain(|_, way| way.asked.is_some() || way.server.is_some_and(|(_, end)| end > now));
        for index in 0..self.wanted.len() {
            let one = &mut self.wanted[index];
            if one.next > now {
                continue;
            }
            (one.next, one.unanswered) = (now + RETRY, one.unanswered + 1);
            let (trigger, unanswered) = (one.trigger.clone(), one.unanswered);
            if unanswered > 1 {
                self.suspect(now, &trigger.id.prefix(), out);
            }
            self.send_trigger(now, TriggerUse::Insert, &trigger, out);
        }
    }

    /// Notes that the server of a prefix did not answer: another one must be found.
    fn suspect(&mut self, now: Duration, prefix: &Prefix, out: &mut Datagrams) {
        self.ways.remove(prefix);
        if self.probing.is_some_and(|until| until > now) {
            return;
        }
        // If no server answers the echo request, the next attempt uses another server.
        self.current = self.random.usize(..self.servers.len().max(1));
        self.probe(now, out);
    }

    fn server(&self, now: Duration, prefix: &Prefix) -> Option<SocketAddr> {
        let cached = self.ways.get(prefix).and_then(|way| way.server);
        let cached = cached.filter(|(_, until)| *until > now).map(|(at, _)| at);
        cached.or_else(|| self.servers.get(self.current).copied())
    }

    fn send_trigger(
        &mut self,
        now: Duration,
        purpose: TriggerUse,
        trigger: &Trigger,
        out: &mut Datagrams,
    ) {
        let to = self.server(now, &trigger.id.prefix());
        let sender = PacketOption::Sender(self.me.into());
        let options = vec![sender, PacketOption::Trigger(purpose, trigger.clone())];
        let stack = vec![trigger.id];
        let packet = Packet { first_hop: true, stack, options, ..Packet::default() };
        out.extend(to.map(|to| (to, packet.bytes())));
    }

    /// Handles a datagram.
    pub fn receive(
        &mut self,
        now: Duration,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Datagrams,
    ) -> Vec<Arrived> {
        match bytes.first() {
            Some(&VERSION) => {}
            Some(&PING) => {
                self.answered(now, from, out);
                return Vec::new();
            }
            _ => return Vec::new(),
        }
        let Ok(packet) = Packet::read(bytes) else { return Vec::new() };
        let mut arrived = Vec::new();
        for option in packet.options {
            match option {
                PacketOption::Trigger(TriggerUse::Challenge, trigger) => {
                    self.challenged(now, &trigger, out);
                }
                PacketOption::Trigger(TriggerUse::Acknowledge, trigger) => {
                    arrived.extend(self.acknowledged(now, &trigger));
                }
                PacketOption::Trigger(TriggerUse::ConstraintFailed, trigger) => {
                    arrived.push(Arrived::ConstraintFailed(trigger.id));
                }
                PacketOption::Trigger(
                    TriggerUse::CacheAddress | TriggerUse::ForceCacheAddress,
                    trigger,
                ) => self.cache(now, &trigger),
                PacketOption::NotPresent(id) => arrived.push(Arrived::NotPresent(id)),
                _ => {}
            }
        }
        if packet.data && !packet.stack.is_empty() {
            arrived.push(Arrived::Data(packet.stack, packet.payload.to_vec()));
        }
        arrived
    }

    /// Handles a server's answer to an echo request.
    fn answered(&mut self, now: Duration, from: SocketAddr, out: &mut Datagrams) {
        let Some(number) = self.servers.iter().position(|at| *at == from) else { return };
        if self.probing.take().is_none() {
            return;
        }
        (self.current, self.reached) = (number, true);
        for one in self.wanted.iter_mut().filter(|one| one.unanswered > 0) {
            one.next = now;
            one.unanswered = 0;
        }
        self.tick(now, out);
    }

    fn find(&mut self, trigger: &Trigger) -> Option<&mut Wanted> {
        self.wanted
            .iter_mut()
            .find(|one| one.trigger.id == trigger.id && one.trigger.to == trigger.to)
    }

    fn challenged(&mut self, now: Duration, trigger: &Trigger, out: &mut Datagrams) {
        let Some(one) = self.find(trigger) else { return };
        one.trigger.nonce = trigger.nonce;
        (one.next, one.unanswered) = (now + RETRY, 1);
        let insertion = one.trigger.clone();
        self.send_trigger(now, TriggerUse::Insert, &insertion, out);
    }

    fn acknowledged(&mut self, now: Duration, trigger: &Trigger) -> Option<Arrived> {
        // Spreads the refreshes of many triggers over time.
        let part = Duration::from_millis(self.random.u64(..1_000));
        let one = self.find(trigger)?;
        (one.next, one.unanswered) = (now + REFRESH + part, 0);
        let first = !one.inserted;
        one.inserted = true;
        first.then_some(Arrived::Inserted(trigger.id))
    }

    fn cache(&mut self, now: Duration, trigger: &Trigger) {
        let prefix = trigger.id.prefix();
        let asked = self.ways.contains_key(&prefix);
        let own = self.wanted.iter().any(|one| one.trigger.id.prefix() == prefix);
        // Only answers to this client's requests count.
        if let (Some(at), true) = (trigger.to.host(), asked || own) {
            let way = self.ways.entry(prefix).or_default();
            (way.server, way.asked) = (Some((at, now + CACHED)), None);
        }
    }
}
