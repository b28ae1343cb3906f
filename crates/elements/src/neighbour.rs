//! Ethernet addresses of neighbours: what ARP and Neighbor Discovery have in common.
//!
//! The states are those of RFC 4861 section 7.3.2. All memory is bounded and reserved when
//! the element is configured: entries, and the places of packets that wait for an answer.
//! Only packets that the router wants to send make entries, so nobody can fill the table by
//! telling addresses; who lets the router send to ever new addresses gets half of it at most.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use europa_engine::{Arguments, ConfigError, Context, Packet};

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

/// Bounds and times of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most entries.
    pub(crate) entries: usize,
    /// Most packets that wait, in all.
    pub(crate) packets: usize,
    /// Most packets that wait for one neighbour.
    pub(crate) packets_each: usize,
    /// How long an answer is good, without asking again.
    pub(crate) fresh_ns: u64,
    /// How long an unused entry may be older than that.
    pub(crate) expire_ns: u64,
    /// Time from the first use of an old entry to the first probe.
    pub(crate) delay_ns: u64,
    /// Time between questions.
    pub(crate) retransmit_ns: u64,
    /// Number of questions.
    pub(crate) tries: u8,
    /// Only packets make questions, as in Click: at most one in 100 ms, and after ten without an
    /// answer one in 2 s. No question is repeated by itself, and entries go when they expire.
    pub(crate) on_demand: bool,
    /// What fraction of the packets that wait makes room for others where that is so.
    pub(crate) slim: usize,
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
    /// Known, but it is long ago; nothing was sent since.
    Stale,
    /// As `Stale`, and something was sent: it will be asked.
    Delay,
    /// Asked again.
    Probe,
}

impl State {
    /// Whether something happens at `due_ns`.
    fn is_active(self) -> bool {
        matches!(self, State::Incomplete | State::Delay | State::Probe)
    }
}

/// No entry, no packet.
const NONE: u32 = u32::MAX;
/// Ends of waiting times are rounded up to this, so that many neighbours share a timer.
const GRAIN_NS: u64 = 1 << 26;
/// Entries looked at when one must make room.
const CANDIDATES: usize = 32;
const MILLISECOND_NS: u64 = 1_000_000;
/// On demand: questions that may follow each other quickly.
const QUICK_TRIES: u8 = 10;
/// Most entries and packets that a table can be told to have.
pub(crate) const MOST: usize = 1 << 18;

struct Entry<A> {
    address: A,
    /// Until then packets may go without a second thought.
    usable_until_ns: u64,
    /// What is put before packets to it.
    header: [u8; 14],
    state: State,
    /// Never forgotten nor changed by what others tell.
    fixed: bool,
    /// Questions asked.
    tries: u8,
    /// Next entry of the same hash, or of the free ones.
    next: u32,
    /// Packets that wait, oldest first.
    first: u32,
    last: u32,
    waiting: u32,
    /// When it is asked again; on demand, when it may be.
    due_ns: u64,
    confirmed_ns: u64,
    /// Among entries that were confirmed at the same time: which comes first.
    rank: i64,
}

impl<A> Entry<A> {
    /// On demand: whether it may be asked now; if so, it is.
    fn may_ask(&mut self, now_ns: u64) -> bool {
        // In whole milliseconds, so that packets that come every 100 ms are not a little early.
        let now = now_ns / MILLISECOND_NS;
        if now < self.due_ns / MILLISECOND_NS {
            return false;
        }
        self.tries = self.tries.saturating_add(1);
        let pause = if self.tries < QUICK_TRIES { 100 } else { 2000 };
        self.due_ns = (now + pause) * MILLISECOND_NS;
        true
    }
}

/// A place for a packet that waits.
struct Place {
    packet: Option<Packet>,
    next: u32,
}

