//! Ethernet addresses of neighbours: the common part of ARP and Neighbor Discovery.
//!
//! The states are those of RFC 4861 section 7.3.2. All memory is bounded: entries, and the places
//! of packets that wait for an answer. Memory grows with these, and packets to known neighbours
//! need none. Only packets that the router sends make entries, so announcements cannot fill the
//! table. A host that makes the router send to many new addresses can use at most half of it.

mod demand;
mod entries;
mod limits;
mod lines;
mod sending;
#[cfg(test)]
mod tests;
mod waiting;

use std::hash::{BuildHasher, RandomState};

use europa_engine::{Packet, Share};

use self::waiting::Place;

pub(crate) use self::limits::{LimitArguments, Limits, nanoseconds, seconds};
pub(crate) use self::sending::{Alarm, fixed, pair};

/// An IP address as a number.
pub(crate) trait Address: Copy + Eq {
    /// 64 bits that depend on all of the address.
    fn mix(self, secret: u64) -> u64;
}

impl Address for u32 {
    #[inline(always)]
    fn mix(self, secret: u64) -> u64 {
        u64::from(self).wrapping_mul(secret)
    }
}

impl Address for u128 {
    #[inline(always)]
    fn mix(self, secret: u64) -> u64 {
        let high = ((self >> 64) as u64).wrapping_mul(secret);
        ((self as u64) ^ high.rotate_left(29)).wrapping_mul(secret)
    }
}

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not in use.
    Free,
    /// Asked for, not answered.
    Incomplete,
    /// Known.
    Reachable,
    /// Known, but not confirmed recently; nothing was sent since.
    Stale,
    /// Like `Stale`, but a packet was sent: a request will follow.
    Delay,
    /// Asked again.
    Probe,
}

impl State {
    /// Whether `due_ns` is set.
    fn is_active(self) -> bool {
        matches!(self, State::Incomplete | State::Delay | State::Probe)
    }
}

/// No entry, no packet.
const NONE: u32 = u32::MAX;
/// Size of an empty table's index.
const FEWEST_HEADS: usize = 16;
/// Waiting times are rounded up to this, so that many neighbours share a timer.
const GRAIN_NS: u64 = 1 << 26;
const MILLISECOND_NS: u64 = 1_000_000;

struct Entry<A> {
    address: A,
    /// Until this time packets are sent without a check.
    usable_until_ns: u64,
    /// The header of packets to it.
    header: [u8; 14],
    state: State,
    /// Static: the entry does not expire, and messages do not change it.
    fixed: bool,
    /// Questions asked.
    tries: u8,
    /// Next entry with the same hash, or next free one.
    next: u32,
    /// Packets that wait, oldest first.
    first: u32,
    last: u32,
    waiting: u32,
    /// Time of the next request; on demand, the earliest time.
    due_ns: u64,
    confirmed_ns: u64,
    /// Order among entries that were confirmed at the same time.
    rank: i64,
}

/// The verdict for a packet.
pub(crate) enum Offer {
    /// Put this before it and send it.
    Send(Packet, [u8; 14]),
    /// Send the packet with this header, and send a request to the neighbour itself.
    SendAndProbe(Packet, [u8; 14]),
    /// The packet waits, and a request has been sent already.
    Waits,
    /// The packet waits; a request must be sent to all neighbours.
    WaitsAndAsk,
    /// There is no room; the packet is dropped.
    Refused,
}

/// A neighbour's claim about an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<A> {
    pub(crate) address: A,
    /// Its Ethernet address; `None` if it is unchanged.
    pub(crate) mac: Option<[u8; 6]>,
    /// Whether the claim answers a request: then packets reach the neighbour.
    pub(crate) solicited: bool,
    /// Whether it replaces another Ethernet address.
    pub(crate) overrides: bool,
}

