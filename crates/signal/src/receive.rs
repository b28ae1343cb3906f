//! Received messages: authentication, ids, and handlers.

use std::net::IpAddr;

use crate::auth::{Key, Window};
use crate::config::lifetime;
use crate::fields::Fields;
use crate::id::{Adjacency, InterfaceId, LspKey};
use crate::lsp::Side;
use crate::neighbour::{About, Neighbour, Trust};
use crate::peer::PeerKey;
use crate::rule::Rule;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::{Challenge, Integrity, Kind, Message, MessageId, MessageIdAck, Object};
use crate::world::World;

/// Most senders whose sequence numbers are stored.
const MOST_TRUSTED: usize = 8192;

/// The origin of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The neighbour, identified by its hop address if the message has one.
    pub(crate) via: Adjacency,
    /// In the IP header.
    pub(crate) source: IpAddr,
    pub(crate) ttl: u8,
}

impl Signaller {
    pub(crate) fn packet(
        &mut self,
        world: &mut dyn World,
        interface: InterfaceId,
        source: IpAddr,
        ttl: u8,
        bytes: &[u8],
    ) {
        let Some(settings) = self.config.interface(interface) else { return };
        let key = settings.key.clone();
        let Ok(message) = Message::decode(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let hop = message.objects.iter().find_map(|object| match object {
            Object::Hop(hop) => Some(hop.address),
            _ => None,
        });
        // The source of a Path is its head (RFC 2205, section 3.1.3): the neighbour's address is in
        // the hop object.
        let via = Adjacency { interface, address: hop.unwrap_or(source) };
        if let Some(key) = key
            && !self.is_authentic(&key, via, &message, bytes)
        {
            return;
        }
        self.message(world, Arrival { via, source, ttl }, message);
    }

    /// RFC 2747, section 4.2. A challenge needs no digest: it only makes this node answer.
    fn is_authentic(&mut self, key: &Key, via: Adjacency, message: &Message, bytes: &[u8]) -> bool {
        if message.kind == Kind::Challenge {
            return true;
        }
        let Some(Object::Integrity(integrity)) = message.objects.first() else {
            self.counters.unauthentic += 1;
            return false;
        };
        if integrity.key != key.id || !key.verify(bytes) {
            self.counters.unauthentic += 1;
            return false;
        }
        let is_authentic = self.is_fresh(key, via, message, integrity);
        self.counters.unauthentic += u64::from(!is_authentic);
        is_authentic
    }

    fn is_fresh(&mut self, key: &Key, via: Adjacency, message: &Message, own: &Integrity) -> bool {
        let sender = (via, key.id);
        if let Some(Trust::Known(window)) = self.trust.get_mut(&sender) {
            return window.take(own.sequence);
        }
        let must_answer = key.has_handshake && own.flags & Integrity::HANDSHAKE != 0;
        let answers = match self.trust.get(&sender) {
            Some(Trust::Challenged(cookie)) => {
                message.kind == Kind::ChallengeResponse
                    && message.objects.iter().any(|object| {
                        matches!(object, Object::Challenge(answer) if answer.cookie == *cookie)
                    })
            }
            _ => !must_answer,
        };
        if !self.trust.contains_key(&sender) && self.trust.len() >= MOST_TRUSTED {
            return false;
        }
        if answers {
            self.trust.insert(sender, Trust::Known(Window::new(own.sequence)));
            return true;
        }
        if !self.trust.contains_key(&sender) {
            let cookie = [self.random.bits(), self.random.bits()];
            let cookie = cookie.iter().flat_map(|word| word.to_be_bytes()).collect();
            self.trust.insert(sender, Trust::Challenged(cookie));
        }
        // RFC 2747, section 4.3: the message is dropped, and its sender challenged; the sender will
        // send it again.
        if let Some(Trust::Challenged(cookie)) = self.trust.get(&sender) {
            let challenge = Challenge { key: key.id, cookie: cookie.clone() };
            let message = Message::new(Kind::Challenge, vec![Object::Challenge(challenge)]);
            self.queue.extend(self.to_neighbour(via, message));
        }
        false
    }

    /// RFC 2747, section 4.3: returns the challenge under the key.
    fn challenged(&mut self, via: Adjacency, message: &Message) {
        let challenge = message.objects.iter().find_map(|object| match object {
            Object::Challenge(challenge) => Some(challenge.clone()),
            _ => None,
        });
        let key = self.config.interface(via.interface).and_then(|interface| interface.key.as_ref());
        let Some(challenge) = challenge.filter(|challenge| {
            key.is_some_and(|key| key.id == challenge.key) && challenge.cookie.len() <= 64
        }) else {
            self.counters.useless += 1;
            return;
        };
        let answer = Message::new(Kind::ChallengeResponse, vec![Object::Challenge(challenge)]);
        self.queue.extend(self.to_neighbour(via, answer));
    }

    fn message(&mut self, world: &mut dyn World, arrival: Arrival, message: Message) {
        let Arrival { via, .. } = arrival;
        match message.kind {
            Kind::Challenge => return self.challenged(via, &message),
            Kind::ChallengeResponse => return,
            Kind::Hello => return self.hello_in(world, arrival, &message),
            // The message's source is the head, and it has no hop object, so it does not identify a
            // neighbour.
            Kind::ResvConf => return self.confirmed_in(&Fields::of(message)),
            Kind::Bundle => {
                let reduces = message.flags & Message::REFRESH_REDUCTION != 0;
                self.note_capability(world, via, reduces);
                for part in message.parts {
                    let hop = part.objects.iter().find_map(|object| match object {
                        Object::Hop(hop) => Some(hop.address),
                        _ => None,
                    });
                    let address = hop.unwrap_or(via.address);
                    let via = Adjacency { address, ..via };
                    // The TTL of the IP header is that of the bundle.
                    self.message(world, Arrival { via, ttl: part.ttl, ..arrival }, part);
                }
                return;
            }
            _ => (),
        }
        let reduces = message.flags & Message::REFRESH_REDUCTION != 0;
        self.note_capability(world, via, reduces);
        if message.kind == Kind::Srefresh {
            return self.summary_in(via, message);
        }
        let (kind, ttl) = (message.kind, message.ttl);
        let fields = Fields::of(message);
        if let Some(id) = fields.id {
            self.note_id(via, id);
        }
        self.acks_in(world, via, &fields.acks);
        match kind {
            Kind::Path => self.path_in(world, arrival, ttl, &fields),
            Kind::Resv => self.resv_in(world, via, &fields),
            Kind::PathTear => self.path_tear_in(world, via, &fields),
            Kind::ResvTear => self.resv_tear_in(world, via, &fields),
            Kind::PathErr => self.path_error_in(via, &fields),
            Kind::ResvErr => self.resv_error_in(via, &fields),
            Kind::RecoveryPath => self.recovery_path_in(via, &fields),
            _ => (),
        }
    }

    /// A neighbour that sends or receives messages; `None` if there are too many.
    pub(crate) fn neighbour(
        &mut self,
        world: &dyn World,
        via: Adjacency,
    ) -> Option<&mut Neighbour> {
        if !self.neighbours.contains_key(&via) {
            self.config.interface(via.interface)?;
            if self.neighbours.len() >= self.config.limits.neighbours {
                return None;
            }
            let by_node = self.config.hello.is_some_and(|hello| hello.by_node);
            let node = by_node.then(|| world.node_of(via)).flatten();
            let peer = match node {
                Some(address) => PeerKey { interface: None, address },
                None => PeerKey { interface: Some(via.interface), address: via.address },
            };
            self.neighbours.insert(via, Neighbour::new(peer));
            self.timers.set(Timer::Forget(via), self.now + lifetime(self.config.refresh));
            self.begin_hello(peer, via);
        }
        self.neighbours.get_mut(&via)
    }

    /// RFC 2961, section 2: each message shows whether its sender supports refresh reduction.
    fn note_capability(&mut self, world: &dyn World, via: Adjacency, reduces: bool) {
        if let Some(neighbour) = self.neighbour(world, via) {
            neighbour.is_capable = reduces;
        }
    }

    fn note_id(&mut self, via: Adjacency, id: MessageId) {
        self.note_epoch(via, id.epoch);
        if let Some(neighbour) = self.neighbours.get_mut(&via)
            && id.flags & MessageId::ACK_DESIRED != 0
        {
            let ack = MessageIdAck { is_nack: false, epoch: id.epoch, id: id.id };
            neighbour.acks.push(ack);
        }
    }

    /// RFC 2961, section 4.6: if the epoch changes, former ids have no meaning.
    fn note_epoch(&mut self, via: Adjacency, epoch: u32) {
        let Some(neighbour) = self.neighbours.get_mut(&via) else { return };
        if neighbour.epoch == Some(epoch) {
            return;
        }
        neighbour.epoch = Some(epoch);
        neighbour.received.clear();
        neighbour.removed.clear();
        for lsp in self.lsps.values_mut() {
            if lsp.upstream.via() == Some(via) {
                lsp.path_id = None;
            }
            if lsp.downstream.via() == Some(via) {
                lsp.resv_id = None;
            }
        }
    }

    /// Whether a message about a state is older than the present state (RFC 2961, section 4.6).
    pub(crate) fn is_overtaken(
        &mut self,
        via: Adjacency,
        about: About,
        id: Option<MessageId>,
    ) -> bool {
        if !self.rules.hold(Rule::IgnoreOvertaken) {
            return false;
        }
        let (key, side) = about;
        let known = self.lsps.get(&key).and_then(|lsp| match side {
            Side::Path if lsp.upstream.via() == Some(via) => lsp.path_id,
            Side::Resv if lsp.downstream.via() == Some(via) => lsp.resv_id,
            _ => None,
        });
        let Some(id) = id.map(|id| id.id) else {
            // A neighbour that has begun to send ids continues to do so; this message has none, so
            // it is older.
            let capable = self.neighbours.get(&via).is_some_and(|neighbour| neighbour.is_capable);
            let overtaken = capable && known.is_some();
            self.counters.overtaken += u64::from(overtaken);
            return overtaken;
        };
        let is_older = |than: u32| (id.wrapping_sub(than) as i32) < 0;
        let removed = self.neighbours.get(&via).and_then(|neighbour| neighbour.removed.get(&about));
        let overtaken =
            known.is_some_and(is_older) || removed.is_some_and(|(than, _)| is_older(*than));
        self.counters.overtaken += u64::from(overtaken);
        overtaken
    }

    /// Records that a state comes from this message, whose id may refresh it.
    pub(crate) fn bind(&mut self, via: Adjacency, about: About, id: Option<MessageId>) {
        self.unbind(via, about);
        let (Some(neighbour), Some(id)) = (self.neighbours.get_mut(&via), id) else { return };
        let Some(lsp) = self.lsps.get_mut(&about.0) else { return };
        neighbour.removed.remove(&about);
        neighbour.received.insert(id.id, about);
        match about.1 {
            Side::Path => lsp.path_id = Some(id.id),
            Side::Resv => lsp.resv_id = Some(id.id),
        }
    }

    /// Records that the state was removed or changed, so that no id refreshes it.
    pub(crate) fn unbind(&mut self, via: Adjacency, about: About) {
        let Some(lsp) = self.lsps.get_mut(&about.0) else { return };
        let id = match about.1 {
            Side::Path => lsp.path_id.take(),
            Side::Resv => lsp.resv_id.take(),
        };
        if let (Some(neighbour), Some(id)) = (self.neighbours.get_mut(&via), id)
            && neighbour.received.get(&id) == Some(&about)
        {
            neighbour.received.remove(&id);
        }
    }

    /// RFC 2961, section 5.4: each id refreshes its state, or is refused.
    fn summary_in(&mut self, via: Adjacency, message: Message) {
        let mut refreshed: Vec<(LspKey, Side)> = Vec::new();
        for object in message.objects {
            let Object::MessageIdList(list) = object else { continue };
            self.note_epoch(via, list.epoch);
            let Some(neighbour) = self.neighbours.get_mut(&via) else { return };
            for id in list.ids {
                match neighbour.received.get(&id) {
                    Some(about) => refreshed.push(*about),
                    None if self.rules.hold(Rule::RefuseUnknownIds) => {
                        let refusal = MessageIdAck { is_nack: true, epoch: list.epoch, id };
                        neighbour.acks.push(refusal);
                    }
                    None => (),
                }
            }
        }
        for (lsp, side) in refreshed {
            let timer = match side {
                Side::Path => Timer::PathExpiry(lsp),
                Side::Resv => Timer::ResvExpiry(lsp),
            };
            let period = self.told_period(lsp, side);
            self.keep_for(timer, period);
        }
    }
}
