//! Sending messages: ids, acknowledgements, retransmissions, bundles, authentication.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::config::jitter;
use crate::id::{Adjacency, Time};
use crate::lsp::Side;
use crate::neighbour::{About, Unacknowledged};
use crate::output::{Datagram, Output};
use crate::rule::Rule;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::{Integrity, Kind, Message, MessageId, MessageIdAck, MessageIdList, Object};
use crate::world::World;

/// Number of sequence numbers that are reserved at a time.
const SEQUENCES: u64 = 4096;
/// Most acknowledgements of a message, and most ids of a summary refresh, so that both stay below
/// 1,280 bytes.
const MANY: usize = 90;

/// A message to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) via: Adjacency,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) router_alert: bool,
    pub(crate) message: Message,
}

impl Signaller {
    /// Addresses a message to a neighbour; `None` if the interface has no address of that family.
    pub(crate) fn to_neighbour(&self, via: Adjacency, message: Message) -> Option<Outgoing> {
        let source = self.config.interface(via.interface)?.source(via.address)?;
        let destination = via.address;
        Some(Outgoing { via, source, destination, router_alert: false, message })
    }

    /// Sends a message once.
    pub(crate) fn send(&mut self, outgoing: Outgoing) {
        self.queue.push(outgoing);
    }

    /// Sends a message until it is acknowledged, if the neighbour supports that. If so, returns the
    /// message's id.
    pub(crate) fn send_reliably(
        &mut self,
        mut outgoing: Outgoing,
        about: Option<About>,
    ) -> Option<u32> {
        let again = self.now + self.config.retransmit.first;
        let window = self.config.retransmit.window;
        let Some(neighbour) =
            self.neighbours.get_mut(&outgoing.via).filter(|neighbour| neighbour.is_capable)
        else {
            self.send(outgoing);
            return None;
        };
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let flags = MessageId::ACK_DESIRED;
        let own = MessageId { flags, epoch: self.config.epoch, id };
        outgoing.message.objects.insert(0, Object::MessageId(own));
        let via = outgoing.via;
        let message = Unacknowledged { outgoing: outgoing.clone(), about, sent: 1, again };
        if neighbour.post(id, message, window) {
            self.send(outgoing);
        }
        self.plan_retransmission(via);
        Some(id)
    }

    fn plan_retransmission(&mut self, via: Adjacency) {
        let timer = Timer::Retransmit(via);
        match self.neighbours.get(&via).and_then(|neighbour| neighbour.next_again()) {
            Some(again) => self.timers.set(timer, again),
            None => self.timers.cancel(timer),
        }
    }

    /// RFC 2961, section 6.3: Rf, then twice as long each time, at most Rl times. RFC 8370, section
    /// 2.2: without end, if no refresh would repair a loss.
    pub(crate) fn retransmit(&mut self, via: Adjacency) {
        let settings = self.config.retransmit;
        let never_ends = self.is_independent(via);
        while let Some(neighbour) = self.neighbours.get_mut(&via)
            && let Some((id, sent)) = neighbour.due(self.now)
        {
            let rapid = sent < settings.limit;
            if !(rapid || never_ends) || !self.rules.hold(Rule::Retransmit) {
                neighbour.give_up(id);
                self.counters.given_up += 1;
                continue;
            }
            let wait = settings.first.saturating_mul(1 << sent.min(20));
            let wait = if rapid { wait } else { settings.slow };
            if let Some(outgoing) = neighbour.send_again(id, self.now + wait) {
                self.queue.push(outgoing.clone());
                self.counters.retransmitted += 1;
            }
        }
        self.fill_window(via);
    }

    /// RFC 8370, section 2.3: sends waiting messages.
    fn fill_window(&mut self, via: Adjacency) {
        let settings = self.config.retransmit;
        let again = self.now + settings.first;
        while let Some(neighbour) = self.neighbours.get_mut(&via)
            && let Some(outgoing) = neighbour.next_waiting(settings.window, again)
        {
            self.queue.push(outgoing.clone());
        }
        self.plan_retransmission(via);
    }

    /// A neighbour has acknowledged messages, or refused ids.
    pub(crate) fn acks_in(&mut self, world: &mut dyn World, via: Adjacency, acks: &[MessageIdAck]) {
        let epoch = self.config.epoch;
        for ack in acks.iter().filter(|ack| ack.epoch == epoch) {
            let Some(neighbour) = self.neighbours.get_mut(&via) else { return };
            if ack.is_nack {
                if let Some((lsp, side)) = neighbour.refused(ack.id) {
                    self.tell_again(world, lsp, side);
                }
            } else if let Some((lsp, side)) = neighbour.acknowledged(ack.id) {
                self.timers.cancel(match side {
                    Side::Path => Timer::PathRefresh(lsp),
                    Side::Resv => Timer::ResvRefresh(lsp),
                });
                let summary = Timer::SummaryRefresh(via);
                if !self.timers.is_set(summary) {
                    let next = self.next_refresh(via);
                    self.timers.set(summary, next);
                }
            }
        }
        if !acks.is_empty() {
            self.fill_window(via);
        }
    }

    /// The refresh period that this node announces to a neighbour, and uses for the neighbour's
    /// state.
    pub(crate) fn refresh_period(&self, via: Adjacency) -> Duration {
        match self.config.independent_refresh {
            Some(period) if self.is_independent(via) => period,
            _ => self.config.refresh,
        }
    }

    pub(crate) fn next_refresh(&mut self, via: Adjacency) -> Time {
        let period = self.refresh_period(via);
        self.now + jitter(&mut self.random, period)
    }

