//! Copies of triggers on the next servers of the ring, which become responsible if this server
//! fails.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Datagrams, SETTLING, Server};
use crate::id::{Key, Prefix};
use crate::message::{Message, Replica, left_ms};
use crate::table::check;
use crate::wire::Trigger;

/// Longest datagram with copies, in bytes: it must fit into a frame.
const DATAGRAM_BYTES: usize = 1200;
/// Estimated bytes of a copy: more than a trigger with an address has, less than one with two ids.
const COPY_BYTES: usize = 110;
/// Most datagrams to one server in one tick: its socket's buffer must hold them.
const DATAGRAMS_A_TICK: usize = 100;

impl Server {
    /// Handles a new predecessor. A nearer predecessor gets the triggers before its position. If
    /// the range of this server has grown, it requests copies of the new part.
    pub(super) fn range_changed(&mut self, now: Duration, out: &mut Datagrams) {
        self.settled = now + SETTLING;
        let before = self.ring.neighbours().predecessor;
        let Some(before) = before else { return };
        let me = self.ring.me();
        let old = self.range_from.replace(before.id);
        let is_new = |prefix: &Prefix| match old {
            Some(old) => old != before.id && prefix.is_after_up_to(&old, &before.id),
            None => !prefix.is_after_up_to(&before.id, &me.id),
        };
        // A predecessor that is nearer than the old one takes over part of the range.
        if old.is_none_or(|old| before.id.is_between(&old, &me.id)) {
            let taken = self.table.all(now, is_new);
            self.wait_for(before.at, taken);
        } else {
            self.resync = true;
        }
        self.replicate(now, out);
    }

    /// Notes a changed trigger for the servers with copies.
    pub(super) fn copy(&mut self, trigger: &Trigger, lifetime: Duration) {
        for at in self.holders.clone() {
            self.wait_for(at, vec![(lifetime, trigger.clone())]);
        }
    }

    fn wait_for(&mut self, at: SocketAddr, triggers: Vec<(Duration, Trigger)>) {
        let waiting = self.waiting.entry(at).or_default();
        for (left, mut trigger) in triggers {
            trigger.nonce = [0; 16];
            // The constraint was checked here, but the next server checks keys of hosts again.
            if matches!(trigger.to, crate::wire::Address::Stack(_)) {
                trigger.key = Key::default();
            }
            waiting.push(Replica { left_ms: left_ms(left), trigger });
        }
    }

    /// Sends waiting copies. After a change of the successors, sends all triggers to the new ones.
    pub(super) fn replicate(&mut self, now: Duration, out: &mut Datagrams) {
        let successors = &self.ring.neighbours().successors;
        let wanted: Vec<SocketAddr> =
            successors.iter().take(self.replicas).map(|one| one.at).collect();
        if self.resync || wanted != self.holders {
            let (me, from) = (self.ring.me().id, self.range_from);
            let grown = self.resync;
            self.resync = false;
            let new: Vec<SocketAddr> =
                wanted.iter().filter(|at| grown || !self.holders.contains(at)).copied().collect();
            self.holders = wanted;
            if !new.is_empty() {
                let own =
                    |prefix: &Prefix| from.is_none_or(|from| prefix.is_after_up_to(&from, &me));
                let all = self.table.all(now, own);
                new.into_iter().for_each(|at| self.wait_for(at, all.clone()));
            }
        }
        self.flush(out);
    }

    fn flush(&mut self, out: &mut Datagrams) {
        let known: Vec<SocketAddr> = self.waiting.keys().copied().collect();
        for at in known {
            let Some(mut waiting) = self.waiting.remove(&at) else { continue };
            if self.ring.is_buried(at) || !self.ring.knows(at) {
                continue;
            }
            let each = DATAGRAM_BYTES / COPY_BYTES;
            let now = waiting.len().min(each * DATAGRAMS_A_TICK);
            let later = waiting.split_off(now);
            for some in waiting.chunks(each) {
                self.counters.copies += some.len() as u64;
                self.send(at, &Message::Keep(some.to_vec()), out);
            }
            if !later.is_empty() {
                self.waiting.insert(at, later);
            }
        }
    }

    /// Takes copies of another server.
    pub(super) fn keep(&mut self, now: Duration, replicas: Vec<Replica>) {
        for Replica { left_ms, trigger } in replicas {
            if left_ms == 0 {
                self.table.remove(&trigger.id, &trigger.to);
            } else if check(&trigger).is_ok() {
                let left = Duration::from_millis(left_ms.into());
                if self.table.insert(now, trigger, left).is_err() {
                    self.counters.refused_triggers += 1;
                }
            }
        }
    }

    /// Leaves the ring: sends its triggers to its successor, then informs its neighbours.
    pub fn leave(&mut self, now: Duration, out: &mut Datagrams) {
        let (me, from) = (self.ring.me().id, self.range_from);
        if let Some(next) = self.ring.neighbours().successors.first().map(|one| one.at) {
            let own = |prefix: &Prefix| from.is_none_or(|from| prefix.is_after_up_to(&from, &me));
            let all = self.table.all(now, own);
            self.wait_for(next, all);
        }
        self.flush(out);
        let mut messages = Vec::new();
        self.ring.leave(&mut messages);
        self.post(messages, out);
    }
}
