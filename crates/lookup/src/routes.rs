//! The given routes, and the effects of changing one of them.

use europa_packet::{Ipv4Prefix, Ipv6Prefix};
use prefix_trie::{Prefix, PrefixMap};

use crate::NextHop;

/// Arithmetic on addresses.
pub trait Address: Copy + Ord + Send + Sync + 'static {
    /// A prefix of such addresses.
    type Prefix: Copy;
    /// A prefix as its first address and its length in bits.
    fn pair(prefix: Self::Prefix) -> (Self, u8);
    /// The prefix with this address and length.
    fn prefix(pair: (Self, u8)) -> Option<Self::Prefix>;
    /// The lowest address.
    const FIRST: Self;
    /// The highest address.
    const LAST: Self;
    /// The last address of the prefix of `len` bits that starts at this address.
    fn last(self, len: u8) -> Self;
    /// The first address of the prefix of `len` bits that contains this address.
    fn first(self, len: u8) -> Self;
    /// The next address, if there is one.
    fn after(self) -> Option<Self>;
    /// The former address, if there is one.
    fn before(self) -> Option<Self>;
}

macro_rules! address {
    ($type:ty, $prefix:ty) => {
        impl Address for $type {
            type Prefix = $prefix;

            fn pair(prefix: $prefix) -> (Self, u8) {
                (prefix.addr().into(), prefix.prefix_len())
            }

            fn prefix((first, len): (Self, u8)) -> Option<$prefix> {
                <$prefix>::new(first.into(), len).ok()
            }

            const FIRST: Self = 0;
            const LAST: Self = Self::MAX;

            fn last(self, len: u8) -> Self {
                self | <$type>::MAX.checked_shr(len.into()).unwrap_or(0)
            }

            fn first(self, len: u8) -> Self {
                self & !<$type>::MAX.checked_shr(len.into()).unwrap_or(0)
            }

            fn after(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }
        }
    };
}

address!(u32, Ipv4Prefix);
address!(u128, Ipv6Prefix);

/// Routes by prefix: first address and length in bits.
#[derive(Clone)]
pub struct Routes<A: Address>
where
    (A, u8): Prefix<R = A>,
{
    map: PrefixMap<(A, u8), NextHop>,
}

impl<A: Address> Routes<A>
where
    (A, u8): Prefix<R = A>,
{
    pub(crate) fn new() -> Self {
        Self { map: PrefixMap::new() }
    }

    pub(crate) fn insert(&mut self, prefix: (A, u8), next_hop: NextHop) -> Option<NextHop> {
        self.map.insert(prefix, next_hop)
    }

    pub(crate) fn remove(&mut self, prefix: (A, u8)) -> Option<NextHop> {
        self.map.remove(&prefix)
    }

    pub(crate) fn get(&self, prefix: (A, u8)) -> Option<NextHop> {
        self.map.get(&prefix).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((A, u8), NextHop)> {
        self.map.iter().map(|(prefix, next_hop)| (prefix, *next_hop))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.map.mem_size()
    }

    /// Entry for addresses in `prefix` that have no route inside it: the next hop of the longest
    /// route that covers it. It is 0 without such a route, or if that is the default route, which
    /// tables store separately.
    pub(crate) fn covering_entry(&self, prefix: (A, u8)) -> u16 {
        match self.map.get_lpm(&prefix) {
            Some(((_, len), next_hop)) if len > 0 => next_hop.get(),
            _ => 0,
        }
    }

    /// Whether `prefix` contains a longer route.
    pub(crate) fn has_longer(&self, prefix: (A, u8)) -> bool {
        // At most the first one is the prefix itself.
        self.map.children(&prefix).take(2).any(|((_, len), _)| len > prefix.1)
    }

    /// Calls `paint` with first and last address of every range of `prefix` without a longer route,
    /// in ascending order.
    pub(crate) fn for_each_gap(&self, prefix: (A, u8), mut paint: impl FnMut(A, A)) {
        let mut from = prefix.0;
        // Shorter prefixes sort first, so that routes inside a skipped route start before `from`.
        for ((first, len), _) in self.map.children(&prefix) {
            if len == prefix.1 || first < from {
                continue;
            }
            if let Some(to) = first.before()
                && from < first
            {
                paint(from, to);
            }
            match first.last(len).after() {
                Some(next) => from = next,
                None => return,
            }
        }
        let last = prefix.0.last(prefix.1);
        if from <= last {
            paint(from, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_longer_routes() {
        let hop = NextHop::new(1).unwrap();
        let mut routes = Routes::<u32>::new();
        let gaps = |routes: &Routes<u32>, prefix| {
            let mut gaps = vec![];
            routes.for_each_gap(prefix, |first, last| gaps.push((first, last)));
            gaps
        };
        assert_eq!(gaps(&routes, (0, 0)), [(0, u32::MAX)]);
        for prefix in [(0x1000, 24), (0x1000, 25), (0x1100, 24), (0x1204, 32), (0x10ff, 32)] {
            routes.insert(prefix, hop);
        }
        assert_eq!(gaps(&routes, (0, 16)), [(0, 0xfff), (0x1200, 0x1203), (0x1205, 0xffff)]);
        assert_eq!(gaps(&routes, (0x1000, 24)), [(0x1080, 0x10fe)]);
        assert_eq!(gaps(&routes, (0x1204, 32)), [(0x1204, 0x1204)]);
        routes.insert((0xffff_0000, 16), hop);
        routes.insert((0, 1), hop);
        assert_eq!(gaps(&routes, (0, 0)), [(0x8000_0000, 0xfffe_ffff)]);
    }
}