/// What becomes of a packet.
pub(crate) enum Offer {
    /// Put this before it and send it.
    Send(Packet, [u8; 14]),
    /// The same, and ask the neighbour itself.
    SendAndProbe(Packet, [u8; 14]),
    /// It waits, and somebody else asked already.
    Waits,
    /// It waits; ask everybody.
    WaitsAndAsk,
    /// There is no room; it is dropped.
    Refused,
}

/// A line of a table.
pub(crate) struct Line<A> {
    pub(crate) address: A,
    pub(crate) state: State,
    pub(crate) mac: [u8; 6],
    pub(crate) age_ns: u64,
}

/// What somebody says about an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<A> {
    pub(crate) address: A,
    /// Its Ethernet address; `None` if it is the one that is known.
    pub(crate) mac: Option<[u8; 6]>,
    /// Whether it is the answer to a question: packets get there.
    pub(crate) solicited: bool,
    /// Whether it replaces another Ethernet address.
    pub(crate) overrides: bool,
}

/// The timer of an element that has a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm(Option<u64>);

impl Alarm {
    /// Sets timer 0 to when the table needs it, if it is not set so yet.
    pub(crate) fn set<A: Address>(&mut self, table: &Neighbours<A>, context: &mut Context<'_>) {
        let due_ns = table.next_due_ns();
        if self.0 != due_ns {
            self.0 = due_ns;
            match due_ns {
                Some(due_ns) => context.schedule(0, due_ns),
                None => context.unschedule(0),
            }
        }
    }

    /// The timer has run.
    pub(crate) fn ran(&mut self) {
        self.0 = None;
    }
}

/// A table of neighbours.
pub(crate) struct Neighbours<A> {
    limits: Limits,
    /// Source address and type of the headers.
    source: [u8; 8],
    secret: u64,
    /// Bits of a hash that are not used.
    shift: u32,
    heads: Vec<u32>,
    entries: Vec<Entry<A>>,
    free: u32,
    hand: usize,
    places: Vec<Place>,
    free_place: u32,
    /// Entries in use, and those of them that are incomplete or active.
    count: usize,
    incomplete: usize,
    active: usize,
    /// Packets that wait.
    length: usize,
    /// When [`Neighbours::tick`] must be called.
    next_due_ns: u64,
    /// Bounds of the ranks given so far.
    ranks: (i64, i64),
    /// Packets dropped.
    pub(crate) drops: u64,
}

impl Limits {
    /// Of a table that holds nothing, before it is configured.
    pub(crate) const NONE: Limits = Limits {
        entries: 0,
        packets: 0,
        packets_each: 0,
        fresh_ns: 0,
        expire_ns: 0,
        delay_ns: 0,
        retransmit_ns: 0,
        tries: 0,
        on_demand: false,
        slim: 1,
    };

    /// The bounds that an element's arguments give: CAPACITY, ENTRY_CAPACITY,
    /// ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR and TIMEOUT; 0 means none, but for what memory
    /// there is.
    pub(crate) fn configure(self, arguments: &mut Arguments<'_>) -> Result<Limits, ConfigError> {
        let mut bound = |name, default| {
            let value = arguments.keyword::<usize>(name)?.unwrap_or(default);
            match value {
                0 => Ok(MOST),
                1..=MOST => Ok(value),
                _ => Err(ConfigError::other(format!("{name}: at most {MOST}"))),
            }
        };
        let packets = bound("CAPACITY", self.packets)?;
        let entries = bound("ENTRY_CAPACITY", self.entries)?;
        let packets_each = bound("ENTRY_PACKET_CAPACITY", self.packets_each)?;
        let slim = arguments.keyword("CAPACITY_SLIM_FACTOR")?.unwrap_or(self.slim);
        if slim == 0 {
            return Err(ConfigError::other("CAPACITY_SLIM_FACTOR cannot be zero"));
        }
        let expire_ns = match arguments.keyword::<Duration>("TIMEOUT")? {
            Some(Duration::ZERO) => u64::MAX,
            Some(time) => nanoseconds(time),
            None => self.expire_ns,
        };
        Ok(Limits { packets, entries, packets_each, expire_ns, slim, ..self })
    }
}

