//! IPv6: a multibit trie with answers pushed to the leaves.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use zerocopy::FromZeros;

use crate::TableFull;
use crate::default_route::DefaultRoute;
use crate::grace::{Free, Readers};
use crate::pages::Pages;
use crate::routes::{Address, Routes};
use crate::table::{Arrays, Entries, Table};

/// The root is indexed by this many bits.
const ROOT_BITS: u32 = 24;
const ROOT: usize = 1 << ROOT_BITS;

/// Index bits of a node above bit 64. In a full table a /48 is found by three such nodes. Half as
/// many bits would need twice the loads and a sixth of the memory.
const UPPER_BITS: u32 = 8;
/// Index bits of a node below bit 64. Routes are sparse there; a node is one cache line.
const LOWER_BITS: u32 = 4;

/// Flag: the other 31 bits of an entry are the index of a node.
const NODE: u32 = 1 << 31;

/// Number of addresses whose root entries a batch loads before it continues with them.
const LANES: usize = 32;

/// Longest prefix match for IPv6: a trie; with up to 127 routes, a short search.
///
/// The first 24 bits of an address index the root. Up to bit 64, each further 8 bits index a node;
/// after that, each 4 bits do. An entry is a node or the answer, so a /32 needs two loads, a /48
/// four, a /64 six. The default route is stored separately, as in [`crate::Dir24`].
///
/// A full Internet table (160 thousand routes) needs 38 thousand nodes of 1 KiB; look-ups touch 6
/// MiB of them. A single host route far from all others needs 5 KiB + 1 KiB. Room for nodes is
/// reserved with the root; pages that no node has used cost nothing. A table that has never had
/// more than 127 routes has none of this, and takes five kilobytes.
///
/// A change costs time in proportion to the entries that its prefix covers and the routes inside
/// it.
pub type Multibit6 = Table<Many>;

/// The storage for many routes.
pub struct Many {
    trie: Arc<Trie>,
    places: Places,
    /// Pages of the root. For nodes, all memory that was ever used counts.
    pages: Pages,
    node_pages: Pages,
}

/// The data that look-ups read.
pub struct Trie {
    root: Box<[AtomicU32; ROOT]>,
    /// Nodes of both sizes.
    nodes: Box<[AtomicU32]>,
    default: DefaultRoute,
}

/// The places in `Trie::nodes` that are in use.
struct Places {
    free_upper: Free<u32>,
    free_lower: Free<u32>,
    /// Entries with this index or a higher one were never used.
    fresh: usize,
    end: usize,
}

/// A node, or the root: its place, and the bits that index it.
#[derive(Clone, Copy)]
struct Node {
    place: u32,
    /// Bits before the index bits of this node.
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

    /// Bits after the index bits of this node.
    fn shift(self) -> u32 {
        128 - self.depth - self.bits()
    }

    /// The node behind this entry of this node; `None` if the entry is an answer.
    fn child(self, entry: u32) -> Option<Self> {
        let depth = self.depth + self.bits();
        (entry & NODE != 0).then_some(Self { place: entry & !NODE, depth })
    }
}

impl Places {
    fn between(fresh: usize, end: usize) -> Self {
        Self { free_upper: Free::new(), free_lower: Free::new(), fresh, end }
    }

    fn free(&mut self, node: Node) -> &mut Free<u32> {
        if node.bits() == UPPER_BITS { &mut self.free_upper } else { &mut self.free_lower }
    }

