//! IPv6: a multibit trie with answers pushed to the leaves.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use europa_packet::Ipv6Prefix;
use zerocopy::FromZeros;

use crate::few::{self, Few};
use crate::pages::Pages;
use crate::routes::{Address, Routes};
use crate::{NextHop, RouteTable, TableFull};

/// The root is indexed by this many bits.
const ROOT_BITS: u32 = 24;
const ROOT: usize = 1 << ROOT_BITS;

/// Bits that a node above bit 64 is indexed by. In a full table three such nodes
/// answer a /48; half as many bits make twice the loads and a sixth of the memory.
const UPPER_BITS: u32 = 8;
/// Bits that a node below is indexed by. Routes are few and far between there; a
/// node is one cache line.
const LOWER_BITS: u32 = 4;

/// Says that the other 31 bits of an entry are the place of a node.
const NODE: u32 = 1 << 31;

/// Addresses whose root entries a batch loads before it goes on with any.
const LANES: usize = 32;

/// Longest prefix match for IPv6: by a trie, or, of up to 127 routes, by a short search.
///
/// The first 24 bits of an address index the root, each further 8 bits up to bit
/// 64, then each 4 bits, a node. An entry is a node or the answer, so that a /32
/// takes two loads, a /48 four, a /64 six. The default route is kept beside the
/// trie, as in [`crate::Dir24`].
///
/// A full Internet table (160 thousand routes) takes 38 thousand nodes of 1 KiB,
/// of which look-ups touch 6 MiB. A lone host route far from all others takes
/// 5 KiB + 1 KiB. Room for nodes is reserved with the root; pages that no node has
/// used cost nothing. Before its 128th route a table has none of this, and takes five kilobytes.
///
/// A change costs time in proportion to the entries that its prefix covers and the
/// routes inside it.
pub struct Multibit6 {
    routes: Routes<u128>,
    few: Few<u128>,
    many: Option<Box<Many>>,
}

/// What there is for many routes.
struct Many {
    trie: Trie,
    places: Places,
    /// Of the root. All of the nodes that was ever used is taken.
    pages: Pages,
    node_pages: Pages,
}

/// What look-ups read.
struct Trie {
    root: Box<[AtomicU32; ROOT]>,
    /// Nodes of both sizes.
    nodes: Box<[AtomicU32]>,
    /// Next hop of the default route, 0 for none.
    default: AtomicU16,
}

/// Which places in `Trie::nodes` are in use.
struct Places {
    free_upper: Vec<u32>,
    free_lower: Vec<u32>,
    /// Entries from here on were never used.
    fresh: usize,
    end: usize,
}

/// A node, or the root: where it is and which bits index it.
#[derive(Clone, Copy)]
struct Node {
    place: u32,
    /// Bits before those that index this node.
    depth: u32,
}

impl Node {
    const ROOT: Self = Self { place: 0, depth: 0 };

    /// Number of bits that index this node.
    fn bits(self) -> u32 {
        match self.depth {
            0 => ROOT_BITS,
            1..64 => UPPER_BITS,
            _ => LOWER_BITS,
        }
    }

    /// Bits behind those that index this node.
    fn shift(self) -> u32 {
        128 - self.depth - self.bits()
    }

    /// The node behind this entry of this node, if it is one.
    fn child(self, entry: u32) -> Option<Self> {
        let depth = self.depth + self.bits();
        (entry & NODE != 0).then_some(Self { place: entry & !NODE, depth })
    }
}

impl Places {
    fn free(&mut self, node: Node) -> &mut Vec<u32> {
        if node.bits() == UPPER_BITS { &mut self.free_upper } else { &mut self.free_lower }
    }

    /// A place for a node at `depth`.
    fn take(&mut self, depth: u32) -> Option<Node> {
        let node = Node { place: 0, depth };
        let place = self.free(node).pop().or_else(|| {
            let place = u32::try_from(self.fresh).ok().filter(|place| place & NODE == 0)?;
            let fresh = self.fresh + (1 << node.bits());
            (fresh <= self.end).then(|| {
                self.fresh = fresh;
                place
            })
        })?;
        Some(Node { place, depth })
    }
}