/// A table of neighbours.
pub(crate) struct Neighbours<A> {
    limits: Limits,
    /// Source address and type of the headers.
    source: [u8; 8],
    secret: u64,
    /// Number of bits of a hash that are not used.
    shift: u32,
    heads: Vec<u32>,
    entries: Vec<Entry<A>>,
    free: u32,
    hand: usize,
    places: Vec<Place>,
    free_place: u32,
    /// Limit of waiting packets, in all tables of a graph together: otherwise a host that sends to
    /// unused addresses could use up the pool.
    share: Share,
    /// Number of entries, and of incomplete or active ones.
    count: usize,
    incomplete: usize,
    active: usize,
    /// Packets that wait.
    length: usize,
    /// When [`Neighbours::tick`] must be called.
    next_due_ns: u64,
    /// Smallest and largest rank so far.
    ranks: (i64, i64),
    /// Packets dropped.
    pub(crate) drops: u64,
}

impl<A: Address> Neighbours<A> {
    /// An empty table for headers from `mac` of this type.
    pub(crate) fn new(limits: Limits, mac: [u8; 6], ether_type: [u8; 2]) -> Neighbours<A> {
        let [a, b, c, d, e, f] = mac;
        let [g, h] = ether_type;
        Neighbours {
            source: [a, b, c, d, e, f, g, h],
            // The secret is odd, so that no bit is lost, and random, so that no host can choose
            // collisions.
            secret: RandomState::new().hash_one(0u8) | 1,
            shift: 64 - FEWEST_HEADS.trailing_zeros(),
            heads: vec![NONE; FEWEST_HEADS],
            entries: Vec::new(),
            free: NONE,
            hand: 0,
            places: Vec::new(),
            free_place: NONE,
            share: Share::default(),
            count: 0,
            incomplete: 0,
            active: 0,
            length: 0,
            next_due_ns: u64::MAX,
            ranks: (0, 0),
            drops: 0,
            limits,
        }
    }

    /// Sets the limit of waiting packets. If the table is not on demand, one neighbour gets at most
    /// a quarter of it.
    pub(crate) fn set_share(&mut self, share: Share) {
        if !self.limits.on_demand {
            self.limits.packets_each = self.limits.packets_each.min((share.most() / 4).max(1));
        }
        self.share = share;
        self.share.set(self.length);
    }

