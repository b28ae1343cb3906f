//! Hash tables, least-recently-used ones, and longest-prefix tries.
//!
//! Everything is allocated when the map is made, as zeros that cost no memory until they are
//! touched. A trie is a hash table too: prefixes are looked up from the longest length in use to
//! the shortest, which for IPv4 are at most 33 look-ups.

use std::hash::{BuildHasher, RandomState};

use crate::definition::MapKind;
use crate::user::map::{E2BIG, EEXIST, EINVAL, ENOENT};

const ENOSPC: i64 = -28;
/// Longest key of a trie: 4 bytes of length and 256 of address.
const MAX_PREFIX_KEY: usize = 260;

/// Keys with the numbers of their values.
#[derive(Debug)]
pub(super) struct Table {
    key_bytes: usize,
    max_entries: u32,
    /// First entry of each bucket, plus 1.
    buckets: Vec<u32>,
    /// The next entry of the same bucket or of the free list, plus 1.
    next: Vec<u32>,
    used: Vec<bool>,
    keys: Vec<u8>,
    /// Entries from this one on were never used.
    fresh: u32,
    free: u32,
    seed: u64,
    /// Entries that were looked up since `hand` passed them; only for a table that evicts.
    recent: Option<Vec<bool>>,
    hand: u32,
    /// Numbers of prefixes by length; only of a trie.
    lengths: Option<Vec<u32>>,
    /// Lengths in use, longest first.
    in_use: Vec<u32>,
}

impl Table {
    /// Whether maps of this type are tables.
    pub(super) fn is_for(kind: MapKind) -> bool {
        use MapKind::{DevmapHash, Hash, LpmTrie, LruHash, LruPercpuHash, PercpuHash};
        matches!(kind, DevmapHash | Hash | LpmTrie | LruHash | LruPercpuHash | PercpuHash)
    }

    pub(super) fn new(kind: MapKind, key_bytes: usize, max_entries: u32) -> Table {
        let entries = max_entries as usize;
        let evicts = matches!(kind, MapKind::LruHash | MapKind::LruPercpuHash);
        let prefixes = kind == MapKind::LpmTrie;
        let lengths = key_bytes.saturating_sub(4) * 8 + 1;
        Table {
            key_bytes,
            max_entries,
            buckets: vec![0; entries.next_power_of_two()],
            next: vec![0; entries],
            used: vec![false; entries],
            keys: vec![0; entries * key_bytes],
            fresh: 0,
            free: 0,
            // Senders of packets choose keys: they must not be able to predict collisions.
            seed: RandomState::new().hash_one(0_u8) | 1,
            recent: evicts.then(|| vec![false; entries]),
            hand: 0,
            lengths: prefixes.then(|| vec![0; lengths]),
            in_use: Vec::with_capacity(if prefixes { lengths } else { 0 }),
        }
    }

    #[inline(always)]
    fn bucket(&self, key: &[u8]) -> usize {
        let mut hash = self.seed;
        let mut add = |word: u64| {
            let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
            hash = (product as u64) ^ (product >> 64) as u64;
        };
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        add(u64::from_le_bytes(last));
        // Buckets are a power of two.
        hash as usize & (self.buckets.len() - 1)
    }

    fn key(&self, entry: u32) -> &[u8] {
        let start = entry as usize * self.key_bytes;
        self.keys.get(start..start + self.key_bytes).unwrap_or_default()
    }

    /// The entry of this key, which for a trie is masked.
    #[inline(always)]
    fn locate(&self, key: &[u8]) -> Option<u32> {
        let mut at = self.buckets.get(self.bucket(key)).copied()?;
        while let Some(entry) = at.checked_sub(1) {
            let own = self.key(entry);
            let same = match self.lengths {
                None => own == key,
                Some(_) => same_prefix(own, key),
            };
            if same {
                return Some(entry);
            }
            at = self.next.get(entry as usize).copied()?;
        }
        None
    }

    /// The entry that a program's look-up finds.
    #[inline(always)]
    pub(super) fn find(&mut self, key: &[u8]) -> Option<u32> {
        if self.lengths.is_some() {
            return self.longest(key);
        }
        let entry = self.locate(key)?;
        if let Some(recent) = &mut self.recent
            && let Some(recent) = recent.get_mut(entry as usize)
        {
            *recent = true;
        }
        Some(entry)
    }

