//! Filters: rules of a slice for the packets that its routers send.
//!
//! | file      | concern                                                          |
//! |-----------|------------------------------------------------------------------|
//! | `action`  | the action of a rule                                             |
//! | `packet`  | a packet's key, or its router's; marks                           |
//! | `changes` | changes of rules from the node                                   |
//! | `rules`   | the tables, and the thread that changes them                     |
//!
//! This file has the worker's part. Interfaces of slices without rules pay one branch a packet.
//!
//! A thread of the switch changes two copies of the tables (left-right), so no packet waits, and a
//! packet meets a batch of changes as a whole. Rules contain *ways*, not interface numbers; the
//! switch removes ways with their interface. A router can write the key while the switch reads it.
//! So it can deceive only the rules of its own slice about its own packets.

pub(crate) mod action;
pub(crate) mod changes;
pub(crate) mod packet;
mod rules;

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};

use europa_filter::{Batch, Reader, Slice};
use europa_pool::layout::{RESULT_OFFSET_BYTES, rx_offset};
use europa_pool::{Word, ring};
use europa_substrate::layout::ANY_SOURCE;

use self::action::{Action, NOWHERE, Reply, Verdict};
use self::packet::PacketKey;
use self::rules::Rules;
use crate::orders::{FilteredBy, Way};
use crate::queue::Queued;
use crate::tables::{Interface, Pool, Shared, count};

/// Keys that are found without a search: 2 MiB of cache lines for IPv4, 1 for IPv6 and for routers'
/// own keys.
const CACHED: [usize; 3] = [1 << 15, 1 << 13, 1 << 13];

/// A packet that leaves by another interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diverted {
    pub(crate) packet: Queued,
    /// Number of that interface.
    pub(crate) to: u32,
    /// The new destination address; unchanged by default.
    pub(crate) destination: Option<[u8; 6]>,
    /// Whether its source becomes the address of that interface.
    pub(crate) own_source: bool,
}

/// One worker's part of filters.
pub(crate) struct Filters {
    ipv4: Reader<Action, 2>,
    ipv6: Reader<Action, 5>,
    opaque: Reader<Reply, 5>,
    /// Interfaces in rules, by the rules' numbers.
    ways: Vec<Option<Way>>,
    /// Packets of one turn that leave by another interface.
    diverted: Vec<Diverted>,
    /// To the thread that changes rules.
    nodes: Sender<OwnedFd>,
}

impl Filters {
    /// Makes empty rules for `workers` workers, with a thread that changes the rules, and with room
    /// for `turn` packets of one turn.
    pub(crate) fn new(workers: usize, turn: u32) -> std::io::Result<Vec<Self>> {
        let mut rules = Rules::new();
        let (nodes, come) = channel();
        let mut one = || Self {
            ipv4: rules.ipv4.reader(CACHED[0]),
            ipv6: rules.ipv6.reader(CACHED[1]),
            opaque: rules.opaque.reader(CACHED[2]),
            ways: Vec::new(),
            // Each may be diverted and mirrored twice.
            diverted: Vec::with_capacity(turn as usize * 3),
            nodes: nodes.clone(),
        };
        let all = (0..workers).map(|_| one()).collect();
        std::thread::Builder::new().name("filters".into()).spawn(move || rules.serve(&come))?;
        Ok(all)
    }

    /// A node that will send the rules.
    pub(crate) fn connect(&self, node: OwnedFd) -> Result<(), String> {
        self.nodes.send(node).map_err(|_| "the filters' thread has ended".to_owned())
    }

    /// Sets the interface of a number in rules.
    pub(crate) fn set_way(&mut self, number: u16, way: Option<Way>) {
        let index = usize::from(number);
        if self.ways.len() <= index {
            self.ways.resize(index + 1, None);
        }
        self.ways[index] = way;
    }

    /// Removes an interface: no way leads there.
    pub(crate) fn forget(&mut self, interface: u32) {
        for way in &mut self.ways {
            *way = way.filter(|way| way.interface != interface);
        }
    }

