//! The server that is responsible for a position, and the next hop towards it.

use super::{Event, Ring};
use crate::id::Prefix;
use crate::message::Member;

/// The next hop of a message for a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// This server is responsible.
    Here,
    /// Another server, and whether that server is responsible.
    To(Member, bool),
    /// This server is not part of the ring yet.
    Nowhere,
}

impl Ring {
    /// The next hop of a message for a position.
    pub fn next_hop(&self, key: &Prefix) -> Hop {
        if !self.joined {
            return Hop::Nowhere;
        }
        let Some(first) = self.neighbours.successors.first() else { return Hop::Here };
        if self.owns(key) {
            return Hop::Here;
        }
        if key.is_after_up_to(&self.me.id, &first.id) {
            return Hop::To(*first, true);
        }
        Hop::To(self.before(key).unwrap_or(*first), false)
    }

    /// Whether it is certainly responsible.
    pub fn owns(&self, key: &Prefix) -> bool {
        let alone = self.joined && self.is_alone();
        alone
            || self
                .neighbours
                .predecessor
                .is_some_and(|before| key.is_after_up_to(&before.id, &self.me.id))
    }

    /// Whether it accepts a message that another server sends to it as the responsible server.
    /// Without a predecessor it cannot check this.
    pub fn accepts(&self, key: &Prefix) -> bool {
        self.joined && (self.neighbours.predecessor.is_none() || self.owns(key))
    }

    /// The nearest known server before a position.
    fn before(&self, key: &Prefix) -> Option<Member> {
        let fingers = self.fingers.iter().flatten();
        let known = self.neighbours.successors.iter().chain(fingers);
        let mut best: Option<Member> = None;
        for one in known {
            let nearer = |best: Member| one.id.is_between(&best.id, key);
            if one.id.is_between(&self.me.id, key) && best.is_none_or(nearer) {
                best = Some(*one);
            }
        }
        best
    }

    /// Whether a server is in one of the lists.
    pub fn knows(&self, at: std::net::SocketAddr) -> bool {
        self.known().iter().any(|one| one.at == at)
    }

    /// Whether a server died a short time ago.
    pub fn is_buried(&self, at: std::net::SocketAddr) -> bool {
        self.buried.contains_key(&at)
    }

    pub(super) fn note_found(&mut self, key: Prefix, owner: Member, hops: u8) {
        self.events.push(Event::Found(key, owner, hops));
    }
}