    /// A place for a node at `depth`.
    fn take(&mut self, depth: u32, readers: &mut Readers) -> Option<Node> {
        let node = Node { place: 0, depth };
        let place = self.free(node).take(readers).or_else(|| {
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
    /// The entry of `node` for `address`. `None` is impossible for a node of this trie.
    fn entry(&self, node: Node, address: u128) -> Option<&AtomicU32> {
        let slot = (address >> node.shift()) as usize & ((1 << node.bits()) - 1);
        if node.depth == 0 {
            self.root.get(slot)
        } else {
            self.nodes.get(node.place as usize + slot)
        }
    }

    /// Gives all addresses from `first` to `last`, which lie in `node`, this answer. At both ends,
    /// nodes must exist down to the level at which an entry lies entirely inside.
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

    /// One step down from an entry that is a node: returns the node's entry with index `slot`.
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

    /// The answer for `address` below its root entry; 0 if none.
    #[inline]
    fn answer(&self, mut entry: u32, address: u128) -> u16 {
        // There are at most five nodes above bit 64 and sixteen below.
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

impl Entries for Trie {
    type Address = u128;

    #[inline]
    fn found(&self, address: u128) -> u16 {
        self.answer(self.root_entry(address), address)
    }

    #[inline]
    fn entries(&self, addresses: &[u128], next_hops: &mut [u16]) {
        let default = self.default.hop();
        let batches = addresses.chunks(LANES).zip(next_hops.chunks_mut(LANES));
        for (addresses, next_hops) in batches {
            // All loads of the root come before any use of one. So their misses overlap even if
            // branches below are mispredicted.
            let mut entries = [0; LANES];
            for (entry, &address) in entries.iter_mut().zip(addresses) {
                *entry = self.root_entry(address);
            }
            for ((next_hop, &address), &entry) in next_hops.iter_mut().zip(addresses).zip(&entries)
            {
                let entry = self.answer(entry, address);
                *next_hop = if entry == 0 { default } else { entry };
            }
        }
    }

    fn default(&self) -> &DefaultRoute {
        &self.default
    }
}

impl Many {
    fn with_capacity(nodes: usize) -> Self {
        let root = <[AtomicU32; ROOT]>::new_box_zeroed()
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<[AtomicU32; ROOT]>()));
        // One extra line, so that nodes can start at a cache line: an allocator aligns to 16 bytes,
        // and then a node of one line would cross two.
        const LINE: usize = 64 / size_of::<AtomicU32>();
        let length = nodes.saturating_mul(1 << UPPER_BITS).saturating_add(LINE);
        let nodes = <[AtomicU32]>::new_box_zeroed_with_elems(length)
            .unwrap_or_else(|_| panic!("no memory for {nodes} nodes of a route table"));
        let past_line = nodes.as_ptr().addr() % 64 / size_of::<AtomicU32>();
        let fresh = (LINE - past_line) % LINE;
        let places = Places::between(fresh, fresh + length - LINE);
        let trie = Arc::new(Trie { root, nodes, default: DefaultRoute::none() });
        let pages = |entries: usize| Pages::of(entries * size_of::<AtomicU32>());
        Self { trie, places, pages: pages(ROOT), node_pages: pages(length) }
    }

    /// Frees a node without references, and all nodes below it.
    fn free(&mut self, node: Node, readers: &mut Readers) {
        for slot in 0..1 << node.bits() {
            let inner = self.trie.nodes.get(node.place as usize + slot);
            let entry = inner.map_or(0, |inner| inner.load(Ordering::Relaxed));
            if let Some(child) = node.child(entry) {
                self.free(child, readers);
            }
        }
        self.places.free(node).put(node.place, readers);
    }

    fn touch_root(&mut self, first: u128, last: u128) {
        let at = |address: u128| (address >> Node::ROOT.shift()) as usize * size_of::<AtomicU32>();
        self.pages.touch(at(first), at(last));
    }
}

impl Arrays for Many {
    type Address = u128;
    type Entries = Trie;

    fn new() -> Self {
        Self::with_capacity(Multibit6::DEFAULT_CAPACITY)
    }

    #[inline(always)]
    fn entries(&self) -> &Arc<Trie> {
        &self.trie
    }

    /// Adds nodes down to the level where `prefix` consists of whole entries.
    fn make_way(
        &mut self,
        routes: &Routes<u128>,
        (address, len): (u128, u8),
        readers: &mut Readers,
    ) -> Result<(), TableFull> {
        let mut node = Node::ROOT;
        while node.depth + node.bits() < u32::from(len) {
            let Some(entry) = self.trie.entry(node, address) else { break };
            let old = entry.load(Ordering::Relaxed);
            node = match node.child(old) {
                Some(child) => child,
                None => {
                    let depth = node.depth + node.bits();
                    let Some(child) = self.places.take(depth, readers) else {
                        self.clear_way(routes, (address, len), readers);
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

    /// Frees the nodes on the path to `prefix` that contain no longer route.
    fn clear_way(
        &mut self,
        routes: &Routes<u128>,
        (address, len): (u128, u8),
        readers: &mut Readers,
    ) {
        let mut node = Node::ROOT;
        while node.depth + node.bits() < u32::from(len) {
            let Some(entry) = self.trie.entry(node, address) else { return };
            let Some(child) = node.child(entry.load(Ordering::Relaxed)) else { return };
            let bits = child.depth as u8;
            let block = (address.first(bits), bits);
            if !routes.has_longer(block) {
                entry.store(routes.covering_entry(block).into(), Ordering::Relaxed);
                self.free(child, readers);
                return;
            }
            node = child;
        }
    }

    fn paint(&mut self, routes: &Routes<u128>, prefix: (u128, u8), answer: u16) {
        if prefix.1 == 0 {
            self.trie.default.set(answer);
            return;
        }
        routes.for_each_gap(prefix, |first, last| {
            self.trie.paint(Node::ROOT, first, last, answer);
            if u32::from(prefix.1) <= ROOT_BITS {
                self.touch_root(first, last);
            }
        });
    }

    fn memory_bytes(&self) -> usize {
        self.pages.bytes() + self.node_pages.bytes()
    }
}

impl Multibit6 {
    /// Room for nodes that tables reserve when they become large: 64 MiB.
    pub const DEFAULT_CAPACITY: usize = 1 << 16;

    /// An empty table with its arrays and room for this many nodes of 1 KiB. A node above bit 64
    /// needs one; a node below it needs a sixteenth.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn with_capacity(nodes: usize) -> Self {
        Self::with(Some(Many::with_capacity(nodes)))
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::Ipv6Prefix;

    use super::*;
    use crate::{NextHop, RouteTable};

    fn hop(number: u16) -> NextHop {
        NextHop::new(number).unwrap()
    }

    fn prefix(text: &str) -> Ipv6Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn a_full_table_says_so_and_keeps_its_answers() {
        // Room for three nodes above bit 64: enough for a /48, too little for a /56.
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
        // Another route can use the room of a removed one.
        table.remove(prefix("2001:db8::/48")).unwrap();
        assert_eq!(table.lookup(address), Some(hop(1)));
        table.insert(prefix("3000:0:100::/40"), hop(3)).unwrap();
        assert_eq!(table.lookup(0x3000_0000_0100 << 80), Some(hop(3)));
        assert_eq!(table.lookup(0x3000_0000_0200 << 80), None);
        table.remove(prefix("2001:db8::/32")).unwrap();
        table.remove(prefix("3000:0:100::/40")).unwrap();
        assert_eq!(table.many.unwrap().places.free_upper.ready(), 3);
    }
}