    /// For the packets of one turn of an interface, which is [`odd`](tables::Interface::odd) or not.
    pub(crate) fn judge(&mut self, by: FilteredBy, odd: bool) -> Judge<'_> {
        let Self { ipv4, ipv6, opaque, ways, diverted, .. } = self;
        let (ipv4, ipv6, opaque) = (ipv4.batch(), ipv6.batch(), opaque.batch());
        let slice = Slice(by.slice);
        Judge { by, odd, slice, ipv4, ipv6, opaque, ways, diverted, has_returned: false }
    }

    /// Packets that leave by other interfaces, removed from the batch at once.
    pub(crate) fn diverted(&mut self) -> std::vec::Drain<'_, Diverted> {
        self.diverted.drain(..)
    }
}

/// See [`Filters::judge`].
pub(crate) struct Judge<'a> {
    by: FilteredBy,
    odd: bool,
    slice: Slice,
    ipv4: Batch<'a, Action, 2>,
    ipv6: Batch<'a, Action, 5>,
    opaque: Batch<'a, Reply, 5>,
    ways: &'a [Option<Way>],
    diverted: &'a mut Vec<Diverted>,
    /// Whether a packet was returned to its router.
    has_returned: bool,
}

impl Judge<'_> {
    /// Whether a packet that the switch holds continues unchanged. If not, it has been handled.
    #[inline]
    pub(crate) fn passes(&mut self, shared: &Shared, pool: &Pool, packet: &mut Queued) -> bool {
        let (word, view) = (packet.word, &pool.view);
        let (offset, length) = (u32::from(word.offset()), u32::from(word.length()));
        if offset + length > view.layout().geometry.slot_bytes {
            // Refused at its output.
            return true;
        }
        let place = view.slot_offset(word.slot(), offset);
        let reply = self.reply(pool, packet);
        if let Some(own) = reply.filter(|own| own.verdict == Verdict::Back) {
            // It does not leave: rules for departing packets do not apply.
            return self.act(own, shared, pool, packet, place);
        }
        let key = packet::key(view.mapping(), place, length as usize, self.by.interface);
        let rule = match &key {
            None => None,
            Some(PacketKey::V4(key)) => self.ipv4.lookup(self.slice, key, length),
            Some(PacketKey::V6(key)) => self.ipv6.lookup(self.slice, key, length),
        };
        let action = match (rule, reply) {
            (None, None) => return true,
            (Some(action), None) | (None, Some(action)) => action,
            (Some(rule), Some(own)) => {
                if own.mirror != NOWHERE && rule.mirror != NOWHERE {
                    self.mirror(own.mirror, shared, pool, packet, place);
                }
                rule.before(own)
            }
        };
        self.act(action, shared, pool, packet, place)
    }

    /// The action of a rule that was found by a router's own key. The result is written beside the
    /// key, for the next router or this one.
    #[inline]
    fn reply(&mut self, pool: &Pool, packet: &mut Queued) -> Option<Action> {
        let word = packet.word;
        if word.flags() & Word::KEY == 0 {
            return None;
        }
        let (memory, slot) = (pool.view.mapping(), pool.view.slot_offset(word.slot(), 0));
        let key = packet::own_key(memory, slot)?;
        let found = self.opaque.lookup(self.slice, &key, word.length().into());
        let flags = word.flags() & Word::RETURN | if found.is_some() { Word::RESULT } else { 0 };
        packet.word = Word::frame(word.slot(), word.offset(), word.length(), flags);
        let Reply { action, result } = found?;
        memory.copy_in(slot + RESULT_OFFSET_BYTES as usize, &result);
        Some(action)
    }

    /// Returns a packet to its sender, by the interface to which it was sent.
    fn give_to_sender(&mut self, shared: &Shared, pool: &Pool, packet: &Queued) {
        let (id, word) = (packet.interface, packet.word);
        let local = shared.interfaces.get(id).local;
        let tail = shared.rx_tail(id, self.odd);
        count!(shared, id, tx_elsewhere, 1);
        let (ring, flags) = (pool.view.rx(local), word.flags() & (Word::RETURN | Word::RESULT));
        // The router owns it as soon as it is in the ring.
        shared.held.give(packet.pool, word.slot());
        let back = Word::frame(word.slot(), word.offset(), word.length(), flags).on(local as u8);
        if ring::put_shared(ring, tail, back) {
            self.has_returned = true;
        } else {
            count!(shared, id, rx_drop_ring, 1);
            shared.give_back(&pool.view, packet.pool, word);
        }
    }

    /// Ends a turn: wakes the router if it sleeps and packets were returned to it.
    pub(crate) fn finish(&self, pool: &Pool) {
        if self.has_returned {
            pool.rouse();
        }
    }

    fn act(
        &mut self,
        action: Action,
        shared: &Shared,
        pool: &Pool,
        packet: &mut Queued,
        place: usize,
    ) -> bool {
        if action.mirror != NOWHERE {
            self.mirror(action.mirror, shared, pool, packet, place);
        }
        if action.mark != 0 {
            let length = packet.word.length().into();
            packet::mark(pool.view.mapping(), place, length, action.mark);
        }
        if action.queue != 0 {
            packet.queue = action.queue;
        }
        let way = match action.verdict {
            Verdict::Pass => return true,
            Verdict::Back => {
                self.give_to_sender(shared, pool, packet);
                return false;
            }
            Verdict::Drop => None,
            Verdict::Send => self.way(action.to),
            Verdict::SlowPath => self.by.linux.map(|interface| Way {
                interface,
                // Linux takes its packets.
                destination: Some(shared.interfaces.get(packet.interface).mac),
                own_source: false,
            }),
        };
        match way {
            Some(way) => self.divert(way, *packet),
            None => {
                count!(shared, packet.interface, tx_drop_filter, 1);
                shared.give_back(&pool.view, packet.pool, packet.word);
            }
        }
        false
    }

    fn way(&self, number: u16) -> Option<Way> {
        self.ways.get(usize::from(number)).copied().flatten()
    }

    fn divert(&mut self, way: Way, packet: Queued) {
        let Way { interface: to, destination, own_source } = way;
        self.diverted.push(Diverted { packet, to, destination, own_source });
    }

    /// Sends a copy, in another slot of the same pool, by another interface; none if the pool has
    /// no slot for it.
    fn mirror(&mut self, to: u16, shared: &Shared, pool: &Pool, packet: &Queued, place: usize) {
        let Some(way) = self.way(to) else { return };
        let Some(word) = copy(shared, pool, packet, place) else { return };
        count!(shared, packet.interface, tx_offered, 1);
        self.divert(way, Queued { word, queue: 0, ..*packet });
    }
}