    /// The entry of the longest prefix that fits.
    fn longest(&self, key: &[u8]) -> Option<u32> {
        let most = u32::from_le_bytes(*key.first_chunk()?);
        if most as usize > (self.key_bytes - 4) * 8 {
            return None;
        }
        let mut buffer = [0; MAX_PREFIX_KEY];
        let fitting = self.in_use.iter().filter(|length| **length <= most);
        fitting.copied().find_map(|length| self.locate(masked(key, length, &mut buffer)?))
    }

    /// The entry of a key, a new one if there is none.
    pub(super) fn insert(
        &mut self,
        key: &[u8],
        only_new: bool,
        only_old: bool,
    ) -> Result<u32, i64> {
        let mut buffer = [0; MAX_PREFIX_KEY];
        let original = key;
        let key = self.exact(key, &mut buffer).ok_or(EINVAL)?;
        if let Some(entry) = self.locate(key) {
            if only_new {
                return Err(EEXIST);
            }
            // A trie returns the key in its latest form, bits after the prefix included.
            self.set_key(entry, original);
            return Ok(entry);
        }
        if only_old {
            return Err(ENOENT);
        }
        let entry = self.allocate()?;
        let bucket = self.bucket(key);
        self.set_key(entry, original);
        if let (Some(first), Some(next), Some(used)) = (
            self.buckets.get_mut(bucket),
            self.next.get_mut(entry as usize),
            self.used.get_mut(entry as usize),
        ) {
            (*next, *first, *used) = (*first, entry + 1, true);
        }
        self.count(original, true);
        Ok(entry)
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> i64 {
        let mut buffer = [0; MAX_PREFIX_KEY];
        let Some(masked) = self.exact(key, &mut buffer) else { return EINVAL };
        let Some(entry) = self.locate(masked) else { return ENOENT };
        self.unlink(entry, self.bucket(masked));
        self.count(key, false);
        if let Some(next) = self.next.get_mut(entry as usize) {
            *next = self.free;
            self.free = entry + 1;
        }
        0
    }

    /// The key for hashing. `None` for a prefix that is too long.
    fn exact<'a>(&self, key: &'a [u8], buffer: &'a mut [u8; MAX_PREFIX_KEY]) -> Option<&'a [u8]> {
        if self.lengths.is_none() {
            return Some(key);
        }
        let length = u32::from_le_bytes(*key.first_chunk()?);
        let fits = length as usize <= (self.key_bytes - 4) * 8;
        if fits { masked(key, length, buffer) } else { None }
    }

    fn set_key(&mut self, entry: u32, key: &[u8]) {
        let start = entry as usize * self.key_bytes;
        if let Some(to) = self.keys.get_mut(start..start + self.key_bytes) {
            to.copy_from_slice(key);
        }
    }

    fn allocate(&mut self) -> Result<u32, i64> {
        if let Some(entry) = self.free.checked_sub(1) {
            self.free = self.next.get(entry as usize).copied().unwrap_or(0);
            return Ok(entry);
        }
        if self.fresh < self.max_entries {
            self.fresh += 1;
            return Ok(self.fresh - 1);
        }
        match self.recent.is_some() {
            true => self.evict(),
            false if self.lengths.is_some() => Err(ENOSPC),
            false => Err(E2BIG),
        }
    }

    /// Frees an entry that was not looked up for the longest time, by the approximation of `hand`.
    fn evict(&mut self) -> Result<u32, i64> {
        // One round clears all marks, so the second one ends at its first entry.
        for _ in 0..=self.max_entries {
            let entry = self.hand;
            self.hand = (self.hand + 1) % self.max_entries;
            let Some(recent) = self.recent.as_mut().and_then(|all| all.get_mut(entry as usize))
            else {
                break;
            };
            if !std::mem::take(recent) {
                let bucket = self.bucket(self.key(entry));
                self.unlink(entry, bucket);
                return Ok(entry);
            }
        }
        Err(E2BIG)
    }

    fn unlink(&mut self, entry: u32, bucket: usize) {
        let after = self.next.get(entry as usize).copied().unwrap_or(0);
        if let Some(used) = self.used.get_mut(entry as usize) {
            *used = false;
        }
        let Some(mut at) = self.buckets.get(bucket).copied() else { return };
        if at == entry + 1 {
            if let Some(first) = self.buckets.get_mut(bucket) {
                *first = after;
            }
            return;
        }
        while let Some(before) = at.checked_sub(1) {
            let Some(next) = self.next.get_mut(before as usize) else { return };
            if *next == entry + 1 {
                *next = after;
                return;
            }
            at = *next;
        }
    }

    /// Keeps the lengths of prefixes in use.
    fn count(&mut self, key: &[u8], more: bool) {
        let Some(lengths) = &mut self.lengths else { return };
        let Some(length) = key.first_chunk().map(|length| u32::from_le_bytes(*length)) else {
            return;
        };
        let Some(count) = lengths.get_mut(length as usize) else { return };
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        let place = self.in_use.partition_point(|other| *other > length);
        let there = self.in_use.get(place) == Some(&length);
        if *count == 0 && there {
            self.in_use.remove(place);
        } else if *count > 0 && !there {
            // The table has room for all lengths.
            self.in_use.insert(place, length);
        }
    }

    /// Whether a value belongs to a key.
    pub(super) fn is_used(&self, entry: u32) -> bool {
        self.used.get(entry as usize).copied().unwrap_or(false)
    }

    /// All keys with the numbers of their values.
    pub(super) fn keys(&self) -> impl Iterator<Item = (Vec<u8>, u32)> {
        let used = (0..).zip(&self.used).filter(|(_, used)| **used);
        used.map(|(entry, _)| (self.key(entry).to_vec(), entry))
    }
}

/// A key cut to `length` bits, with zeros behind.
fn masked<'a>(key: &[u8], length: u32, buffer: &'a mut [u8; MAX_PREFIX_KEY]) -> Option<&'a [u8]> {
    let to = buffer.get_mut(..key.len())?;
    to.fill(0);
    to.first_chunk_mut::<4>()?.copy_from_slice(&length.to_le_bytes());
    let (whole, bits) = (length as usize / 8, length % 8);
    to.get_mut(4..4 + whole)?.copy_from_slice(key.get(4..4 + whole)?);
    if bits > 0 {
        *to.get_mut(4 + whole)? = key.get(4 + whole)? & !(0xff >> bits);
    }
    Some(to)
}

