//! Packets that wait for an answer: a list for each entry. All lists share the same places.

use std::mem::replace;

use europa_engine::Packet;

use super::{Address, Entry, Limits, NONE, Neighbours, State};

/// A place for a packet that waits.
pub(super) struct Place {
    packet: Option<Packet>,
    next: u32,
}

impl<A: Address> Neighbours<A> {
    /// Keeps a packet for an entry; if there are too many, the oldest is dropped.
    pub(super) fn keep(&mut self, index: usize, packet: Packet) -> bool {
        let most = self.limits.packets_each as u32;
        let full = self.share.is_full();
        let gives_way = |entry: &Entry<A>| entry.waiting >= most || full && entry.waiting > 0;
        if self.entries.get(index).is_some_and(gives_way) {
            self.drops += u64::from(self.take_first(index).is_some());
        }
        let place = if self.share.is_full() {
            self.drops += 1;
            return false;
        } else if self.free_place != NONE {
            let place = self.free_place;
            self.free_place = self.places.get(place as usize).map_or(NONE, |place| place.next);
            place
        } else if self.places.len() < self.limits.packets {
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
        self.share.set(self.length);
        let Some(entry) = self.entries.get_mut(index) else { return false };
        entry.waiting += 1;
        let last = replace(&mut entry.last, place);
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
        entry.first = replace(&mut place.next, self.free_place);
        if entry.first == NONE {
            entry.last = NONE;
        }
        entry.waiting -= 1;
        self.free_place = at;
        self.length -= 1;
        self.share.set(self.length);
        place.packet.take()
    }

    pub(super) fn release(&mut self, index: usize, mut to: impl FnMut(Packet, &[u8; 14])) {
        let Some(header) = self.entries.get(index).map(|entry| entry.header) else { return };
        while let Some(packet) = self.take_first(index) {
            to(packet, &header);
        }
    }

    /// Takes over the packets that wait in another table, with their requests.
    pub(super) fn take_waiting(&mut self, old: &mut Neighbours<A>) {
        for at in 0..old.entries.len() {
            let Some(entry) = old.entries.get(at).filter(|entry| entry.waiting > 0) else {
                continue;
            };
            let (address, tries, due_ns) = (entry.address, entry.tries, entry.due_ns);
            let found = self.find(address).or_else(|| self.create(address, entry.confirmed_ns));
            let Some(index) = found else { continue };
            let Some(entry) = self.entries.get_mut(index) else { continue };
            // The new configuration has a static entry here. Its packets cannot be sent from this
            // function.
            if entry.state != State::Incomplete {
                continue;
            }
            (entry.tries, entry.due_ns) = (tries, due_ns);
            self.enter(index, State::Incomplete, due_ns);
            while let Some(packet) = old.take_first(at) {
                self.keep(index, packet);
            }
        }
    }

    pub(super) fn make_room(&mut self) {
        if self.length >= self.limits.packets {
            self.drop_oldest();
        }
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
}
