//! Finds whose turn it is, level by level, and takes its packets.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

use crate::account::{count_drop, count_up, leaves};
use crate::codel::Verdict;
use crate::dequeue::Due;
use crate::entries::{Entries, Taken};
use crate::node::{ASSURED, Amount, CAP, CODEL, GUARANTEE, NONE, Node, Nodes, RED, ROOT, State};
use crate::standing::{Shape, Standing};
use crate::statistics::{BYTES, Cause, Counters, Hot, PACKETS, PEAK, WAITING, add, set, waited};
use crate::tree::PolicyState;

/// Number of turns ahead for which a node is prefetched, if its class has an order; 6, 12 and 16
/// are no faster.
const FAR: u32 = 8;

/// The parts of the tree that a visit needs.
pub(crate) struct Visit<'a, T, F> {
    pub(crate) standing: Standing<'a>,
    pub(crate) entries: &'a mut Entries<T>,
    pub(crate) policies: &'a mut [PolicyState],
    pub(crate) words: &'a [AtomicU64],
    pub(crate) hot: &'a [Hot],
    pub(crate) out: &'a mut Vec<Due<T>>,
    pub(crate) dropped: F,
    pub(crate) now_ns: u64,
    pub(crate) is_large: bool,
}

/// A level of the tree, from which the level above takes packets. The compiler makes separate code
/// for each level. So branches of one level do not disturb the predictions of another.
trait Level {
    const IS_QUEUE: bool;

    /// Takes `allowed` bytes, which the last packet may exceed, from under a node that has work.
    /// When it returns, the children are settled, but the node itself is not.
    fn serve<T: Copy, F: FnMut(T, Cause)>(
        visit: &mut Visit<'_, T, F>,
        node: u32,
        allowed: u32,
    ) -> Amount;
}

struct Queue;

/// With this below it.
struct Class<Below>(PhantomData<Below>);

type Router = Class<Queue>;
type Port = Class<Class<Class<Router>>>;

impl Level for Queue {
    const IS_QUEUE: bool = true;

    #[inline]
    fn serve<T: Copy, F: FnMut(T, Cause)>(
        visit: &mut Visit<'_, T, F>,
        queue: u32,
        allowed: u32,
    ) -> Amount {
        let node = visit.standing.nodes.at_mut(queue);
        if node.note_peak() {
            set(&visit.hot[queue as usize][PEAK], node.peak());
        }
        if node.flags & CODEL != 0 {
            return visit.take_controlled(queue, allowed);
        }
        let first = node.first;
        visit.take(queue, first, allowed)
    }
}

impl<Below: Level> Level for Class<Below> {
    const IS_QUEUE: bool = false;

    #[inline]
    fn serve<T: Copy, F: FnMut(T, Cause)>(
        visit: &mut Visit<'_, T, F>,
        class: u32,
        allowed: u32,
    ) -> Amount {
        let mut sum = Amount::default();
        loop {
            let (child, part) = visit.pick(class, allowed - sum.bytes());
            visit.fetch_ahead(class, child, Below::IS_QUEUE);
            let turn = Below::serve(visit, child, part);
            visit.settle(class, child, turn, Below::IS_QUEUE);
            sum.add(turn);
            let has_work = visit.standing.nodes.at(class).has_work();
            if Below::IS_QUEUE && visit.is_large && has_work {
                visit.fetch_first(class);
            }
            if sum.bytes() >= allowed || !has_work || !visit.has_room() {
                return sum;
            }
        }
    }
}

