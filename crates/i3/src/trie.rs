//! A trie over the last 64 bits of ids with the same prefix: the longest common prefix wins.
//!
//! Paths are compressed. Each node stores the smallest number of bits that an item below it needs,
//! so a search skips a subtree without matching items. A search visits 128 nodes at most.

use crate::id::LEAST_PREFIX_BITS;

/// A type that needs a number of common bits.
pub(crate) trait Needs {
    /// Number of common bits that the item needs, 192 to 256.
    fn needed_bits(&self) -> u16;
}

/// All items with one id.
#[derive(Clone, Debug)]
pub(crate) struct Leaf<T> {
    pub(crate) suffix: u64,
    pub(crate) items: Vec<T>,
    least: u16,
}

#[derive(Clone, Debug)]
enum Node<T> {
    Leaf(Leaf<T>),
    Fork {
        /// Number of first bits that all suffixes below have in common.
        bits: u32,
        /// The suffix of any item below; its first bits are the path.
        path: u64,
        least: u16,
        /// Children whose next bit is 0, and 1.
        below: [Box<Node<T>>; 2],
    },
}

/// Items by the last 64 bits of their ids.
#[derive(Clone, Debug)]
pub(crate) struct Trie<T> {
    root: Option<Box<Node<T>>>,
}

impl<T> Default for Trie<T> {
    fn default() -> Trie<T> {
        Trie { root: None }
    }
}

fn common(a: u64, b: u64) -> u32 {
    (a ^ b).leading_zeros()
}

/// The bit after `after` bits.
fn bit(suffix: u64, after: u32) -> usize {
    usize::from(suffix.checked_shr(63 - after.min(63)).unwrap_or(0) & 1 == 1)
}

/// Number of common bits of whole ids, from the common bits of their suffixes.
fn whole(suffix_bits: u32) -> u16 {
    LEAST_PREFIX_BITS + u16::try_from(suffix_bits).unwrap_or(64)
}

impl<T: Needs> Trie<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Finds the leaf that shares most bits with a suffix, among those that need no more bits, and
    /// the number of common bits of the whole id. If there are several, it is the one nearest to
    /// the suffix.
    pub(crate) fn longest(&self, suffix: u64) -> Option<(&Leaf<T>, u16)> {
        let leaf = find(self.root.as_deref()?, suffix)?;
        Some((leaf, whole(common(leaf.suffix, suffix))))
    }

    /// The items of exactly this suffix.
    #[cfg(test)]
    pub(crate) fn exact(&self, suffix: u64) -> Option<&Leaf<T>> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf.suffix == suffix).then_some(leaf),
                Node::Fork { bits, below, .. } => node = &below[bit(suffix, *bits)],
            }
        }
    }

    /// Changes the items of a suffix; the list may be empty before or after.
    pub(crate) fn change<R>(&mut self, suffix: u64, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let root = self.root.take();
        let (root, result) = edit(root, suffix, change);
        self.root = root;
        result
    }

    /// Calls `each` for all leaves.
    pub(crate) fn visit<'a>(&'a self, each: &mut impl FnMut(&'a Leaf<T>)) {
        let mut left: Vec<&Node<T>> = self.root.as_deref().into_iter().collect();
        while let Some(node) = left.pop() {
            match node {
                Node::Leaf(leaf) => each(leaf),
                Node::Fork { below, .. } => left.extend(below.iter().map(|one| &**one)),
            }
        }
    }
}

fn find<T>(node: &Node<T>, suffix: u64) -> Option<&Leaf<T>> {
    match node {
        Node::Leaf(leaf) => any(node, whole(common(leaf.suffix, suffix)), suffix),
        Node::Fork { bits, path, below, .. } => {
            let agreed = common(*path, suffix);
            if agreed < *bits {
                return any(node, whole(agreed), suffix);
            }
            let near = bit(suffix, *bits);
            // All items on the other side share exactly `bits` bits.
            find(&below[near], suffix).or_else(|| any(&below[1 - near], whole(*bits), suffix))
        }
    }
}

/// A leaf that needs at most `bits` bits.
fn any<T>(mut node: &Node<T>, bits: u16, suffix: u64) -> Option<&Leaf<T>> {
    if node.least() > bits {
        return None;
    }
    loop {
        match node {
            Node::Leaf(leaf) => return Some(leaf),
            Node::Fork { bits: after, below, .. } => {
                let near = bit(suffix, *after);
                let side = if below[near].least() <= bits { near } else { 1 - near };
                node = &below[side];
            }
        }
    }
}