impl Trie {
    /// The entry of `node` for `address`. `None` never happens for a node of this
    /// trie.
    fn entry(&self, node: Node, address: u128) -> Option<&AtomicU32> {
        let slot = (address >> node.shift()) as usize & ((1 << node.bits()) - 1);
        if node.depth == 0 {
            self.root.get(slot)
        } else {
            self.nodes.get(node.place as usize + slot)
        }
    }

    /// Gives all addresses from `first` to `last`, which lie in `node`, this
    /// answer. At the ends there must be nodes down to where an entry is whole.
    fn paint(&self, node: Node, first: u128, last: u128, answer: u16) {
        let shift = node.shift();
        for slot in first >> shift..=last >> shift {
            let start = slot << shift;
            let (from, to) = (first.max(start), last.min(start | ((1 << shift) - 1)));
            let Some(entry) = self.entry(node, start) else { continue };
            match node.child(entry.load(Ordering::Relaxed)) {
                Some(child) => self.paint(child, from, to, answer),
                None => {
                    debug_assert_eq!(from, start, "part of an entry");
                    entry.store(answer.into(), Ordering::Relaxed);
                }
            }
        }
    }

    /// One step down for an entry that is a node: the entry for this slot of it.
    #[inline]
    fn step(&self, entry: u32, slot: usize) -> u32 {
        match self.nodes.get((entry & !NODE) as usize + slot) {
            // Acquire pairs with the publication of a node.
            Some(entry) => entry.load(Ordering::Acquire),
            None => 0,
        }
    }

    #[inline]
    fn root_entry(&self, address: u128) -> u32 {
        self.root[(address >> (128 - ROOT_BITS)) as usize].load(Ordering::Acquire)
    }

    /// The answer for `address` below its root entry: 0 for none.
    #[inline]
    fn answer(&self, mut entry: u32, address: u128) -> u16 {
        // At most five nodes above bit 64 and sixteen below.
        let mut depth = ROOT_BITS;
        let mut upper = ((address >> 64) as u64) << ROOT_BITS;
        while entry & NODE != 0 && depth < 64 {
            entry = self.step(entry, (upper >> (64 - UPPER_BITS)) as usize);
            upper <<= UPPER_BITS;
            depth += UPPER_BITS;
        }
        let mut lower = address as u64;
        while entry & NODE != 0 && depth < 128 {
            entry = self.step(entry, (lower >> (64 - LOWER_BITS)) as usize);
            lower <<= LOWER_BITS;
            depth += LOWER_BITS;
        }
        entry as u16
    }
}

impl Many {
    /// For these routes, with room for so many nodes.
    fn of(routes: &Routes<u128>, nodes: usize) -> Result<Box<Self>, TableFull> {
        let mut many = Box::new(Self::with_capacity(nodes));
        for (prefix, next_hop) in routes.iter() {
            many.add_nodes(routes, prefix)?;
            many.paint(routes, prefix, next_hop.get());
        }
        Ok(many)
    }