impl<T: Copy, F: FnMut(T, Cause)> Visit<'_, T, F> {
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.out.len() < self.out.capacity()
    }

    /// Whether a packet may leave now.
    pub(crate) fn is_ready(&self) -> bool {
        let Standing { nodes, shapes, .. } = &self.standing;
        let root = nodes.at(ROOT);
        root.has_work() && (root.flags & CAP == 0 || shapes[ROOT as usize].cap.is_open(self.now_ns))
    }

    /// Takes the packets of one visit out of the tree. Returns the number of their bytes.
    pub(crate) fn turn(&mut self, budget: u32) -> u32 {
        let mut allowed = budget;
        let is_capped = self.standing.nodes.at(ROOT).flags & CAP != 0;
        if is_capped {
            allowed = allowed.min(self.standing.shapes[ROOT as usize].cap.tokens(self.now_ns));
        }
        let turn = Port::serve(self, ROOT, allowed);
        self.count(ROOT, turn, false);
        if is_capped {
            self.standing.shapes[ROOT as usize].cap.charge(self.now_ns, turn.bytes(), 0);
        }
        turn.bytes()
    }

    /// The child whose turn it is, and how many of the bytes it may send.
    #[inline(always)]
    fn pick(&mut self, class: u32, allowed: u32) -> (u32, u32) {
        let nodes = &mut *self.standing.nodes;
        let &Node { first, second: child, .. } = nodes.at(class);
        if first != NONE {
            return self.pick_assured(first, allowed);
        }
        let &Node { next, deficit, flags, .. } = nodes.at(child);
        let is_alone = next == child;
        if flags & CAP != 0 || deficit <= 0 && !is_alone {
            return self.pick_other(class, allowed);
        }
        (child, if is_alone { allowed } else { allowed.min(deficit.unsigned_abs()) })
    }

    /// The same if the first child is capped, or is charged for packets that were longer than its
    /// turn.
    #[inline(never)]
    fn pick_other(&mut self, class: u32, mut allowed: u32) -> (u32, u32) {
        let mut child = self.standing.nodes.at(class).second;
        if self.standing.nodes.at(child).next != child {
            while self.standing.nodes.at(child).deficit <= 0 {
                self.standing.nodes.grant(child);
                self.standing.goes(child, true);
                child = self.standing.nodes.at(child).next;
                self.standing.nodes.at_mut(class).second = child;
            }
            allowed = allowed.min(self.standing.nodes.at(child).deficit.unsigned_abs());
        }
        (child, self.capped(child, allowed))
    }

    /// The same for a child that has some of its guarantee left.
    #[inline(never)]
    fn pick_assured(&self, child: u32, allowed: u32) -> (u32, u32) {
        let Shape { next, guarantee, .. } = &self.standing.shapes[child as usize];
        // One packet at a time, so that no guarantee waits for another's burst.
        let tokens = if *next == child { guarantee.tokens(self.now_ns) } else { 1 };
        (child, self.capped(child, allowed.min(tokens)))
    }

    /// The number of these bytes that the child's cap permits.
    fn capped(&self, child: u32, allowed: u32) -> u32 {
        if self.standing.nodes.at(child).flags & CAP == 0 {
            return allowed;
        }
        allowed.min(self.standing.shapes[child as usize].cap.tokens(self.now_ns))
    }

    /// Prefetches the memory of siblings whose turns come next, each part once the former part is
    /// there: the node, then its target, then the next packets.
    #[inline(always)]
    fn fetch_ahead(&self, class: u32, node: u32, is_queue: bool) {
        let Standing { nodes, orders, .. } = &self.standing;
        let Some(order) = orders.get(class as usize) else { return };
        let this = nodes.at(node);
        if this.next == node {
            return;
        }
        let Some(far) = order.behind(this, FAR) else {
            self.fetch_near(this, is_queue);
            return;
        };
        self.fetch(far);
        let behind = |places| nodes.at(order.at(this, places));
        if is_queue {
            self.entries.prefetch(behind(FAR / 2).first);
            self.entries.prefetch(self.entries.after(behind(2).first));
            self.entries.prefetch(self.entries.after(self.entries.after(behind(1).first)));
        } else {
            let later = behind(FAR / 2).second;
            self.fetch(later);
            if let Some(order) = orders.get(later as usize) {
                europa_pool::prefetch(order);
            }
            // In a class with an order, positions count from the class's first child.
            let soon = behind(2).second;
            if let Some(order) = orders.get(soon as usize)
                && let Some(first) = nodes.get(nodes.at(soon).second as usize)
            {
                order.fetch(first, FAR);
            }
        }
    }

    /// The same along the list, if the class has no order: the node three turns ahead, its target
    /// two turns ahead.
    #[inline]
    fn fetch_near(&self, this: &Node, is_queue: bool) {
        let Standing { nodes, .. } = &self.standing;
        let soon = nodes.at(this.next);
        let later = nodes.at(soon.next);
        europa_pool::prefetch(nodes.at(later.next));
        europa_pool::prefetch(&self.hot[soon.next as usize]);
        if is_queue {
            self.entries.prefetch(later.first);
            self.entries.prefetch(self.entries.after(soon.first));
            self.entries.prefetch(self.entries.after(self.entries.after(this.first)));
        } else {
            self.fetch(later.second);
        }
    }

    /// Prefetches a node and its counters.
    #[inline]
    fn fetch(&self, node: u32) {
        if let (Some(this), Some(hot)) =
            (self.standing.nodes.get(node as usize), self.hot.get(node as usize))
        {
            europa_pool::prefetch(this);
            europa_pool::prefetch(hot);
        }
    }

    /// Prefetches the first packet of a router's next visit, if that visit continues with the same
    /// queue.
    #[inline]
    fn fetch_first(&self, router: u32) {
        let Standing { nodes, .. } = &self.standing;
        self.entries.prefetch(nodes.at(nodes.at(router).second).first);
    }

    /// Takes packets out of a queue.
    #[inline(always)]
    fn take(&mut self, queue: u32, first: u32, allowed: u32) -> Amount {
        let mut turn = Amount::default();
        let mut next = first;
        while let Some((taken, behind)) = self.entries.take(next) {
            next = behind;
            turn.add(Amount::of(1, taken.length));
            self.leaves(queue, taken);
            if turn.bytes() >= allowed || !self.has_room() {
                break;
            }
        }
        let node = self.standing.nodes.at_mut(queue);
        node.first = next;
        if next == NONE {
            node.second = NONE;
        }
        node.waiting.take(turn);
        turn
    }

    #[inline(always)]
    fn leaves(&mut self, queue: u32, taken: Taken<T>) {
        let Taken { packet, length, since_ns, mark, .. } = taken;
        if mark {
            self.count_mark(queue);
        }
        let cold = waited(&self.hot[queue as usize], self.now_ns - since_ns);
        if let Some(bucket) = cold {
            Counters { words: self.words, node: queue as usize }.write(bucket);
        }
        self.out.push(Due { packet, length, mark, queue });
    }

    #[cold]
    fn count_mark(&mut self, queue: u32) {
        count_up(self.standing.nodes, self.words, queue, |counters| counters.marked());
    }

    /// The same for a queue with controlled delay.
    #[inline(never)]
    fn take_controlled(&mut self, queue: u32, allowed: u32) -> Amount {
        let mut turn = Amount::default();
        while turn.bytes() < allowed && self.has_room() {
            let nodes = &mut *self.standing.nodes;
            let node = nodes.at_mut(queue);
            let Some(mut taken) = self.entries.pop(node) else { break };
            let waited_ns = self.now_ns - taken.since_ns;
            if let PolicyState::Codel(codel) = &mut self.policies[queue as usize]
                && codel.judge(self.now_ns, waited_ns, node.waiting.bytes().into())
                    == Verdict::Signal
            {
                if !(taken.ecn && codel.settings.ecn) {
                    let parent = node.parent;
                    leaves(nodes, self.words, parent, taken.length);
                    count_drop(nodes, self.words, queue, Cause::Delay, taken.length);
                    (self.dropped)(taken.packet, Cause::Delay);
                    continue;
                }
                taken.mark = true;
            }
            turn.add(Amount::of(1, taken.length));
            self.leaves(queue, taken);
        }
        turn
    }

    /// Counts packets that left from under a node.
    #[inline(always)]
    fn count(&mut self, node: u32, turn: Amount, is_queue: bool) {
        let hot = &self.hot[node as usize];
        let node = self.standing.nodes.at_mut(node);
        // The maximum of a queue was recorded when its turn began.
        if !is_queue {
            if node.note_peak() {
                set(&hot[PEAK], node.peak());
            }
            node.waiting.take(turn);
        }
        set(&hot[WAITING], node.waiting.0);
        add(&hot[PACKETS], turn.packets().into());
        add(&hot[BYTES], turn.bytes().into());
    }

    /// Counts and charges a node for packets that left from under it, and moves it to its place.
    #[inline(always)]
    fn settle(&mut self, class: u32, node: u32, turn: Amount, is_queue: bool) {
        self.count(node, turn, is_queue);
        let Standing { nodes, orders, .. } = &mut self.standing;
        let unit = nodes.at(class).unit;
        let this = nodes.at_mut(node);
        if this.flags & (CAP | GUARANTEE) != 0 {
            self.settle_shaped(node, turn, is_queue);
            return;
        }
        if !this.has_work() {
            self.settle_emptied(class, node, turn, is_queue);
            return;
        }
        // A child without siblings needs no turn limit.
        if this.next != node {
            // There is no branch: whether the turn is over is as random as packet lengths. Nothing
            // overflows, because a turn exceeds its rest by a packet at most.
            let left = this.deficit.wrapping_sub_unsigned(turn.bytes());
            let is_over = left <= 0;
            let turn = unit * u32::from(this.weight);
            this.deficit = left.wrapping_add_unsigned(if is_over { turn } else { 0 });
            let head = if is_over { this.next } else { node };
            if let Some(order) = orders.get_mut(class as usize) {
                order.append(node, this, is_over);
            }
            nodes.at_mut(class).second = head;
        }
    }

    /// The same for a node without rates that has no packets left: it was the first in the list.
    #[inline]
    fn settle_emptied(&mut self, class: u32, node: u32, turn: Amount, is_queue: bool) {
        let nodes = &mut *self.standing.nodes;
        let this = nodes.at_mut(node);
        let is_alone = this.next == node;
        let charge = if is_alone { 0 } else { turn.bytes() };
        this.deficit = this.deficit.wrapping_sub_unsigned(charge).min(0);
        this.state = State::Idle;
        let &mut Node { next, prev, flags, .. } = this;
        nodes.at_mut(class).second = if is_alone { NONE } else { next };
        if !is_alone {
            nodes.at_mut(prev).next = next;
            nodes.at_mut(next).prev = prev;
        }
        if is_queue && flags & (RED | CODEL) != 0 {
            self.has_emptied(node);
        }
    }

    /// The same for a node that has rates.
    #[inline(never)]
    fn settle_shaped(&mut self, node: u32, turn: Amount, is_queue: bool) {
        let now_ns = self.now_ns;
        let Standing { nodes, shapes, wheel, .. } = &mut self.standing;
        let this = nodes.at_mut(node);
        let (flags, parent) = (this.flags, this.parent);
        if flags & ASSURED != 0 {
            shapes[node as usize].guarantee.charge(now_ns, turn.bytes(), 0);
        } else if this.next != node {
            this.deficit = this.deficit.saturating_sub_unsigned(turn.bytes());
        }
        if flags & CAP != 0 {
            let extra = nodes.turn(node);
            shapes[node as usize].cap.charge(now_ns, turn.bytes(), extra);
        }
        if !nodes.at(node).has_work() {
            if is_queue && flags & (RED | CODEL) != 0 {
                self.has_emptied(node);
            }
            // Only this node is handled here: the node above is handled next.
            self.standing.stand_aside(node);
            return;
        }
        if flags & CAP != 0 && !shapes[node as usize].cap.is_open(now_ns) {
            let opens_ns = shapes[node as usize].cap.opens_ns();
            self.standing.stand_aside(node);
            let Standing { nodes, wheel, .. } = &mut self.standing;
            nodes.at_mut(node).state = State::Capped;
            wheel.set(node, opens_ns);
        } else if flags & ASSURED != 0 {
            let Shape { guarantee, next, .. } = &shapes[node as usize];
            if guarantee.is_open(now_ns) {
                nodes.at_mut(parent).first = *next;
            } else {
                wheel.set(node, guarantee.opens_ns());
                self.standing.forgo(node);
            }
        } else if nodes.at(node).deficit <= 0 {
            nodes.grant(node);
            nodes.at_mut(parent).second = nodes.at(node).next;
            self.standing.goes(node, true);
        }
    }

    #[inline(never)]
    fn has_emptied(&mut self, queue: u32) {
        match &mut self.policies[queue as usize] {
            PolicyState::Red(red) => red.idle(self.now_ns),
            PolicyState::Codel(codel) => codel.idle(),
            PolicyState::Plain => (),
        }
    }
}
