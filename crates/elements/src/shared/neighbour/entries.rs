//! The hash table: finds, makes and removes entries.

use europa_engine::Packet;

use super::{Address, Entry, NONE, Neighbours, State};

/// Number of entries that are examined to make room.
const CANDIDATES: usize = 32;

impl<A: Address> Neighbours<A> {
    #[inline(always)]
    fn head(&self, address: A) -> usize {
        (address.mix(self.secret) >> self.shift) as usize
    }

    #[inline(always)]
    pub(super) fn find(&self, address: A) -> Option<usize> {
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

    /// Makes an incomplete entry, if there is room.
    pub(super) fn create(&mut self, address: A, now_ns: u64) -> Option<usize> {
        if !self.limits.on_demand && self.incomplete * 2 >= self.limits.entries.max(2) {
            return None;
        }
        let index = if self.free != NONE {
            let index = self.free as usize;
            self.free = self.entries.get(index)?.next;
            index
        } else if self.entries.len() < self.limits.entries {
            self.make_heads();
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

    /// Enlarges the index before an entry is added: at least as many heads as entries.
    fn make_heads(&mut self) {
        if self.entries.len() < self.heads.len() {
            return;
        }
        self.heads = vec![NONE; self.heads.len() * 2];
        self.shift -= 1;
        for index in 0..self.entries.len() {
            let Some(entry) = self.entries.get(index).filter(|entry| entry.state != State::Free)
            else {
                continue;
            };
            let head = self.head(entry.address);
            if let (Some(head), Some(entry)) =
                (self.heads.get_mut(head), self.entries.get_mut(index))
            {
                entry.next = std::mem::replace(head, index as u32);
            }
        }
    }

    /// The entry to evict: of the next candidates in circular order, the one that is unconfirmed
    /// for longest.
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

    /// Removes an entry; `packets` gets its waiting packets.
    pub(super) fn forget(&mut self, index: usize, mut packets: impl FnMut(Packet)) {
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
        // The entry is in this chain: at its head or behind another entry.
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
}