/// A time as nanoseconds, 584 years at most.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An age as Click writes it: seconds with six places.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

impl<A: Address> Neighbours<A> {
    /// An empty table for headers from `mac` of this type.
    pub(crate) fn new(limits: Limits, mac: [u8; 6], ether_type: [u8; 2]) -> Neighbours<A> {
        let heads = (limits.entries * 2).next_power_of_two().max(16);
        let [a, b, c, d, e, f] = mac;
        let [g, h] = ether_type;
        Neighbours {
            source: [a, b, c, d, e, f, g, h],
            // Odd, so that no bit is lost; secret, so that nobody can choose collisions.
            secret: RandomState::new().hash_one(0u8) | 1,
            shift: 64 - heads.trailing_zeros(),
            heads: vec![NONE; heads],
            entries: Vec::with_capacity(limits.entries),
            free: NONE,
            hand: 0,
            places: Vec::with_capacity(limits.packets),
            free_place: NONE,
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

    /// Number of entries.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Number of packets that wait.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// When [`Neighbours::tick`] has something to do, if ever.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let due = match self.limits.on_demand {
            true => self.next_due_ns < u64::MAX,
            false => self.active > 0,
        };
        due.then_some(self.next_due_ns)
    }

    #[inline(always)]
    fn head(&self, address: A) -> usize {
        (address.mix(self.secret) >> self.shift) as usize
    }

    #[inline(always)]
    fn find(&self, address: A) -> Option<usize> {
        let mut index = *self.heads.get(self.head(address))? as usize;
        loop {
            // NONE lies beyond all entries.
            let entry = self.entries.get(index)?;
            if entry.address == address {
                return Some(index);
            }
            index = entry.next as usize;
        }
    }

    /// The header for packets to a neighbour, if it is known for sure.
    #[inline(always)]
    pub(crate) fn header(&self, address: A, now_ns: u64) -> Option<&[u8; 14]> {
        let entry = self.entries.get(self.find(address)?)?;
        (entry.usable_until_ns > now_ns).then_some(&entry.header)
    }

    /// Sends or keeps a packet to a neighbour that [`Neighbours::header`] did not know.
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

    /// As [`Neighbours::offer`] where only packets make questions.
    fn offer_on_demand(&mut self, address: A, packet: Packet, now_ns: u64) -> Offer {
        let Limits { fresh_ns, expire_ns, .. } = self.limits;
        let found = self.find(address).or_else(|| self.create(address, now_ns));
        let Some((index, entry)) = found.and_then(|i| Some((i, self.entries.get_mut(i)?))) else {
            self.drops += 1;
            return Offer::Refused;
        };
        let age_ns = now_ns.saturating_sub(entry.confirmed_ns);
        if entry.state != State::Incomplete && (entry.fixed || age_ns <= expire_ns) {
            let old = age_ns >= fresh_ns || entry.state == State::Stale;
            let header = entry.header;
            return match old && !entry.fixed && entry.may_ask(now_ns) {
                true => Offer::SendAndProbe(packet, header),
                false => Offer::Send(packet, header),
            };
        }
        let ask = entry.may_ask(now_ns);
        entry.usable_until_ns = 0;
        // While somebody sends to it, it does not expire, but is the first to go.
        let millisecond_ns = now_ns / MILLISECOND_NS * MILLISECOND_NS;
        let least_ns = millisecond_ns.saturating_sub(expire_ns);
        if entry.confirmed_ns < least_ns {
            entry.confirmed_ns = least_ns;
            self.ranks.0 -= 1;
            entry.rank = self.ranks.0;
        }
        self.enter(index, State::Incomplete, 0);
        self.make_room();
        let keeps = self.keep(index, packet);
        if self.next_due_ns == u64::MAX {
            self.next_due_ns = self.sweep_ns(now_ns);
        }
        match (keeps, ask) {
            (_, true) => Offer::WaitsAndAsk,
            (true, false) => Offer::Waits,
            (false, false) => Offer::Refused,
        }
    }

