//! Messages that arrive.

use std::net::SocketAddr;
use std::time::Duration;

use super::{BURIED, Hop, Out, Question, Ring};
use crate::id::Prefix;
use crate::message::{Member, Message, Neighbours};

impl Ring {
    /// Handles a message of the ring; ignores others.
    pub fn receive(&mut self, now: Duration, from: SocketAddr, message: Message, out: &mut Out) {
        match message {
            Message::Ask(one) => {
                self.hear(now, one);
                if self.joined {
                    out.push((from, Message::Tell(self.me, self.neighbours.clone())));
                }
            }
            Message::Tell(one, all) => {
                self.hear(now, one);
                self.told(now, one, all, out);
            }
            Message::Notify(one) => {
                self.hear(now, one);
                self.rectify(one);
            }
            Message::Find { token, key, origin, hops_left, hops } => {
                self.find(token, key, origin, hops_left, hops, out);
            }
            Message::Found { token, owner, hops } => self.found(now, token, owner, hops, out),
            Message::Leave(one, all) => self.left(now, one, all),
            _ => {}
        }
    }

    /// Notes that a server is alive.
    fn hear(&mut self, now: Duration, one: Member) {
        self.buried.remove(&one.at);
        if let Some(heard) = self.heard.get_mut(&one.at) {
            *heard = now;
        }
    }

    /// Stabilise: the list of the first successor, or of its predecessor, becomes this server's
    /// list.
    fn told(&mut self, now: Duration, one: Member, all: Neighbours, out: &mut Out) {
        if one.id == self.me.id {
            return;
        }
        let first = self.neighbours.successors.first().copied();
        if self.joining == Some(one) {
            self.joining = None;
            if !self.joined || self.is_alone() {
                self.joined = true;
                self.adopt(now, one, &all.successors);
                out.push((one.at, Message::Notify(self.me)));
            }
        } else if first == Some(one) {
            self.adopt(now, one, &all.successors);
            let nearer = all.predecessor.filter(|nearer| {
                nearer.id.is_between(&self.me.id, &one.id) && !self.buried.contains_key(&nearer.at)
            });
            self.candidate = nearer;
            match nearer {
                Some(nearer) => out.push((nearer.at, Message::Ask(self.me))),
                None => out.push((one.at, Message::Notify(self.me))),
            }
        } else if self.candidate == Some(one)
            && first.is_some_and(|first| one.id.is_between(&self.me.id, &first.id))
        {
            self.candidate = None;
            self.adopt(now, one, &all.successors);
            out.push((one.at, Message::Notify(self.me)));
        }
    }

    /// Takes a successor with its list.
    fn adopt(&mut self, now: Duration, first: Member, rest: &[Member]) {
        self.heard.entry(first.at).or_insert(now);
        let list = [&[first], rest].concat();
        self.set_successors(list);
    }

    /// Accepts a predecessor that is nearer, or any if none is known: a timeout removes dead ones.
    fn rectify(&mut self, one: Member) {
        if one.id == self.me.id || !self.joined {
            return;
        }
        let nearer = |old: Member| one.id.is_between(&old.id, &self.me.id);
        if self.neighbours.predecessor.is_none_or(nearer) {
            self.set_predecessor(Some(one));
        }
        // A ring of one server becomes a ring of two.
        if self.is_alone() {
            self.set_successors(vec![one]);
        }
    }

    fn find(
        &mut self,
        token: u64,
        key: Prefix,
        origin: SocketAddr,
        hops_left: u8,
        hops: u8,
        out: &mut Out,
    ) {
        let hop = self.next_hop(&key);
        match hop {
            Hop::Here => out.push((origin, Message::Found { token, owner: self.me, hops })),
            Hop::To(owner, true) => {
                out.push((origin, Message::Found { token, owner, hops: hops.saturating_add(1) }));
            }
            Hop::To(next, false) if hops_left > 0 => {
                let (hops_left, hops) = (hops_left - 1, hops.saturating_add(1));
                out.push((next.at, Message::Find { token, key, origin, hops_left, hops }));
            }
            Hop::To(..) | Hop::Nowhere => {}
        }
    }

    fn found(&mut self, now: Duration, token: u64, owner: Member, hops: u8, out: &mut Out) {
        let Some((question, _)) = self.questions.remove(&token) else { return };
        match question {
            Question::Join => self.merge(now, owner, out),
            Question::Finger(number) => {
                let usable = owner.id != self.me.id && !self.buried.contains_key(&owner.at);
                self.fingers[number] = usable.then_some(owner);
            }
            Question::Owner(key) => self.note_found(key, owner, hops),
        }
    }

    /// Accepts a successor from a ring that does not contain this server.
    fn merge(&mut self, now: Duration, owner: Member, out: &mut Out) {
        // The entry of this server from before a restart disappears soon.
        if owner.id == self.me.id {
            return;
        }
        if !self.joined || self.is_alone() {
            // This server becomes part of the ring once it has that server's list.
            self.joining = Some(owner);
        } else {
            let known = self.neighbours.successors.clone();
            let nearer = |first: &Member| owner.id.is_between(&self.me.id, &first.id);
            if !known.first().is_some_and(nearer) {
                return;
            }
            self.buried.remove(&owner.at);
            self.adopt(now, owner, &known);
        }
        out.push((owner.at, Message::Ask(self.me)));
    }

    /// Handles a server's departure: its neighbours become neighbours of each other.
    fn left(&mut self, now: Duration, one: Member, all: Neighbours) {
        let was_first = self.neighbours.successors.first() == Some(&one);
        let was_before = self.neighbours.predecessor == Some(one);
        self.buried.insert(one.at, now + BURIED);
        self.forget(one.at);
        let me = self.me.id;
        let mine = |next: &Member| next.id != me;
        if was_first && let Some(next) = all.successors.first().copied().filter(mine) {
            self.adopt(now, next, &all.successors[1..]);
        }
        if was_before && let Some(before) = all.predecessor.filter(mine) {
            self.set_predecessor(Some(before));
        }
    }
}