    fn with_capacity(nodes: usize) -> Self {
        let root = <[AtomicU32; ROOT]>::new_box_zeroed()
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<[AtomicU32; ROOT]>()));
        // One line more, so that nodes can start where a cache line does: at an
        // allocator's 16 bytes past it, a node of one line would lie in two.
        const LINE: usize = 64 / size_of::<AtomicU32>();
        let length = nodes.saturating_mul(1 << UPPER_BITS).saturating_add(LINE);
        let nodes = <[AtomicU32]>::new_box_zeroed_with_elems(length)
            .unwrap_or_else(|_| panic!("no memory for {nodes} nodes of a route table"));
        let past_line = nodes.as_ptr().addr() % 64 / size_of::<AtomicU32>();
        let fresh = (LINE - past_line) % LINE;
        let places =
            Places { free_upper: vec![], free_lower: vec![], fresh, end: fresh + length - LINE };
        let trie = Trie { root, nodes, default: AtomicU16::new(0) };
        let pages = |entries: usize| Pages::of(entries * size_of::<AtomicU32>());
        Self { trie, places, pages: pages(ROOT), node_pages: pages(length) }
    }

    /// Makes sure that there are nodes down to where `prefix` is made of whole
    /// entries.
    fn add_nodes(
        &mut self,
        routes: &Routes<u128>,
        (address, len): (u128, u8),
    ) -> Result<(), TableFull> {
        let mut node = Node::ROOT;
        while node.depth + node.bits() < u32::from(len) {
            let Some(entry) = self.trie.entry(node, address) else { break };
            let old = entry.load(Ordering::Relaxed);
            node = match node.child(old) {
                Some(child) => child,
                None => {
                    let depth = node.depth + node.bits();
                    let Some(child) = self.places.take(depth) else {
                        self.drop_nodes(routes, (address, len));
                        return Err(TableFull {
                            prefix_bits: len,
                            what: "entries of nodes",
                            capacity: self.trie.nodes.len(),
                        });
                    };
                    let range = child.place as usize..child.place as usize + (1 << child.bits());
                    for inner in self.trie.nodes.get(range.clone()).unwrap_or_default() {
                        inner.store(old, Ordering::Relaxed);
                    }
                    entry.store(NODE | child.place, Ordering::Release);
                    let bytes = size_of::<AtomicU32>();
                    self.node_pages.touch(range.start * bytes, range.end * bytes - 1);
                    if node.depth == 0 {
                        self.touch_root(address, address);
                    }
                    child
                }
            };
        }
        Ok(())
    }

    /// Drops the nodes on the way down to `prefix` in which no longer route lies.
    fn drop_nodes(&mut self, routes: &Routes<u128>, (address, len): (u128, u8)) {
        let mut node = Node::ROOT;
        while node.depth + node.bits() < u32::from(len) {
            let Some(entry) = self.trie.entry(node, address) else { return };
            let Some(child) = node.child(entry.load(Ordering::Relaxed)) else { return };
            let bits = child.depth as u8;
            let block = (address.first(bits), bits);
            if !routes.has_longer(block) {
                entry.store(routes.covering_entry(block).into(), Ordering::Relaxed);
                self.free(child);
                return;
            }
            node = child;
        }
    }

    /// Frees a node that nothing points to, and all below it.
    fn free(&mut self, node: Node) {
        for slot in 0..1 << node.bits() {
            let inner = self.trie.nodes.get(node.place as usize + slot);
            let entry = inner.map_or(0, |inner| inner.load(Ordering::Relaxed));
            if let Some(child) = node.child(entry) {
                self.free(child);
            }
        }
        self.places.free(node).push(node.place);
    }

    fn touch_root(&mut self, first: u128, last: u128) {
        let at = |address: u128| (address >> Node::ROOT.shift()) as usize * size_of::<AtomicU32>();
        self.pages.touch(at(first), at(last));
    }

    fn paint(&mut self, routes: &Routes<u128>, prefix: (u128, u8), answer: u16) {
        if prefix.1 == 0 {
            self.trie.default.store(answer, Ordering::Relaxed);
            return;
        }
        routes.for_each_gap(prefix, |first, last| {
            self.trie.paint(Node::ROOT, first, last, answer);
            if u32::from(prefix.1) <= ROOT_BITS {
                self.touch_root(first, last);
            }
        });
    }
}

impl Multibit6 {
    /// An empty table that will have room for [`Self::DEFAULT_CAPACITY`] nodes.
    pub fn new() -> Self {
        Self { routes: Routes::new(), few: Few::new(), many: None }
    }

    /// Room for nodes that tables reserve when they become large: 64 MiB.
    pub const DEFAULT_CAPACITY: usize = 1 << 16;

    /// An empty table that has its arrays already, with room for this many nodes of 1 KiB; above
    /// bit 64 a node takes one, below a sixteenth.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn with_capacity(nodes: usize) -> Self {
        let many = Box::new(Many::with_capacity(nodes));
        Self { routes: Routes::new(), few: Few::new(), many: Some(many) }
    }
}

impl Default for Multibit6 {
    fn default() -> Self {
        Self::new()
    }
}

fn pair(prefix: Ipv6Prefix) -> (u128, u8) {
    (prefix.addr().into(), prefix.prefix_len())
}

impl RouteTable for Multibit6 {
    type Address = u128;
    type Prefix = Ipv6Prefix;

    fn insert(
        &mut self,
        prefix: Ipv6Prefix,
        next_hop: NextHop,
    ) -> Result<Option<NextHop>, TableFull> {
        let prefix = pair(prefix);
        if let Some(many) = &mut self.many {
            many.add_nodes(&self.routes, prefix)?;
        }
        let old = self.routes.insert(prefix, next_hop);
        if old == Some(next_hop) {
            return Ok(old);
        }
        match &mut self.many {
            Some(many) => many.paint(&self.routes, prefix, next_hop.get()),
            None if self.routes.len() <= few::MOST => self.few.renew(&self.routes),
            None => {
                let many = Many::of(&self.routes, Self::DEFAULT_CAPACITY).inspect_err(|_| {
                    self.routes.remove(prefix);
                })?;
                self.many = Some(many);
            }
        }
        Ok(old)
    }

