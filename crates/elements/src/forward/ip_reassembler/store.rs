//! Fragments that wait for the rest of their packet, in bounded memory.
//!
//! Incomplete packets form a list, ordered by the arrival of their first fragment. So the oldest
//! packet is found and dropped without a search. A packet has at most [`MOST_FRAGMENTS`] fragments,
//! in the order of their offsets, so adding a fragment takes at most that many steps.

use std::collections::HashMap;

use europa_engine::{Packet, Share};

/// Source, destination, identification and protocol.
pub(super) type Key = (u32, u32, u16, u8);

/// Fragments of one packet. A packet of 16 kB in fragments of 576 bytes has 30; no buffer has room
/// for more than 32 kB.
pub(super) const MOST_FRAGMENTS: usize = 64;
/// No place, no packet.
const NONE: u32 = u32::MAX;

/// A fragment.
pub(super) struct Fragment {
    pub(super) packet: Packet,
    /// Offset of its payload in the payload of the packet.
    pub(super) offset: usize,
    pub(super) length: usize,
}

impl Fragment {
    fn end(&self) -> usize {
        self.offset + self.length
    }
}

/// A place for a fragment, and the index of the next one: of the same packet, or of the free list.
struct Place {
    fragment: Option<Fragment>,
    next: u32,
}

/// A packet that is incomplete.
struct Whole {
    key: Key,
    /// Its neighbours in age; in a free entry, `newer` is the next free entry.
    older: u32,
    newer: u32,
    first: u32,
    fragments: usize,
    bytes: usize,
    /// Length of the payload, once the last fragment has arrived.
    length: Option<usize>,
    expires_ns: u64,
}

/// The result for a fragment.
pub(super) enum Added {
    /// The fragment waits for others.
    Waits,
    /// The packet has these bytes already.
    Twice(Packet),
    /// The packet has more fragments than can be reassembled.
    TooMany(Packet),
    /// The fragment completes the packet.
    Complete,
}

/// All fragments that wait.
pub(super) struct Store {
    wholes: Vec<Whole>,
    places: Vec<Place>,
    by_key: HashMap<Key, u32>,
    free_whole: u32,
    free_place: u32,
    oldest: u32,
    newest: u32,
    bytes: usize,
    fragments: usize,
    share: Share,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            wholes: Vec::new(),
            places: Vec::new(),
            by_key: HashMap::new(),
            free_whole: NONE,
            free_place: NONE,
            oldest: NONE,
            newest: NONE,
            bytes: 0,
            fragments: 0,
            share: Share::default(),
        }
    }
}

impl Store {
    /// Allocates memory for as many fragments as the share allows, so that packets need no
    /// allocation.
    pub(super) fn set_share(&mut self, share: Share) {
        let most = share.most().saturating_sub(self.fragments);
        self.wholes.reserve(most);
        self.places.reserve(most);
        self.by_key.reserve(most);
        self.share = share;
        self.share.set(self.fragments);
    }

    /// Bytes of all fragments.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of fragments.
    pub(super) fn fragments(&self) -> usize {
        self.fragments
    }

    /// Length of a packet's payload, if its last fragment has arrived.
    pub(super) fn length(&self, key: Key) -> Option<usize> {
        self.wholes.get(*self.by_key.get(&key)? as usize)?.length
    }

    /// Packets that are incomplete.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is no room for one more fragment.
    pub(super) fn is_full(&self) -> bool {
        self.share.is_full()
    }

    /// The packet whose first fragment arrived first, and the time to drop it.
    pub(super) fn oldest(&self) -> Option<(Key, u64)> {
        let whole = self.wholes.get(self.oldest as usize)?;
        Some((whole.key, whole.expires_ns))
    }

    /// Adds a fragment; `last` is whether it is the packet's last. If it is the first one to
    /// arrive, it sets when the packet expires.
    pub(super) fn add(
        &mut self,
        key: Key,
        fragment: Fragment,
        last: bool,
        expires_ns: u64,
    ) -> Added {
        let at = match self.by_key.get(&key) {
            Some(at) => *at,
            None => self.begin(key, expires_ns),
        };
        let Some(whole) = self.wholes.get_mut(at as usize) else {
            return Added::TooMany(fragment.packet);
        };
        if last {
            whole.length = Some(fragment.end());
        }
        let full = whole.fragments >= MOST_FRAGMENTS;
        let (mut before, mut next) = (NONE, whole.first);
        while let Some(Place { fragment: Some(other), next: behind }) =
            self.places.get(next as usize)
        {
            if other.offset <= fragment.offset && other.end() >= fragment.end() {
                return Added::Twice(fragment.packet);
            }
            if other.offset > fragment.offset {
                break;
            }
            (before, next) = (next, *behind);
        }
        if full {
            return Added::TooMany(fragment.packet);
        }
        let bytes = fragment.packet.len();
        let place = self.take_place(fragment, next);
        if let Some(before) = self.places.get_mut(before as usize) {
            before.next = place;
        }
        if let Some(whole) = self.wholes.get_mut(at as usize) {
            if before == NONE {
                whole.first = place;
            }
            whole.fragments += 1;
            whole.bytes += bytes;
        }
        self.bytes += bytes;
        self.fragments += 1;
        self.share.set(self.fragments);
        if self.is_complete(at) { Added::Complete } else { Added::Waits }
    }

