//! The order in which a class's children joined its list. With it the tree knows the next children
//! without following the list, where each step might wait for memory.
//!
//! It is a hint: it may name a child that has left the list since. Only prefetching depends on it.

use crate::node::Node;

/// With fewer children, turns are so rare in large trees that prefetched memory has left the cache
/// by then. The order would cost more than it saves.
const MANY: u32 = 64;

/// The order of one class. Small trees have none.
#[derive(Default)]
pub(crate) struct Order {
    /// A power of two, at least the number of children.
    ring: Vec<u32>,
    /// Number of children that have joined so far.
    tail: u32,
}

impl Order {
    /// Makes room for `children` children.
    pub(crate) fn reserve(&mut self, children: u32) {
        let wanted = children.next_power_of_two() as usize;
        if children >= MANY && wanted > self.ring.len() {
            self.ring.resize(wanted, 0);
        }
    }

    #[inline]
    fn slot(&self, place: u32) -> usize {
        place as usize & self.ring.len().wrapping_sub(1)
    }

    /// Appends a node if `goes` is set. There is no branch, because packet lengths are random.
    #[inline]
    pub(crate) fn append(&mut self, index: u32, node: &mut Node, goes: bool) {
        let slot = self.slot(self.tail);
        if let Some(slot) = self.ring.get_mut(slot) {
            *slot = index;
            node.place = if goes { self.tail } else { node.place };
            self.tail = self.tail.wrapping_add(goes.into());
        }
    }

    /// The node `places` places after this one; `None` if it does not exist or is unknown.
    #[inline]
    pub(crate) fn behind(&self, node: &Node, places: u32) -> Option<u32> {
        let is_there = self.tail.wrapping_sub(node.place) > places;
        is_there.then(|| self.ring.get(self.slot(node.place.wrapping_add(places))).copied())?
    }

    /// The same, if `behind` has already named a node at least as many places behind.
    #[inline]
    pub(crate) fn at(&self, node: &Node, places: u32) -> u32 {
        self.ring[self.slot(node.place.wrapping_add(places))]
    }

    /// Prefetches the order.
    #[inline]
    pub(crate) fn fetch(&self, node: &Node, places: u32) {
        if let Some(slot) = self.ring.get(self.slot(node.place.wrapping_add(places))) {
            europa_pool::prefetch(slot);
        }
    }

    /// Prefetches the place at the end of the order.
    #[inline]
    pub(crate) fn fetch_end(&self) {
        if let Some(slot) = self.ring.get(self.slot(self.tail)) {
            europa_pool::prefetch(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Level;

    #[test]
    fn who_comes_later_stands_behind_and_nobody_behind_the_last() {
        let mut order = Order::default();
        let mut nodes: Vec<Node> = (0..100).map(|_| Node::new(Level::Queue)).collect();
        order.reserve(MANY - 1);
        order.append(1, &mut nodes[1], true);
        assert_eq!(order.behind(&nodes[1], 0), None, "few need no order");
        order.reserve(100);
        for round in 0..5 {
            for (index, node) in (0..).zip(&mut nodes) {
                order.append(index, node, false);
                order.append(index, node, true);
                assert_eq!(order.behind(node, 0), Some(index));
                assert_eq!(order.behind(node, 1), None, "{round}");
            }
            for (index, node) in nodes.iter().enumerate() {
                let behind = Some(index as u32 + 8).filter(|behind| *behind < 100);
                assert_eq!(order.behind(node, 8), behind, "{round}");
                behind.into_iter().for_each(|behind| assert_eq!(order.at(node, 8), behind));
            }
        }
    }
}