    fn remove(&mut self, prefix: Ipv6Prefix) -> Option<NextHop> {
        let prefix = pair(prefix);
        let old = self.routes.remove(prefix)?;
        let Some(many) = &mut self.many else {
            self.few.renew(&self.routes);
            return Some(old);
        };
        many.paint(&self.routes, prefix, self.routes.covering_entry(prefix));
        many.drop_nodes(&self.routes, prefix);
        Some(old)
    }

    fn get(&self, prefix: Ipv6Prefix) -> Option<NextHop> {
        self.routes.get(pair(prefix))
    }

    #[inline]
    fn lookup(&self, address: u128) -> Option<NextHop> {
        let Some(many) = &self.many else { return NextHop::from_entry(self.few.entry(address)) };
        let trie = &many.trie;
        let entry = trie.answer(trie.root_entry(address), address);
        let default = trie.default.load(Ordering::Relaxed);
        NextHop::from_entry(if entry == 0 { default } else { entry })
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u128], next_hops: &mut [u16]) {
        let Some(many) = &self.many else { return self.few.entries(addresses, next_hops) };
        let trie = &many.trie;
        let default = trie.default.load(Ordering::Relaxed);
        let batches = addresses.chunks(LANES).zip(next_hops.chunks_mut(LANES));
        for (addresses, next_hops) in batches {
            // All loads of the root before any use of one, so that their misses
            // overlap whatever the branches below guess.
            let mut entries = [0; LANES];
            for (entry, &address) in entries.iter_mut().zip(addresses) {
                *entry = trie.root_entry(address);
            }
            for ((next_hop, &address), &entry) in next_hops.iter_mut().zip(addresses).zip(&entries)
            {
                let entry = trie.answer(entry, address);
                *next_hop = if entry == 0 { default } else { entry };
            }
        }
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn iter(&self) -> impl Iterator<Item = (Ipv6Prefix, NextHop)> {
        self.routes.iter().filter_map(|((address, len), next_hop)| {
            Some((Ipv6Prefix::new(address.into(), len).ok()?, next_hop))
        })
    }

    fn memory_bytes(&self) -> usize {
        let many = self.many.as_ref();
        let many = many.map_or(0, |many| many.pages.bytes() + many.node_pages.bytes());
        many + Few::<u128>::memory_bytes() + self.routes.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(number: u16) -> NextHop {
        NextHop::new(number).unwrap()
    }

    fn prefix(text: &str) -> Ipv6Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn a_full_table_says_so_and_keeps_its_answers() {
        // Room for three nodes above bit 64: one /48, and no way to a /56.
        let mut table = Multibit6::with_capacity(3);
        let address = prefix("2001:db8::/128").addr().into();
        table.insert(prefix("2001:db8::/32"), hop(1)).unwrap();
        table.insert(prefix("2001:db8::/48"), hop(2)).unwrap();
        for full in ["2001:db8::/49", "2001:db9::/48", "3000::/128"] {
            let error = table.insert(prefix(full), hop(3)).unwrap_err();
            assert_eq!(error.prefix_bits, prefix(full).prefix_len());
            assert_eq!((table.len(), table.get(prefix(full))), (2, None));
            assert_eq!(table.lookup(address), Some(hop(2)));
            assert_eq!(table.lookup(0x3000 << 112), None);
        }
        // What a route leaves, another can have.
        table.remove(prefix("2001:db8::/48")).unwrap();
        assert_eq!(table.lookup(address), Some(hop(1)));
        table.insert(prefix("3000:0:100::/40"), hop(3)).unwrap();
        assert_eq!(table.lookup(0x3000_0000_0100 << 80), Some(hop(3)));
        assert_eq!(table.lookup(0x3000_0000_0200 << 80), None);
        table.remove(prefix("2001:db8::/32")).unwrap();
        table.remove(prefix("3000:0:100::/40")).unwrap();
        assert_eq!(table.many.unwrap().places.free_upper.len(), 3);
    }
}