/// Copies a packet at `place` into a free slot of its pool.
fn copy(shared: &Shared, pool: &Pool, packet: &Queued, place: usize) -> Option<Word> {
    let view = &pool.view;
    let free = shared.hold_free(view, packet.pool)?;
    let (offset, length) = (rx_offset(free), packet.word.length());
    let word = Word::frame(free, offset as u16, length, 0);
    if offset + u32::from(length) > view.layout().geometry.slot_bytes {
        shared.give_back(view, packet.pool, word);
        return None;
    }
    let to = view.slot_offset(free, offset);
    view.mapping().copy_to(place, view.mapping(), to, length.into());
    Some(word)
}

impl Diverted {
    /// Makes it a packet of its output interface; false if that is not allowed.
    pub(crate) fn readdress(&mut self, shared: &Shared, pool: &Pool, to: &Interface) -> bool {
        let packet = &mut self.packet;
        // A packet of another router's pool would remain when that pool is removed.
        if packet.pool != to.pool || !to.lengths.contains(&packet.word.length()) {
            return false;
        }
        let place = pool.view.slot_offset(packet.word.slot(), packet.word.offset().into());
        if let Some(destination) = self.destination {
            pool.view.mapping().copy_in(place, &destination);
        }
        if self.own_source {
            let row = shared.interfaces.get(to.id);
            if row.flags & ANY_SOURCE == 0 {
                pool.view.mapping().copy_in(place + 6, &row.mac);
            }
        }
        packet.interface = to.id;
        packet.before = to.before;
        true
    }
}