    /// Number of entries.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Number of packets that wait.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The next time at which [`Neighbours::tick`] has work, if any.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let due = match self.limits.on_demand {
            true => self.next_due_ns < u64::MAX,
            false => self.active > 0,
        };
        due.then_some(self.next_due_ns)
    }

    /// The header for packets to a neighbour, if it is confirmed.
    #[inline(always)]
    pub(crate) fn header(&self, address: A, now_ns: u64) -> Option<&[u8; 14]> {
        let entry = self.entries.get(self.find(address)?)?;
        (entry.usable_until_ns > now_ns).then_some(&entry.header)
    }

    /// Sends or keeps a packet for which [`Neighbours::header`] found no header.
    pub(crate) fn offer(&mut self, address: A, packet: Packet, now_ns: u64) -> Offer {
        let limits = self.limits;
        if limits.on_demand {
            return self.offer_on_demand(address, packet, now_ns);
        }
        let fresh = self.find(address).is_none();
        let index = match self.find(address).or_else(|| self.create(address, now_ns)) {
            Some(index) => index,
            None => {
                self.drops += 1;
                return Offer::Refused;
            }
        };
        let Some(entry) = self.entries.get_mut(index) else { return Offer::Refused };
        let header = entry.header;
        let age_ns = now_ns.saturating_sub(entry.confirmed_ns);
        let ask = match entry.state {
            State::Reachable if entry.usable_until_ns > now_ns => {
                return Offer::Send(packet, header);
            }
            State::Delay | State::Probe => return Offer::Send(packet, header),
            State::Reachable | State::Stale if age_ns < limits.expire_ns => {
                entry.usable_until_ns = u64::MAX;
                entry.tries = u8::from(limits.delay_ns == 0);
                if limits.delay_ns > 0 {
                    self.enter(index, State::Delay, now_ns.saturating_add(limits.delay_ns));
                    return Offer::Send(packet, header);
                }
                self.enter(index, State::Probe, now_ns.saturating_add(limits.retransmit_ns));
                return Offer::SendAndProbe(packet, header);
            }
            State::Incomplete => fresh,
            _ => {
                self.start(index, now_ns);
                true
            }
        };
        match (self.keep(index, packet), ask) {
            (_, true) => Offer::WaitsAndAsk,
            (true, false) => Offer::Waits,
            (false, false) => Offer::Refused,
        }
    }

    /// Begins to resolve an address that is not in the table, without a packet. Returns whether to
    /// send a request to all neighbours now.
    pub(crate) fn begin(&mut self, address: A, now_ns: u64) -> bool {
        self.find(address).is_none() && self.create(address, now_ns).is_some()
    }

    /// Processes a neighbour's claim about an address. An address that is not in the table is not
    /// added. Packets that waited are passed on with their header, in order.
    pub(crate) fn learn(
        &mut self,
        told: Told<A>,
        now_ns: u64,
        release: impl FnMut(Packet, &[u8; 14]),
    ) -> bool {
        let Some(index) = self.find(told.address) else { return false };
        let header = told.mac.map(|mac| self.make_header(mac));
        let Some(entry) = self.entries.get_mut(index) else { return false };
        if entry.fixed {
            return true;
        }
        if entry.state == State::Incomplete {
            let Some(header) = header else { return true };
            entry.header = header;
            self.confirm(index, told.solicited, now_ns);
            self.release(index, release);
            return true;
        }
        let differs = header.is_some_and(|header| header != entry.header);
        if differs && !told.overrides {
            if entry.state == State::Reachable {
                let confirmed_ns = entry.confirmed_ns;
                self.confirm(index, false, confirmed_ns);
            }
            return true;
        }
        if let Some(header) = header {
            entry.header = header;
        }
        if told.solicited {
            self.confirm(index, true, now_ns);
        } else if differs {
            self.confirm(index, false, now_ns);
        }
        true
    }

    /// Adds a static entry, which stays until it is removed. Returns false if there is no room.
    pub(crate) fn insert(
        &mut self,
        address: A,
        mac: [u8; 6],
        fixed: bool,
        now_ns: u64,
        release: impl FnMut(Packet, &[u8; 14]),
    ) -> bool {
        let header = self.make_header(mac);
        let found = self.find(address).or_else(|| self.create(address, now_ns));
        let Some(index) = found else { return false };
        if let Some(entry) = self.entries.get_mut(index) {
            entry.header = header;
            entry.fixed = fixed;
        }
        self.confirm(index, true, now_ns);
        if let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.fixed) {
            entry.usable_until_ns = u64::MAX;
        }
        self.release(index, release);
        true
    }

    /// Removes an entry and drops its packets. Returns whether it existed.
    pub(crate) fn remove(&mut self, address: A) -> bool {
        match self.find(address) {
            Some(index) => {
                self.forget(index, drop);
                true
            }
            None => false,
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.forget_where(|_| true);
    }

    /// Removes learned entries, but not static ones.
    pub(crate) fn forget_learned(&mut self) {
        self.forget_where(|entry| !entry.fixed);
    }

    fn forget_where(&mut self, goes: impl Fn(&Entry<A>) -> bool) {
        for index in 0..self.entries.len() {
            let entry = self.entries.get(index);
            if entry.is_some_and(|entry| entry.state != State::Free && goes(entry)) {
                self.forget(index, drop);
            }
        }
    }

    /// Repeats requests, or gives up. `ask` gets the address and, for a request to that neighbour
    /// alone, its Ethernet address. `failed` gets the packets without an answer.
    pub(crate) fn tick(
        &mut self,
        now_ns: u64,
        mut ask: impl FnMut(A, Option<[u8; 6]>),
        mut failed: impl FnMut(Packet),
    ) {
        self.next_due_ns = u64::MAX;
        let limits = self.limits;
        if limits.on_demand {
            for index in 0..self.entries.len() {
                let Some(entry) = self.entries.get(index) else { break };
                let expires_ns = entry.confirmed_ns.saturating_add(limits.expire_ns);
                if entry.state != State::Free && !entry.fixed && expires_ns < now_ns {
                    self.forget(index, &mut failed);
                }
            }
            if self.length > 0 {
                self.next_due_ns = self.sweep_ns(now_ns);
            }
            return;
        }
        for index in 0..self.entries.len() {
            let Some(entry) = self.entries.get_mut(index) else { break };
            if !entry.state.is_active() {
                continue;
            }
            if entry.due_ns > now_ns {
                self.next_due_ns = self.next_due_ns.min(entry.due_ns);
                continue;
            }
            if entry.state != State::Delay && entry.tries >= limits.tries {
                self.forget(index, &mut failed);
                continue;
            }
            entry.tries += 1;
            let mac = entry.header.first_chunk().copied();
            let (state, mac) = match entry.state {
                State::Incomplete => (State::Incomplete, None),
                _ => (State::Probe, mac),
            };
            ask(entry.address, mac);
            self.enter(index, state, now_ns.saturating_add(limits.retransmit_ns));
        }
    }

    /// Sets the source of all headers to `mac`.
    pub(crate) fn set_source(&mut self, mac: [u8; 6]) {
        let [a, b, c, d, e, f] = mac;
        let [.., g, h] = self.source;
        let source = [a, b, c, d, e, f, g, h];
        if self.source != source {
            self.source = source;
            for entry in &mut self.entries {
                if let Some(place) = entry.header.last_chunk_mut() {
                    *place = source;
                }
            }
        }
    }

    /// Takes over another table's entries and waiting packets.
    pub(crate) fn take_state(&mut self, old: &mut Neighbours<A>) {
        self.drops = old.drops;
        if self.limits.on_demand && old.limits.on_demand {
            let mut entries: Vec<_> = old.entries.iter().collect();
            entries.retain(|entry| entry.state != State::Free && !entry.fixed);
            entries.sort_by_key(|entry| (entry.confirmed_ns, entry.rank));
            entries.into_iter().for_each(|entry| self.copy(entry));
            self.take_waiting(old);
            self.next_due_ns = self.next_due_ns.min(old.next_due_ns);
            return;
        }
        for entry in &old.entries {
            let known = matches!(
                entry.state,
                State::Reachable | State::Stale | State::Delay | State::Probe
            );
            let mac = entry.header.first_chunk().copied().unwrap_or_default();
            if known && !entry.fixed && self.find(entry.address).is_none() {
                self.insert(entry.address, mac, false, entry.confirmed_ns, |_, _| {});
            }
        }
        self.take_waiting(old);
    }

    fn make_header(&self, mac: [u8; 6]) -> [u8; 14] {
        let mut header = [0; 14];
        for (to, from) in header.iter_mut().zip(mac.iter().chain(&self.source)) {
            *to = *from;
        }
        header
    }

    /// Puts an entry into a state that ends at `due_ns`.
    fn enter(&mut self, index: usize, state: State, due_ns: u64) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        let old = std::mem::replace(&mut entry.state, state);
        self.incomplete -= usize::from(old == State::Incomplete);
        self.incomplete += usize::from(state == State::Incomplete);
        if self.limits.on_demand {
            return;
        }
        self.active -= usize::from(old.is_active());
        self.active += usize::from(state.is_active());
        if state.is_active() {
            entry.due_ns = (due_ns | (GRAIN_NS - 1)).max(due_ns);
            self.next_due_ns = self.next_due_ns.min(entry.due_ns);
        }
    }

    /// Starts to send requests for an entry's address.
    fn start(&mut self, index: usize, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.usable_until_ns = 0;
            entry.tries = u8::from(!self.limits.on_demand);
            entry.due_ns = 0;
        }
        self.enter(index, State::Incomplete, now_ns.saturating_add(self.limits.retransmit_ns));
    }

    /// Marks an entry as known: confirmed, or only claimed by a message.
    fn confirm(&mut self, index: usize, sure: bool, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.confirmed_ns = now_ns;
            let fresh = now_ns.saturating_add(self.limits.fresh_ns);
            entry.usable_until_ns = if sure { fresh } else { 0 };
            if self.limits.on_demand {
                self.ranks.1 += 1;
                (entry.rank, entry.tries, entry.due_ns) = (self.ranks.1, 0, 0);
            }
        }
        self.enter(index, if sure { State::Reachable } else { State::Stale }, 0);
    }
}