    /// RFC 2961, section 5: one message refreshes all acknowledged state.
    pub(crate) fn summary_refresh(&mut self, via: Adjacency) {
        let Some(neighbour) = self.neighbours.get(&via) else { return };
        let ids: Vec<u32> = neighbour.summarised.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        for ids in ids.chunks(MANY * 3) {
            let list = MessageIdList { epoch: self.config.epoch, ids: ids.to_vec() };
            let message = Message::new(Kind::Srefresh, vec![Object::MessageIdList(list)]);
            if let Some(outgoing) = self.to_neighbour(via, message) {
                self.send(outgoing);
            }
        }
        let next = self.next_refresh(via);
        self.timers.set(Timer::SummaryRefresh(via), next);
    }

    /// Returns the messages that were collected during a call.
    pub(crate) fn flush(&mut self) {
        let mut by_neighbour: BTreeMap<Adjacency, Vec<Outgoing>> = BTreeMap::new();
        for outgoing in std::mem::take(&mut self.queue) {
            by_neighbour.entry(outgoing.via).or_default().push(outgoing);
        }
        let with_acks = self.neighbours.iter().filter(|(_, neighbour)| !neighbour.acks.is_empty());
        for via in with_acks.map(|(via, _)| *via).collect::<Vec<_>>() {
            by_neighbour.entry(via).or_default();
        }
        for (via, mut messages) in by_neighbour {
            self.attach_acks(via, &mut messages);
            for outgoing in self.bundle(via, messages) {
                self.emit(outgoing);
            }
        }
    }

    fn attach_acks(&mut self, via: Adjacency, messages: &mut Vec<Outgoing>) {
        let Some(neighbour) = self.neighbours.get_mut(&via) else { return };
        let mut acks: Vec<Object> =
            std::mem::take(&mut neighbour.acks).into_iter().map(Object::MessageIdAck).collect();
        let carries = |kind: Kind| matches!(kind, Kind::Path | Kind::Resv | Kind::Srefresh);
        // RFC 2961, section 4.1: acknowledgements precede MESSAGE_ID.
        if acks.len() <= 8
            && let Some(first) = messages.iter_mut().find(|first| carries(first.message.kind))
        {
            first.message.objects.splice(0..0, acks.drain(..));
        }
        while !acks.is_empty() {
            let rest = acks.split_off(acks.len().min(MANY));
            let message = Message::new(Kind::Ack, std::mem::replace(&mut acks, rest));
            messages.extend(self.to_neighbour(via, message));
        }
    }

    /// RFC 2961, section 3: joins several messages to a neighbour that supports it.
    fn bundle(&self, via: Adjacency, messages: Vec<Outgoing>) -> Vec<Outgoing> {
        let is_capable = self.neighbours.get(&via).is_some_and(|neighbour| neighbour.is_capable);
        let room =
            self.config.interface(via.interface).map_or(0, |interface| interface.mtu) as usize;
        // Reserved: IPv6 header, common header, and INTEGRITY with the longest digest.
        let room = room.saturating_sub(40 + 8 + 52);
        if !is_capable || messages.len() < 2 {
            return messages;
        }
        let (mut out, mut parts, mut length) = (Vec::new(), Vec::new(), 0);
        let close = |parts: &mut Vec<Outgoing>, out: &mut Vec<Outgoing>| {
            if parts.len() < 2 {
                out.append(parts);
                return;
            }
            let mut bundle = Message::new(Kind::Bundle, Vec::new());
            bundle.parts = parts.drain(..).map(|part| part.message).collect();
            bundle.parts.iter_mut().for_each(|part| part.flags = Message::REFRESH_REDUCTION);
            out.extend(self.to_neighbour(via, bundle));
        };
        for message in messages {
            let kind = message.message.kind;
            if matches!(kind, Kind::Hello | Kind::Challenge | Kind::ChallengeResponse) {
                out.push(message);
                continue;
            }
            let next = message.message.encode().len();
            if length + next > room {
                close(&mut parts, &mut out);
                length = 0;
            }
            length += next;
            parts.push(message);
        }
        close(&mut parts, &mut out);
        out
    }

    /// Encodes the message and, if the interface has a key, signs it.
    fn emit(&mut self, outgoing: Outgoing) {
        let Outgoing { via, source, destination, router_alert, mut message } = outgoing;
        message.flags = Message::REFRESH_REDUCTION;
        let key = self.config.interface(via.interface).and_then(|interface| interface.key.clone());
        let key = key.filter(|_| message.kind != Kind::Challenge);
        if let Some(key) = &key {
            let sequence = self.take_sequence();
            let flags = if key.has_handshake { Integrity::HANDSHAKE } else { 0 };
            let digest = vec![0; key.algorithm.length()];
            let own = Integrity { flags, key: key.id, sequence, digest };
            message.objects.insert(0, Object::Integrity(own));
        }
        let ttl = message.ttl;
        let mut bytes = message.encode();
        if let Some(key) = &key {
            key.sign(&mut bytes);
        }
        self.out.push(Output::Send(Datagram {
            via,
            source,
            destination,
            ttl,
            router_alert,
            bytes,
        }));
    }

    /// RFC 2747, section 3: numbers never repeat, even after a crash.
    fn take_sequence(&mut self) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        if sequence >= self.remembered {
            self.remembered = sequence + SEQUENCES;
            self.out.push(Output::Remember(self.remembered));
        }
        sequence
    }
}
