//! Tables in which only packets cause requests, as in Click.

use europa_engine::Packet;

use super::{Address, Entry, Limits, MILLISECOND_NS, Neighbours, Offer, State};

/// On demand: number of requests that may follow each other quickly.
const QUICK_TRIES: u8 = 10;

impl<A> Entry<A> {
    /// On demand: whether a request may be sent now; if so, counts it.
    fn may_ask(&mut self, now_ns: u64) -> bool {
        // Times are compared in whole milliseconds, so that a packet that comes every 100 ms is not
        // a little too early.
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

impl<A: Address> Neighbours<A> {
    /// Like [`Neighbours::offer`] for tables in which only packets cause requests.
    pub(super) fn offer_on_demand(&mut self, address: A, packet: Packet, now_ns: u64) -> Offer {
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
        // An entry that is in use does not expire, but it is the first to be evicted.
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

    /// On demand: when expired entries are next removed.
    pub(super) fn sweep_ns(&self, now_ns: u64) -> u64 {
        const SECOND_NS: u64 = 1_000_000_000;
        let period_ns = (self.limits.expire_ns / SECOND_NS * SECOND_NS).saturating_add(SECOND_NS);
        now_ns.saturating_add(period_ns)
    }

    /// On demand: takes over an entry with its times.
    pub(super) fn copy(&mut self, old: &Entry<A>) {
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
}
