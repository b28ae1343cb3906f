//! A tuple: rules whose masks contain one common mask, hashed by the bits under it (Srinivasan,
//! Suri and Varghese: Packet Classification using Tuple Space Search, SIGCOMM 1999).

use crate::hash::{hash, masked};
use crate::rule::Key;
use crate::table::{NONE, Slot};

/// A hash table of rules. Rules of a bucket form a chain, in the order of their ranks. In addition,
/// each bucket has one byte, with a bit for each of eight kinds of hashes in it. All these bytes
/// fit into the second-level cache, so a tuple without a match usually costs no cache miss.
#[repr(C)]
pub(crate) struct Tuple<const N: usize> {
    pub(crate) mask: Key<N>,
    kinds: Box<[u8]>,
    heads: Box<[Head]>,
    /// No rule in the tuple has a higher rank.
    pub(crate) rank: u64,
    pub(crate) rules: u32,
}

/// A rule's place in a chain. The hash distinguishes almost all rules that differ in bits under the
/// tuple's mask. So a look-up reads these 8 bytes and not the rule.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    next: u32,
    hash: u32,
}

impl Link {
    pub(crate) const NONE: Self = Self { next: NONE, hash: 0 };
}

/// The first rule of a bucket, with a copy of its link: this saves one miss for most results.
#[derive(Clone, Copy)]
struct Head {
    first: u32,
    link: Link,
}

impl Head {
    const NONE: Self = Self { first: NONE, link: Link::NONE };
}

const SMALLEST: usize = 4;

impl<const N: usize> Tuple<N> {
    pub(crate) fn new(mask: Key<N>) -> Self {
        let (kinds, heads) = (vec![0; SMALLEST].into(), vec![Head::NONE; SMALLEST].into());
        Self { mask, kinds, heads, rank: 0, rules: 0 }
    }

    /// Whether the tuple may contain rules with this mask.
    pub(crate) fn takes(&self, mask: &Key<N>) -> bool {
        masked(&self.mask, mask) == self.mask
    }

    pub(crate) fn bits(&self) -> u32 {
        self.mask.iter().map(|word| word.count_ones()).sum()
    }

    /// The positions of a key's bits, and their hash.
    #[inline]
    fn place(&self, key: &Key<N>) -> (usize, u8, u32) {
        let hash = hash(&masked(key, &self.mask), 0);
        (hash as usize & (self.kinds.len() - 1), 1 << (hash >> 61), (hash >> 29) as u32)
    }

    /// The first rule, in the order of ranks, that matches a key and that `fits` accepts.
    #[inline]
    pub(crate) fn find(
        &self,
        key: &Key<N>,
        links: &[Link],
        mut fits: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let (bucket, kind, hash) = self.place(key);
        if self.kinds[bucket] & kind == 0 {
            return None;
        }
        let Head { first: mut at, mut link } = self.heads[bucket];
        loop {
            if link.hash == hash && fits(at) {
                return Some(at);
            }
            at = link.next;
            link = *links.get(at as usize)?;
        }
    }

    /// Number of rules that share all bits of `value` under the mask; counts up to `most`.
    pub(crate) fn alike(&self, value: &Key<N>, links: &[Link], most: usize) -> usize {
        let mut count = 0;
        self.find(value, links, |_| {
            count += 1;
            count == most
        });
        count
    }

    /// Adds a rule that is in no tuple.
    pub(crate) fn insert<T>(&mut self, new: u32, rules: &[Slot<T, N>], links: &mut [Link]) {
        self.rules += 1;
        if self.rules as usize * 2 > self.heads.len() {
            self.grow(rules, links);
        }
        self.chain(new, rules, links);
    }

    fn chain<T>(&mut self, new: u32, rules: &[Slot<T, N>], links: &mut [Link]) {
        let rule = &rules[new as usize].0;
        let rank = rule.rank();
        self.rank = self.rank.max(rank);
        let (bucket, kind, hash) = self.place(&rule.value);
        self.kinds[bucket] |= kind;
        let (mut before, mut at) = (NONE, self.heads[bucket].first);
        while at != NONE && rules[at as usize].0.rank() > rank {
            (before, at) = (at, links[at as usize].next);
        }
        links[new as usize] = Link { next: at, hash };
        self.join(bucket, before, new, links);
    }

    /// Makes `after` the successor of `before` in a bucket's chain, or the chain's first rule.
    fn join(&mut self, bucket: usize, before: u32, after: u32, links: &mut [Link]) {
        if let Some(before) = links.get_mut(before as usize) {
            before.next = after;
        }
        let first = if before == NONE { after } else { self.heads[bucket].first };
        let link = links.get(first as usize).copied().unwrap_or(Link::NONE);
        self.heads[bucket] = Head { first, link };
    }

    /// Removes one of the tuple's rules. The highest rank stays the same: a rank that is too high
    /// only costs time.
    pub(crate) fn remove<T>(&mut self, old: u32, rules: &[Slot<T, N>], links: &mut [Link]) {
        self.rules -= 1;
        let (bucket, ..) = self.place(&rules[old as usize].0.value);
        let (mut before, mut at) = (NONE, self.heads[bucket].first);
        let mut kinds = 0;
        while at != NONE {
            let next = links[at as usize].next;
            if at == old {
                self.join(bucket, before, next, links);
            } else {
                kinds |= self.place(&rules[at as usize].0.value).1;
                before = at;
            }
            at = next;
        }
        self.kinds[bucket] = kinds;
    }

    /// Four times as many buckets: growing is rare, and most buckets stay empty.
    fn grow<T>(&mut self, rules: &[Slot<T, N>], links: &mut [Link]) {
        let size = self.heads.len() * 4;
        let heads = std::mem::replace(&mut self.heads, vec![Head::NONE; size].into());
        self.kinds = vec![0; size].into();
        self.rank = 0;
        for head in heads {
            let mut at = head.first;
            while at != NONE {
                let next = links[at as usize].next;
                self.chain(at, rules, links);
                at = next;
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.heads.len() * (size_of::<Head>() + 1) + size_of::<Self>()
    }
}