    /// On demand: when entries that have expired are next looked for.
    fn sweep_ns(&self, now_ns: u64) -> u64 {
        const SECOND_NS: u64 = 1_000_000_000;
        let period_ns = (self.limits.expire_ns / SECOND_NS * SECOND_NS).saturating_add(SECOND_NS);
        now_ns.saturating_add(period_ns)
    }

    /// On demand: drops packets that have waited longest if one more would be too many.
    #[cold]
    fn drop_oldest(&mut self) {
        let Limits { packets, slim, .. } = self.limits;
        let least = (packets - packets / slim).max(1);
        while self.length + 1 > least {
            let waiting = self.entries.iter().enumerate().filter(|(_, entry)| entry.waiting > 0);
            let oldest = waiting.min_by_key(|(_, entry)| (entry.confirmed_ns, entry.rank));
            let Some(index) = oldest.map(|(index, _)| index) else { break };
            while self.length + 1 > least && self.take_first(index).is_some() {
                self.drops += 1;
            }
        }
    }

    fn make_room(&mut self) {
        if self.length >= self.limits.packets {
            self.drop_oldest();
        }
    }

    /// Begins to ask for an address that is not in the table, without a packet. Returns whether
    /// everybody is to be asked now.
    pub(crate) fn begin(&mut self, address: A, now_ns: u64) -> bool {
        self.find(address).is_none() && self.create(address, now_ns).is_some()
    }

    /// Takes in what somebody says about an address. Unless it is already in the table, it is
    /// not added. Packets that waited are handed out with their header, in order.
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

    /// Adds an entry by hand; fixed ones stay until removed. Returns false if there is no room.
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

