//! Options for the responsible server: triggers, and requests for its address. Also hosts behind
//! NATs.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Datagrams, HOST_KNOWN, Job, MOST_CACHED, Server};
use crate::id::{Key, LEAST_PREFIX_BITS};
use crate::message::Message;
use crate::table::{LIFETIME, Refused, check};
use crate::wire::{Address, Packet, PacketOption, Trigger, TriggerUse};

/// Triggers that one packet may insert or remove; the public code's limit.
const MOST_TRIGGERS: usize = 25;

impl Server {
    /// At the first hop the sender's address is known. If the packet names another address, the
    /// host is behind a NAT, and gets an address that leads through this server. So an answer never
    /// goes to a host that sent no request.
    pub(super) fn note_host(&mut self, now: Duration, from: SocketAddr, job: &mut Job) {
        let Some(claimed) = job.sender.clone() else { return };
        if claimed == Address::from(from) {
            return;
        }
        let seen = match (&claimed, Address::from(from), self.ring.me().at) {
            (Address::V4(host), Address::V4(nat), SocketAddr::V4(server)) => {
                if self.hosts.len() < MOST_CACHED {
                    self.hosts.insert(nat, now + HOST_KNOWN);
                }
                Address::Nat { host: *host, nat, server }
            }
            (_, from, _) => from,
        };
        for option in &mut job.options {
            match option {
                PacketOption::Sender(at) => *at = seen.clone(),
                PacketOption::Trigger(_, trigger) if trigger.to == claimed => {
                    trigger.to = seen.clone();
                }
                _ => {}
            }
        }
        job.sender = Some(seen);
    }

    /// Handles the options of a packet that has arrived.
    pub(super) fn options(&mut self, now: Duration, job: &Job, out: &mut Datagrams) {
        let mut triggers = 0;
        for option in &job.options {
            match option {
                PacketOption::Trigger(TriggerUse::Insert, trigger) if triggers < MOST_TRIGGERS => {
                    triggers += 1;
                    self.insert(now, trigger, job, out);
                }
                PacketOption::Trigger(TriggerUse::Remove, trigger) if triggers < MOST_TRIGGERS => {
                    triggers += 1;
                    self.remove(now, trigger);
                }
                PacketOption::RequestForCache => {
                    if let (Some(sender), Some(first)) = (&job.sender, job.stack.first()) {
                        let mut cache = Trigger::new(*first, self.own_address(), Key::default());
                        cache.prefix_bits = LEAST_PREFIX_BITS;
                        let option = PacketOption::Trigger(TriggerUse::CacheAddress, cache);
                        self.answer(sender, vec![option], job.wide, out);
                    }
                }
                _ => {}
            }
        }
    }

    fn own_address(&self) -> Address {
        self.ring.me().at.into()
    }

    fn insert(&mut self, now: Duration, trigger: &Trigger, job: &Job, out: &mut Datagrams) {
        let verdict = check(trigger);
        if let Err(refused) = verdict {
            self.counters.refused_triggers += 1;
            if refused == Refused::Constraint {
                self.answer_trigger(TriggerUse::ConstraintFailed, trigger, job, out);
            }
            return;
        }
        if !self.nonces.is_valid(now, &trigger.id, &trigger.to, &trigger.nonce) {
            self.counters.challenges += 1;
            let nonce = self.nonces.of(now, &trigger.id, &trigger.to);
            let challenged = Trigger { nonce, ..trigger.clone() };
            self.answer_trigger(TriggerUse::Challenge, &challenged, job, out);
            return;
        }
        match self.table.insert(now, trigger.clone(), LIFETIME) {
            Ok(_) => {
                self.counters.insertions += 1;
                // The id has a trigger again.
                self.pushed_back.remove(&trigger.id);
                self.copy(trigger, LIFETIME);
                self.answer_trigger(TriggerUse::Acknowledge, trigger, job, out);
            }
            Err(_) => self.counters.refused_triggers += 1,
        }
    }

    fn remove(&mut self, now: Duration, trigger: &Trigger) {
        if !self.nonces.is_valid(now, &trigger.id, &trigger.to, &trigger.nonce) {
            self.counters.refused_triggers += 1;
            return;
        }
        if self.table.remove(&trigger.id, &trigger.to) {
            self.counters.removals += 1;
            self.copy(trigger, Duration::ZERO);
        }
    }

    /// Answers about a trigger, with this server's address. A challenge is sent to the host that
    /// would get packets, so only that host can activate the trigger.
    fn answer_trigger(
        &mut self,
        purpose: TriggerUse,
        trigger: &Trigger,
        job: &Job,
        out: &mut Datagrams,
    ) {
        let mut cache = Trigger::new(trigger.id, self.own_address(), trigger.key);
        cache.prefix_bits = LEAST_PREFIX_BITS;
        let mut named = trigger.clone();
        // A host's trigger contains the host's own address.
        if let Address::Nat { host, .. } = trigger.to {
            named.to = Address::V4(host);
        }
        let options = vec![
            PacketOption::Trigger(purpose, named),
            PacketOption::Trigger(TriggerUse::CacheAddress, cache),
        ];
        let to = match (purpose, &trigger.to) {
            (TriggerUse::Challenge, Address::Stack(_)) => job.sender.as_ref(),
            (TriggerUse::Challenge, host) => Some(host),
            _ => job.sender.as_ref(),
        };
        if let Some(to) = to.cloned() {
            self.answer(&to, options, job.wide, out);
        }
    }

    /// Sends a client options.
    pub(super) fn answer(
        &mut self,
        to: &Address,
        options: Vec<PacketOption>,
        wide: bool,
        out: &mut Datagrams,
    ) {
        let packet = Packet { wide, ..Packet::control(options) };
        self.send_to_host(to, packet.bytes(), out);
    }

    /// Sends bytes to a host. For a host behind a NAT, it sends them to the server in the host's
    /// address.
    pub(super) fn send_to_host(&mut self, to: &Address, bytes: Vec<u8>, out: &mut Datagrams) {
        match to {
            Address::V4(at) => out.push(((*at).into(), bytes)),
            Address::V6(at) => out.push(((*at).into(), bytes)),
            Address::Nat { nat, server, .. } => {
                if SocketAddr::from(*server) == self.ring.me().at {
                    out.push(((*nat).into(), bytes));
                } else {
                    self.send((*server).into(), &Message::Relay((*nat).into(), bytes), out);
                }
            }
            // An answer to ids is not sent: the public code's server answers only hosts.
            Address::Stack(_) => {}
        }
    }
}