impl<T> Node<T> {
    fn least(&self) -> u16 {
        match self {
            Node::Leaf(leaf) => leaf.least,
            Node::Fork { least, .. } => *least,
        }
    }

    fn path(&self) -> (u64, u32) {
        match self {
            Node::Leaf(leaf) => (leaf.suffix, 64),
            Node::Fork { path, bits, .. } => (*path, *bits),
        }
    }
}

type Changed<T, R> = (Option<Box<Node<T>>>, R);

fn edit<T: Needs, R>(
    node: Option<Box<Node<T>>>,
    suffix: u64,
    change: impl FnOnce(&mut Vec<T>) -> R,
) -> Changed<T, R> {
    let Some(mut node) = node else { return leaf(suffix, Vec::new(), change) };
    let (path, bits) = node.path();
    let agreed = common(path, suffix);
    if agreed < bits {
        let (new, result) = leaf(suffix, Vec::new(), change);
        let joined = match new {
            Some(new) => fork(agreed, suffix, new, node),
            None => node,
        };
        return (Some(joined), result);
    }
    match *node {
        Node::Leaf(Leaf { items, .. }) => leaf(suffix, items, change),
        Node::Fork { ref mut below, .. } => {
            let side = bit(suffix, bits);
            // An empty leaf replaces the child during the change, which needs one allocation.
            let empty = Box::new(Node::Leaf(Leaf { suffix, items: Vec::new(), least: u16::MAX }));
            let child = std::mem::replace(&mut below[side], empty);
            let (child, result) = edit(Some(child), suffix, change);
            let Node::Fork { below, .. } = *node else { return (None, result) };
            let [zero, one] = below;
            let other = if side == 0 { one } else { zero };
            let joined = match child {
                Some(child) => fork(bits, suffix, child, other),
                None => other,
            };
            (Some(joined), result)
        }
    }
}

fn leaf<T: Needs, R>(
    suffix: u64,
    mut items: Vec<T>,
    change: impl FnOnce(&mut Vec<T>) -> R,
) -> Changed<T, R> {
    let result = change(&mut items);
    let least = items.iter().map(Needs::needed_bits).min();
    (least.map(|least| Box::new(Node::Leaf(Leaf { suffix, items, least }))), result)
}

/// Joins two nodes that have `bits` bits in common; `own` is on the side of `path`.
fn fork<T>(bits: u32, path: u64, own: Box<Node<T>>, other: Box<Node<T>>) -> Box<Node<T>> {
    let least = own.least().min(other.least());
    let below = if bit(path, bits) == 0 { [own, other] } else { [other, own] };
    Box::new(Node::Fork { bits, path, least, below })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Needs for (u16, u32) {
        fn needed_bits(&self) -> u16 {
            self.0
        }
    }

    proptest! {
        /// Suffixes differ in few bits, so that paths meet.
        #[test]
        fn like_looking_at_all(
            steps in proptest::collection::vec((0_u64..16, 0_u32..61, 192_u16..=256, 0_u32..4), 1..60),
            asked in proptest::collection::vec((0_u64..16, 0_u32..61), 1..20),
        ) {
            let mut trie = Trie::default();
            let mut all: BTreeMap<u64, Vec<(u16, u32)>> = BTreeMap::new();
            for (bits, shift, needed, kind) in steps {
                let suffix = bits << shift;
                let change = |items: &mut Vec<(u16, u32)>| match kind {
                    0 => items.clear(),
                    _ => items.push((needed, kind)),
                };
                trie.change(suffix, change);
                change(all.entry(suffix).or_default());
                all.retain(|_, items| !items.is_empty());
            }
            prop_assert_eq!(trie.is_empty(), all.is_empty());
            let mut seen = 0;
            trie.visit(&mut |leaf| seen += leaf.items.len());
            prop_assert_eq!(seen, all.values().map(Vec::len).sum::<usize>());
            for (bits, shift) in asked {
                let suffix = bits << shift;
                prop_assert_eq!(trie.exact(suffix).map(|leaf| &leaf.items), all.get(&suffix));
                let takes = |(own, items): (&u64, &Vec<(u16, u32)>)| {
                    let bits = whole(common(*own, suffix));
                    items.iter().any(|item| item.0 <= bits).then_some(bits)
                };
                let wanted = all.iter().filter_map(takes).max();
                let found = trie.longest(suffix);
                prop_assert_eq!(found.map(|(_, bits)| bits), wanted);
                if let Some((leaf, bits)) = found {
                    prop_assert_eq!(Some(&leaf.items), all.get(&leaf.suffix));
                    prop_assert!(leaf.items.iter().any(|item| item.0 <= bits));
                }
            }
        }
    }
}