/// Whether a prefix, with any bits behind, is that of a masked key.
fn same_prefix(own: &[u8], key: &[u8]) -> bool {
    let Some(length) = key.first_chunk().map(|length| u32::from_le_bytes(*length)) else {
        return false;
    };
    let (whole, bits) = (4 + length as usize / 8, length % 8);
    own.get(..whole) == key.get(..whole)
        && (bits == 0
            || own
                .get(whole)
                .zip(key.get(whole))
                .is_some_and(|(own, key)| (own ^ key) & !(0xff >> bits) == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_is_found() {
        let mut trie = Table::new(MapKind::LpmTrie, 8, 3);
        let key = |length: u32, address: [u8; 4]| [length.to_le_bytes(), address].concat();
        let wide = trie.insert(&key(8, [10, 1, 2, 3]), false, false).unwrap();
        let narrow = trie.insert(&key(12, [10, 16, 0, 0]), false, false).unwrap();
        let all = trie.insert(&key(0, [9; 4]), false, false).unwrap();
        assert_eq!(trie.insert(&key(32, [1; 4]), false, false), Err(ENOSPC));
        for (length, address, found) in [
            (32, [10, 2, 3, 4], Some(wide)),
            (32, [10, 17, 3, 4], Some(narrow)),
            (11, [10, 17, 3, 4], Some(wide)),
            (32, [11, 0, 0, 0], Some(all)),
            (33, [11, 0, 0, 0], None),
        ] {
            assert_eq!(trie.find(&key(length, address)), found, "{address:?}/{length}");
        }
        assert_eq!(trie.remove(&key(8, [10, 0, 0, 0])), 0);
        assert_eq!(trie.find(&key(32, [10, 2, 3, 4])), Some(all));
        assert_eq!(trie.remove(&key(8, [10, 0, 0, 0])), ENOENT);
    }

    #[test]
    fn what_was_looked_at_stays() {
        let mut table = Table::new(MapKind::LruHash, 4, 4);
        for key in 0..4_u32 {
            table.insert(&key.to_le_bytes(), false, false).unwrap();
        }
        assert!(table.find(&0_u32.to_le_bytes()).is_some());
        for key in 10..13_u32 {
            table.insert(&key.to_le_bytes(), false, false).unwrap();
        }
        assert!(table.find(&0_u32.to_le_bytes()).is_some());
        assert_eq!(table.keys().count(), 4);
    }
}
