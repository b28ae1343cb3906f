//! A packet arrives.

use std::sync::atomic::AtomicU64;

use crate::account::{count_drop, leaves, publish};
use crate::entries::{LONGEST, Taken};
use crate::node::{Amount, HEAD, Level, NONE, Nodes, RED, ROOT};
use crate::red::Verdict;
use crate::statistics::{Cause, PEAK, WAITING, hot, set};
use crate::tree::{Id, PolicyState, Tree};

/// Number of nodes that, with their counters, fit into the first two cache levels.
const NEAR: usize = 512;
/// Number of packets ahead for which the switch calls [`Tree::prefetch_end`].
const SOON: usize = 4;

impl<T: Copy, S: AsRef<[AtomicU64]>> Tree<T, S> {
    /// Puts a packet of `length` bytes into a queue; `ecn` means that its flow supports marks (RFC
    /// 3168: ECT or CE). Returns whether it waits; `dropped` gets the dropped packets, this one or
    /// others. Times must not decrease.
    #[inline]
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        queue: Id,
        packet: T,
        length: u32,
        ecn: bool,
        mut dropped: impl FnMut(T, Cause),
    ) -> bool {
        let now_ns = self.advance(now_ns);
        let length = length.min(LONGEST);
        let found = self.find(queue).filter(|node| self.nodes.at(*node).level == Level::Queue);
        let Some(queue) = found else {
            dropped(packet, Cause::Gone);
            return false;
        };
        let mut mark = false;
        if self.nodes.at(queue).flags & RED != 0 {
            let bytes = self.nodes.at(queue).waiting.bytes();
            if let PolicyState::Red(red) = &mut self.policies[queue as usize] {
                match red.judge(now_ns, bytes.into(), ecn) {
                    Verdict::Pass => (),
                    Verdict::Mark => mark = true,
                    Verdict::Drop => {
                        count_drop(&self.nodes, self.words.as_ref(), queue, Cause::Early, length);
                        dropped(packet, Cause::Early);
                        return false;
                    }
                }
            }
        }
        if let Some(cause) = self.refusal(queue, length)
            && let Some(cause) = self.make_room(queue, length, cause, &mut dropped)
        {
            count_drop(&self.nodes, self.words.as_ref(), queue, cause, length);
            dropped(packet, cause);
            return false;
        }
        let was_empty = !self.nodes.at(queue).has_work();
        let new = Taken { packet, since_ns: now_ns, length, ecn, mark };
        self.entries.push(self.nodes.at_mut(queue), new);
        let waiting = self.nodes.at(queue).waiting;
        set(&hot(self.words.as_ref())[queue as usize][WAITING], waiting.0);
        if was_empty {
            self.standing().activate(queue);
        }
        true
    }

    /// Whether the nodes exceed the nearest caches, so that prefetching is worth its cost.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.nodes.len() > NEAR
    }

    /// Prefetches the memory that [`Self::enqueue`] uses, for a caller that knows some packets
    /// ahead.
    #[inline]
    pub fn prefetch(&self, queue: Id) {
        let index = queue.index();
        if let Some(node) = self.nodes.get(index as usize) {
            europa_pool::prefetch(node);
            europa_pool::prefetch(&hot(self.words.as_ref())[index as usize]);
        }
    }

    /// Prefetches the rest of that memory, whose address depends on the first part. Call it for
    /// fewer packets ahead.
    #[inline]
    pub fn prefetch_end(&self, queue: Id) {
        if let Some(node) = self.nodes.get(queue.index() as usize) {
            self.entries.prefetch(node.second);
            if !node.has_work()
                && let Some(order) = self.orders.get(node.parent as usize)
            {
                order.fetch_end();
            }
        }
        self.entries.prefetch_free(SOON);
    }

    /// The reason why a packet may not wait in a queue; `None` if it may. Then it is counted in the
    /// classes above.
    #[inline]
    fn refusal(&mut self, queue: u32, length: u32) -> Option<Cause> {
        let node = self.nodes.at(queue);
        if node.is_full(length) {
            let bytes = node.is_full_of_bytes(length);
            return Some(if bytes { Cause::Bytes } else { Cause::Packets });
        }
        if !self.entries.has_room() {
            return Some(Cause::Room);
        }
        let parent = node.parent;
        if self.has_limits {
            return self.refusal_above(parent, length);
        }
        if self.nodes.at(ROOT).is_full(length) {
            return Some(Cause::Room);
        }
        let mut class = parent;
        while class != NONE {
            let node = self.nodes.at_mut(class);
            node.waiting.add(Amount::of(1, length));
            class = node.parent;
        }
        None
    }

    /// The same check for classes that have limits.
    #[inline(never)]
    fn refusal_above(&mut self, parent: u32, length: u32) -> Option<Cause> {
        let mut class = parent;
        while class != NONE {
            let node = self.nodes.at_mut(class);
            if node.is_full(length) {
                self.give_back(parent, class, length);
                return Some(if class == ROOT { Cause::Room } else { Cause::Share });
            }
            node.waiting.add(Amount::of(1, length));
            class = node.parent;
        }
        None
    }

    /// The packet is not one of these classes'.
    #[cold]
    fn give_back(&mut self, mut class: u32, end: u32, length: u32) {
        while class != end {
            let node = self.nodes.at_mut(class);
            node.waiting.take(Amount::of(1, length));
            class = node.parent;
        }
    }

    /// If the policy is to drop from the head, makes room. Returns the cause if there is still no
    /// room.
    #[cold]
    fn make_room(
        &mut self,
        queue: u32,
        length: u32,
        cause: Cause,
        dropped: &mut impl FnMut(T, Cause),
    ) -> Option<Cause> {
        let node = self.nodes.at(queue);
        let fits = length <= node.byte_limit && node.packet_limit > 0;
        if node.flags & HEAD == 0 || !fits {
            return Some(cause);
        }
        let parent = node.parent;
        let node = self.nodes.at_mut(queue);
        if node.note_peak() {
            set(&hot(self.words.as_ref())[queue as usize][PEAK], node.peak());
        }
        let mut refusal = Some(cause);
        while let Some(cause) = refusal {
            let Some(taken) = self.entries.pop(self.nodes.at_mut(queue)) else { break };
            leaves(&mut self.nodes, self.words.as_ref(), parent, taken.length);
            count_drop(&self.nodes, self.words.as_ref(), queue, cause, taken.length);
            dropped(taken.packet, cause);
            refusal = self.refusal(queue, length);
        }
        if refusal.is_some() {
            // This queue is empty now, and other queues of the class use the room.
            publish(&self.nodes, self.words.as_ref(), queue);
            self.standing().quiet(queue);
        }
        // If the queue was in its parent's list, it stays there: it is about to have work again.
        refusal
    }
}