    /// Removes an entry; its packets are dropped. Returns whether it was there.
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
        for index in 0..self.entries.len() {
            if self.entries.get(index).is_some_and(|entry| entry.state != State::Free) {
                self.forget(index, drop);
            }
        }
    }

    /// Asks again, or gives up: `ask` gets the address and, if that neighbour itself is to be
    /// asked, its Ethernet address; `failed` the packets that waited in vain.
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

    /// All entries that are good for anything; on demand all there are, the oldest first.
    pub(crate) fn lines(&self, now_ns: u64) -> impl Iterator<Item = Line<A>> {
        let Limits { on_demand, expire_ns, .. } = self.limits;
        let used = self.entries.iter().filter(|entry| entry.state != State::Free);
        let mut used: Vec<_> = used.collect();
        if on_demand {
            used.sort_by_key(|entry| (entry.confirmed_ns, entry.rank));
        }
        let line = move |entry: &Entry<A>| {
            let age_ns = now_ns.saturating_sub(entry.confirmed_ns);
            let expired = on_demand && !entry.fixed && age_ns > expire_ns;
            Line {
                address: entry.address,
                state: if expired { State::Incomplete } else { entry.state },
                mac: entry.header.first_chunk().copied().unwrap_or_default(),
                age_ns,
            }
        };
        let lines = used.into_iter().map(line);
        lines.filter(move |line| line.state == State::Incomplete || line.age_ns <= expire_ns)
    }

    /// Has all headers come from `mac`.
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

    /// Takes over what another table knows, but for packets that wait.
    pub(crate) fn take_state(&mut self, old: &Neighbours<A>) {
        self.drops = old.drops;
        if self.limits.on_demand && old.limits.on_demand {
            let mut entries: Vec<_> = old.entries.iter().collect();
            entries.retain(|entry| entry.state != State::Free && !entry.fixed);
            entries.sort_by_key(|entry| (entry.confirmed_ns, entry.rank));
            entries.into_iter().for_each(|entry| self.copy(entry));
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
    }

    /// On demand: takes over an entry with its times.
    fn copy(&mut self, old: &Entry<A>) {
        let mac = old.header.first_chunk().copied().unwrap_or_default();
        let header = self.make_header(mac);
        if self.find(old.address).is_none()
            && let Some(index) = self.create(old.address, old.confirmed_ns)
            && let Some(entry) = self.entries.get_mut(index)
        {
            entry.header = header;
            (entry.tries, entry.due_ns) = (old.tries, old.due_ns);
            entry.usable_until_ns = old.usable_until_ns;
            self.enter(index, old.state, 0);
        }
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

    /// Starts to ask for an entry's address.
    fn start(&mut self, index: usize, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.usable_until_ns = 0;
            entry.tries = u8::from(!self.limits.on_demand);
            entry.due_ns = 0;
        }
        self.enter(index, State::Incomplete, now_ns.saturating_add(self.limits.retransmit_ns));
    }

    /// An entry is known now: for sure, or only as something that was said.
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

    /// A new incomplete entry, if there is room.
    fn create(&mut self, address: A, now_ns: u64) -> Option<usize> {
        if !self.limits.on_demand && self.incomplete * 2 >= self.limits.entries.max(2) {
            return None;
        }
        let index = if self.free != NONE {
            let index = self.free as usize;
            self.free = self.entries.get(index)?.next;
            index
        } else if self.entries.len() < self.limits.entries {
            // Room was reserved for all.
            self.entries.push(Entry {
                address,
                usable_until_ns: 0,
                header: [0; 14],
                state: State::Free,
                fixed: false,
                tries: 0,
                next: NONE,
                first: NONE,
                last: NONE,
                waiting: 0,
                due_ns: 0,
                confirmed_ns: 0,
                rank: 0,
            });
            self.entries.len() - 1
        } else {
            let index = self.victim(now_ns)?;
            self.forget(index, drop);
            self.free = self.entries.get(index)?.next;
            index
        };
        let head = self.head(address);
        let head = self.heads.get_mut(head)?;
        let entry = self.entries.get_mut(index)?;
        entry.address = address;
        entry.fixed = false;
        entry.header = [0; 14];
        entry.confirmed_ns = now_ns;
        self.ranks.1 += 1;
        entry.rank = self.ranks.1;
        entry.next = std::mem::replace(head, index as u32);
        self.count += 1;
        self.start(index, now_ns);
        Some(index)
    }

    /// An entry that may go: the one longest unconfirmed of those that the hand passes.
    fn victim(&mut self, now_ns: u64) -> Option<usize> {
        let mut best: Option<(u64, usize)> = None;
        for _ in 0..CANDIDATES.min(self.entries.len()) {
            self.hand = (self.hand + 1) % self.entries.len().max(1);
            let Some(entry) = self.entries.get(self.hand) else { break };
            let age_ns = now_ns.saturating_sub(entry.confirmed_ns);
            let may_go =
                !entry.fixed && (self.limits.on_demand || entry.state != State::Incomplete);
            if may_go && best.is_none_or(|(age, _)| age_ns > age) {
                best = Some((age_ns, self.hand));
            }
        }
        best.map(|(_, index)| index)
    }

    /// Frees an entry; `packets` gets those that waited for it.
    fn forget(&mut self, index: usize, mut packets: impl FnMut(Packet)) {
        let mut lost = 0;
        self.release(index, |packet, _| {
            lost += 1;
            packets(packet);
        });
        self.drops += lost;
        self.enter(index, State::Free, 0);
        let Some(entry) = self.entries.get_mut(index) else { return };
        let (address, next) = (entry.address, entry.next);
        entry.next = self.free;
        self.free = index as u32;
        self.count -= 1;
        // The chain led here from its head or from another entry.
        let head = self.head(address);
        let mut at = match self.heads.get_mut(head) {
            Some(head) if *head == index as u32 => {
                *head = next;
                return;
            }
            Some(head) => *head as usize,
            None => return,
        };
        while let Some(entry) = self.entries.get_mut(at) {
            if entry.next == index as u32 {
                entry.next = next;
                return;
            }
            at = entry.next as usize;
        }
    }

    /// Keeps a packet for an entry; the oldest of too many is dropped.
    fn keep(&mut self, index: usize, packet: Packet) -> bool {
        let most = self.limits.packets_each as u32;
        if self.entries.get(index).is_some_and(|entry| entry.waiting >= most) {
            self.drops += u64::from(self.take_first(index).is_some());
        }
        let place = if self.free_place != NONE {
            let place = self.free_place;
            self.free_place = self.places.get(place as usize).map_or(NONE, |place| place.next);
            place
        } else if self.places.len() < self.limits.packets {
            // Room was reserved for all.
            self.places.push(Place { packet: None, next: NONE });
            (self.places.len() - 1) as u32
        } else {
            self.drops += 1;
            return false;
        };
        if let Some(place) = self.places.get_mut(place as usize) {
            *place = Place { packet: Some(packet), next: NONE };
        }
        self.length += 1;
        let Some(entry) = self.entries.get_mut(index) else { return false };
        entry.waiting += 1;
        let last = std::mem::replace(&mut entry.last, place);
        match self.places.get_mut(last as usize) {
            Some(last) => last.next = place,
            None => entry.first = place,
        }
        true
    }

    /// Takes the oldest packet that waits for an entry.
    fn take_first(&mut self, index: usize) -> Option<Packet> {
        let entry = self.entries.get_mut(index)?;
        let at = entry.first;
        let place = self.places.get_mut(at as usize)?;
        entry.first = std::mem::replace(&mut place.next, self.free_place);
        if entry.first == NONE {
            entry.last = NONE;
        }
        entry.waiting -= 1;
        self.free_place = at;
        self.length -= 1;
        place.packet.take()
    }

    fn release(&mut self, index: usize, mut to: impl FnMut(Packet, &[u8; 14])) {
        let Some(header) = self.entries.get(index).map(|entry| entry.header) else { return };
        while let Some(packet) = self.take_first(index) {
            to(packet, &header);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_engine::Arena;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        entries: 8,
        packets: 6,
        packets_each: 3,
        fresh_ns: 30,
        expire_ns: 1000,
        delay_ns: 0,
        retransmit_ns: 10,
        tries: 3,
        on_demand: false,
        slim: 2,
    };
    const SECOND: u64 = 1_000_000_000;

    fn table() -> Neighbours<u32> {
        Neighbours::new(LIMITS, [2, 0, 0, 0, 0, 1], [8, 0])
    }

    /// How the states follow each other, in units of a second.
    #[test]
    fn states_follow_each_other() {
        let seconds = |n: u64| n * SECOND;
        let limits = Limits {
            fresh_ns: seconds(30),
            expire_ns: seconds(600),
            delay_ns: seconds(5),
            retransmit_ns: seconds(1),
            ..LIMITS
        };
        let arena = Arena::heap(16, 512);
        let mut table = Neighbours::<u32>::new(limits, [2, 0, 0, 0, 0, 1], [8, 0]);
        let state = |table: &Neighbours<u32>, now| table.lines(now).next().map(|line| line.state);
        let mac = [2, 0, 0, 0, 0, 9];
        let told = Told { address: 7, mac: Some(mac), solicited: true, overrides: true };
        assert!(!table.learn(told, 0, |_, _| {}), "nobody asked");
        let offer = table.offer(7, arena.packet(b"x").unwrap(), 0);
        assert!(matches!(offer, Offer::WaitsAndAsk));
        assert!(matches!(table.offer(7, arena.packet(b"y").unwrap(), 0), Offer::Waits));
        let mut out = Vec::new();
        assert!(
            table.learn(told, seconds(1), |p, h| out.push((p.data().to_vec(), h[..6].to_vec())))
        );
        assert_eq!(out, [(b"x".to_vec(), mac.to_vec()), (b"y".to_vec(), mac.to_vec())]);
        assert!(table.header(7, seconds(30)).is_some());
        assert!(table.header(7, seconds(31)).is_none());
        let offer = table.offer(7, arena.packet(b"x").unwrap(), seconds(40));
        assert!(matches!(offer, Offer::Send(..)));
        drop(offer);
        assert_eq!(state(&table, seconds(40)), Some(State::Delay));
        assert!(table.header(7, seconds(41)).is_some(), "may be used meanwhile");
        let mut asked = Vec::new();
        for second in 44..60 {
            table.tick(seconds(second), |_, mac| asked.push((second, mac)), drop);
        }
        assert_eq!(asked, [(46, Some(mac)), (48, Some(mac)), (50, Some(mac))]);
        assert_eq!((table.count(), table.next_due_ns()), (0, None));
        assert_eq!(arena.free(), 16);
    }

    #[test]
    fn what_is_told_counts_as_rfc_4861_says() {
        let (old, new) = ([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]);
        // mac, solicited, overrides → mac, state
        let table_of = [
            (Some(new), true, true, new, State::Reachable),
            (Some(new), false, true, new, State::Stale),
            (Some(new), true, false, old, State::Stale),
            (Some(old), false, false, old, State::Reachable),
            (None, true, true, old, State::Reachable),
        ];
        for (mac, solicited, overrides, wanted, state) in table_of {
            let mut table = table();
            table.insert(7, old, false, 5, |_, _| {});
            table.learn(Told { address: 7, mac, solicited, overrides }, 6, |_, _| {});
            let line = table.lines(6).next().unwrap();
            assert_eq!((line.mac, line.state), (wanted, state), "{mac:?} {solicited} {overrides}");
        }
        let mut table = table();
        table.insert(7, old, true, 5, |_, _| {});
        let told = Told { address: 7, mac: Some(new), solicited: true, overrides: true };
        table.learn(told, 6, |_, _| {});
        assert_eq!(table.header(7, u64::MAX - 1).unwrap()[..6], old, "fixed ones stay");
    }

    proptest! {
        /// Bounds hold, no packet is lost or freed twice, and what is known is found.
        #[test]
        fn tables_stay_within_their_bounds(
            steps in prop::collection::vec((0u8..5, 0u32..20, 0u64..20), 1..200),
            on_demand in any::<bool>()
        ) {
            let arena = Arena::heap(256, 512);
            let limits = Limits { on_demand, ..LIMITS };
            let mut table = Neighbours::<u32>::new(limits, [2, 0, 0, 0, 0, 1], [8, 0]);
            let mut now = 0;
            for (step, address, time) in steps {
                now += time;
                let mac = [2, 0, 0, 0, 0, address as u8];
                match step {
                    0 | 1 => match table.offer(address, arena.packet(b"x").unwrap(), now) {
                        Offer::Send(_, header) | Offer::SendAndProbe(_, header) => {
                            prop_assert_eq!(&header[..6], &mac[..]);
                        }
                        _ => {}
                    },
                    2 => {
                        let told =
                            Told { address, mac: Some(mac), solicited: time % 2 == 0, overrides: true };
                        table.learn(told, now, |_, _| {});
                    }
                    3 => table.tick(now, |_, _| {}, drop),
                    _ => { table.remove(address); }
                }
                if let Some(header) = table.header(address, now) {
                    prop_assert_eq!(&header[..6], &mac[..]);
                }
                prop_assert!(table.count() <= 8 && table.length() <= 6 && table.incomplete <= table.count());
                prop_assert_eq!(arena.free() + table.length(), 256);
                prop_assert!(on_demand || table.next_due_ns().is_some() == (table.active > 0));
                let used = table.entries.iter().filter(|e| e.state != State::Free).count();
                prop_assert_eq!(used, table.count());
            }
            table.clear();
            prop_assert_eq!((table.count(), table.length(), arena.free()), (0, 0, 256));
            for address in 0..20 {
                prop_assert!(table.find(address).is_none());
            }
        }
    }
}