    /// Whether the payload is complete.
    fn is_complete(&self, at: u32) -> bool {
        let Some(Whole { length: Some(length), first, .. }) = self.wholes.get(at as usize) else {
            return false;
        };
        let (mut reached, mut next) = (0, *first);
        while let Some(Place { fragment: Some(fragment), next: behind }) =
            self.places.get(next as usize)
            && fragment.offset <= reached
        {
            reached = reached.max(fragment.end());
            next = *behind;
        }
        reached >= *length
    }

    /// Adds a packet without fragments, as the newest.
    fn begin(&mut self, key: Key, expires_ns: u64) -> u32 {
        let whole = Whole {
            key,
            older: self.newest,
            newer: NONE,
            first: NONE,
            fragments: 0,
            bytes: 0,
            length: None,
            expires_ns,
        };
        let at = match self.wholes.get_mut(self.free_whole as usize) {
            Some(free) => {
                let at = std::mem::replace(&mut self.free_whole, free.newer);
                *free = whole;
                at
            }
            None => {
                self.wholes.push(whole);
                // There are no more than slots in a pool.
                (self.wholes.len() - 1) as u32
            }
        };
        match self.wholes.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.by_key.insert(key, at);
        at
    }

    fn take_place(&mut self, fragment: Fragment, next: u32) -> u32 {
        let place = Place { fragment: Some(fragment), next };
        match self.places.get_mut(self.free_place as usize) {
            Some(free) => {
                let at = std::mem::replace(&mut self.free_place, free.next);
                *free = place;
                at
            }
            None => {
                self.places.push(place);
                // As above.
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Takes a packet out, if it exists. `take` gets its fragments in the order of their offsets.
    pub(super) fn remove(&mut self, key: Key, mut take: impl FnMut(Fragment)) {
        let Some(at) = self.by_key.remove(&key) else { return };
        let Some(whole) = self.wholes.get_mut(at as usize) else { return };
        let (older, newer) = (whole.older, std::mem::replace(&mut whole.newer, self.free_whole));
        let mut next = whole.first;
        self.bytes -= whole.bytes;
        self.fragments -= whole.fragments;
        self.share.set(self.fragments);
        self.free_whole = at;
        match self.wholes.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.wholes.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        while let Some(place) = self.places.get_mut(next as usize) {
            if let Some(fragment) = place.fragment.take() {
                take(fragment);
            }
            let behind = std::mem::replace(&mut place.next, self.free_place);
            self.free_place = std::mem::replace(&mut next, behind);
        }
    }

    /// Takes over the fragments of another store, oldest first, as long as there is room, up to a
    /// total of `most`.
    pub(super) fn take_over(&mut self, old: &mut Store, most: usize) {
        while let Some((key, expires_ns)) = old.oldest() {
            let length = old.length(key);
            old.remove(key, |fragment| {
                let last = length == Some(fragment.end());
                if !self.is_full() && self.fragments < most {
                    self.add(key, fragment, last, expires_ns);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Arena;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The store keeps the same packets as a list, in the order of age.
        #[test]
        fn bookkeeping_is_right(
            steps in prop::collection::vec((0u16..6, 0usize..6, any::<bool>(), any::<bool>()), 1..80)
        ) {
            let arena = Arena::heap(512, 512);
            let mut store = Store::default();
            let mut model: Vec<(Key, Vec<usize>)> = Vec::new();
            for (id, offset, last, give_up) in steps {
                let key = (1, 2, id, 17);
                let fragment =
                    Fragment { packet: arena.packet(b"12345678").unwrap(), offset: offset * 8, length: 8 };
                let at = match model.iter().position(|(other, _)| *other == key) {
                    Some(at) => at,
                    None => {
                        model.push((key, Vec::new()));
                        model.len() - 1
                    }
                };
                let added = store.add(key, fragment, last, 0);
                let complete = matches!(added, Added::Complete);
                let twice = model[at].1.contains(&offset);
                prop_assert_eq!(matches!(added, Added::Twice(_)), twice);
                drop(added);
                if !twice {
                    model[at].1.push(offset);
                    model[at].1.sort_unstable();
                }
                let gone = match complete {
                    true => Some(key),
                    false => store.oldest().map(|(key, _)| key).filter(|_| give_up),
                };
                if let Some(gone) = gone {
                    let mut offsets = Vec::new();
                    store.remove(gone, |fragment| offsets.push(fragment.offset / 8));
                    let at = model.iter().position(|(key, _)| *key == gone).unwrap();
                    if !complete {
                        prop_assert_eq!(at, 0, "the oldest");
                    }
                    prop_assert_eq!(offsets, model.remove(at).1);
                }
                let count: usize = model.iter().map(|(_, offsets)| offsets.len()).sum();
                prop_assert_eq!((store.len(), store.bytes()), (model.len(), count * 8));
                prop_assert_eq!(arena.capacity() - arena.free(), count);
            }
        }
    }
}
