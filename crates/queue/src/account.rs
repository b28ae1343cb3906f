//! The counts of a queue's packets in the classes above it.

use std::sync::atomic::AtomicU64;

use crate::node::{Amount, NONE, Node, Nodes};
use crate::statistics::{Cause, Counters, PEAK, WAITING, set};

/// Increments a counter of a node and of all nodes above it.
pub(crate) fn count_up(
    nodes: &[Node],
    words: &[AtomicU64],
    mut node: u32,
    count: impl Fn(Counters<'_>),
) {
    while node != NONE {
        count(Counters { words, node: node as usize });
        node = nodes.at(node).parent;
    }
}

#[cold]
pub(crate) fn count_drop(
    nodes: &[Node],
    words: &[AtomicU64],
    queue: u32,
    cause: Cause,
    bytes: u32,
) {
    count_up(nodes, words, queue, |counters| counters.dropped(cause, bytes));
}

/// Writes the queue length into a node's statistics.
#[inline]
pub(crate) fn publish(nodes: &[Node], words: &[AtomicU64], node: u32) {
    let hot = Counters { words, node: node as usize }.hot();
    let node = nodes.at(node);
    set(&hot[WAITING], node.waiting.0);
    set(&hot[PEAK], node.peak());
}

/// Counts a packet that has left a queue, in this class and all classes above it.
pub(crate) fn leaves(nodes: &mut [Node], words: &[AtomicU64], mut class: u32, bytes: u32) {
    while class != NONE {
        let node = nodes.at_mut(class);
        node.note_peak();
        node.waiting.take(Amount::of(1, bytes));
        let parent = node.parent;
        publish(nodes, words, class);
        class = parent;
    }
}
