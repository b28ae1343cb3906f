//! Packets leave.

use std::sync::atomic::AtomicU64;

use crate::codel::Verdict;
use crate::node::{ASSURED, CAP, CODEL, GUARANTEE, NONE, Node, RED, ROOT, State};
use crate::statistics::{BYTES, Cause, MARKS, PACKETS, PEAK, WAITING};
use crate::tree::{Id, PolicyState, Shape, Tree, counters};

/// Levels below the port.
const DEPTH: usize = 4;

/// A packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// What was put in.
    pub packet: T,
    /// Its bytes.
    pub length: u32,
    /// To be marked (RFC 3168: CE) before it is sent.
    pub mark: bool,
    /// Index of the queue where it waited, see [`Id::index`].
    pub queue: u32,
}

/// What a turn has taken out of a queue. Two halves of a register: with more, the processor
/// waited for memory at each level (measured: a fifth of all the time).
#[derive(Clone, Copy, Default)]
struct Turn {
    packets: u32,
    bytes: u32,
}

impl<T: Copy, S: AsRef<[AtomicU64]>> Tree<T, S> {
    /// Takes out what may leave: packets of `budget_bytes`, which the last one may exceed, but
    /// no more than `out` has room for. What is dropped instead, `dropped` gets. Returns the
    /// bytes taken out. Times never go back.
    pub fn dequeue(
        &mut self,
        now_ns: u64,
        budget_bytes: u64,
        out: &mut Vec<Due<T>>,
        mut dropped: impl FnMut(T, Cause),
    ) -> u64 {
        let now_ns = self.advance(now_ns);
        self.fire(now_ns);
        let mut sent = 0;
        while sent < budget_bytes && out.len() < out.capacity() && self.is_ready(now_ns) {
            let left = u32::try_from(budget_bytes - sent).unwrap_or(u32::MAX);
            sent += u64::from(self.turn(now_ns, left, out, &mut dropped));
        }
        sent
    }

    /// When to call [`Self::dequeue`] next: `now_ns` if something may leave, a time that is not
    /// after the next packet may leave if all wait for their rates, `None` if nothing waits.
    pub fn next_due(&self, now_ns: u64) -> Option<u64> {
        let root = self.nodes.at(ROOT);
        if root.waiting.packets() == 0 {
            return None;
        }
        let below = if root.has_work() { now_ns } else { self.wheel.next_ns()? };
        let cap = if root.flags & CAP != 0 { self.shapes[ROOT as usize].cap.opens_ns() } else { 0 };
        Some(now_ns.max(below).max(cap))
    }

    fn is_ready(&self, now_ns: u64) -> bool {
        let root = self.nodes.at(ROOT);
        root.has_work() && (root.flags & CAP == 0 || self.shapes[0].cap.is_open(now_ns))
    }

    /// Looks at the nodes whose time has come.
    fn fire(&mut self, now_ns: u64) {
        while let Some(node) = self.wheel.pop(now_ns) {
            let Node { state, flags, .. } = *self.nodes.at(node);
            let shape = &self.shapes[node as usize];
            match state {
                State::Capped if shape.cap.is_open(now_ns) => {
                    self.nodes.at_mut(node).state = State::Idle;
                    self.activate(node);
                }
                State::Capped => self.wheel.set(node, shape.cap.opens_ns()),
                State::Ready if flags & GUARANTEE == 0 => (),
                State::Ready if shape.guarantee.is_open(now_ns) => self.assure(node),
                State::Ready => self.wheel.set(node, shape.guarantee.opens_ns()),
                State::Idle => (),
            }
        }
    }

    /// Has a node that is ready go first.
    fn assure(&mut self, node: u32) {
        let Node { parent, flags, .. } = *self.nodes.at(node);
        if flags & ASSURED != 0 {
            return;
        }
        self.nodes.at_mut(node).flags |= ASSURED;
        let head = self.nodes.at(parent).first;
        let (prev, next) = if head == NONE {
            self.nodes.at_mut(parent).first = node;
            (node, node)
        } else {
            (std::mem::replace(&mut self.shapes[head as usize].prev, node), head)
        };
        self.shapes[prev as usize].next = node;
        let shape = &mut self.shapes[node as usize];
        (shape.prev, shape.next) = (prev, next);
    }

    /// Ends that; its place among those that share by weight it has kept.
    pub(crate) fn forgo(&mut self, node: u32) {
        self.nodes.at_mut(node).flags &= !ASSURED;
        let Shape { next, prev, .. } = self.shapes[node as usize];
        let parent = self.nodes.at(node).parent;
        let head = &mut self.nodes.at_mut(parent).first;
        if next == node {
            *head = NONE;
            return;
        }
        if *head == node {
            *head = next;
        }
        self.shapes[prev as usize].next = next;
        self.shapes[next as usize].prev = prev;
    }

    /// Takes a node out of all lists and stops its timer.
    #[inline]
    pub(crate) fn stand_aside(&mut self, node: u32) {
        let Node { flags, state, .. } = *self.nodes.at(node);
        if flags & ASSURED != 0 {
            self.forgo(node);
        }
        if state == State::Ready {
            self.nodes.unlink(node);
        }
        if flags & (CAP | GUARANTEE) != 0 {
            self.wheel.clear(node);
        }
        let this = self.nodes.at_mut(node);
        this.state = State::Idle;
        this.deficit = this.deficit.min(0);
    }

    /// Has a node that has got work stand in line, and with it those above it that had none.
    pub(crate) fn activate(&mut self, mut node: u32) {
        while node != ROOT {
            let &Node { state, flags, parent, .. } = self.nodes.at(node);
            if state != State::Idle {
                return;
            }
            if flags & (CAP | GUARANTEE) == 0 {
                self.join(node);
            } else if !self.activate_shaped(node, flags) {
                return;
            }
            node = parent;
        }
    }

    /// Says whether the node is in its parent's list now.
    fn activate_shaped(&mut self, node: u32, flags: u8) -> bool {
        let shape = &mut self.shapes[node as usize];
        if flags & CAP != 0 && self.nodes.at(node).state == State::Idle {
            shape.cap.spill(self.now_ns);
            if !shape.cap.is_open(self.now_ns) {
                self.wheel.set(node, shape.cap.opens_ns());
                self.nodes.at_mut(node).state = State::Capped;
                return false;
            }
        }
        let opens_ns = shape.guarantee.opens_ns();
        self.join(node);
        if flags & GUARANTEE != 0 {
            if opens_ns <= self.now_ns { self.assure(node) } else { self.wheel.set(node, opens_ns) }
        }
        true
    }

    /// Makes an idle node ready.
    #[inline]
    pub(crate) fn join(&mut self, node: u32) {
        if self.nodes.at(node).deficit <= 0 {
            self.nodes.grant(node);
        }
        self.nodes.link(node);
    }

    /// Takes a node that has no work left out of line, and those above it that have none either.
    /// What it did not use of its turn is lost, what it used too much stays charged.
    #[inline]
    pub(crate) fn quiet(&mut self, mut node: u32) {
        while node != ROOT && !self.nodes.at(node).has_work() {
            let &Node { state, parent, .. } = self.nodes.at(node);
            if state == State::Idle {
                return;
            }
            self.stand_aside(node);
            node = parent;
        }
    }

    /// Takes out of the tree what one visit allows. Returns its bytes.
    fn turn(
        &mut self,
        now_ns: u64,
        budget: u32,
        out: &mut Vec<Due<T>>,
        dropped: &mut impl FnMut(T, Cause),
    ) -> u32 {
        let mut allowed = budget;
        let is_capped = self.nodes.at(ROOT).flags & CAP != 0;
        if is_capped {
            allowed = allowed.min(self.shapes[ROOT as usize].cap.tokens(now_ns));
        }
        let turn = self.serve(now_ns, ROOT, 0, allowed, out, dropped);
        self.count(ROOT, turn, false);
        if is_capped {
            self.shapes[ROOT as usize].cap.charge(now_ns, turn.bytes, 0);
        }
        turn.bytes
    }

    /// Takes `allowed` bytes, which the last packet may exceed, from under a class that has work.
    /// Who is below is settled when it returns; the class itself is not.
    fn serve(
        &mut self,
        now_ns: u64,
        class: u32,
        depth: usize,
        allowed: u32,
        out: &mut Vec<Due<T>>,
        dropped: &mut impl FnMut(T, Cause),
    ) -> Turn {
        let mut sum = Turn::default();
        while sum.bytes < allowed && self.nodes.at(class).has_work() && out.len() < out.capacity() {
            let (child, part) = self.pick(now_ns, class, allowed - sum.bytes);
            let is_queue = depth == DEPTH - 1;
            self.fetch_ahead(child, is_queue);
            let turn = if is_queue {
                self.take(now_ns, child, part, out, dropped)
            } else {
                self.serve(now_ns, child, depth + 1, part, out, dropped)
            };
            self.count(child, turn, is_queue);
            self.settle(now_ns, child, turn, is_queue);
            sum.packets += turn.packets;
            sum.bytes += turn.bytes;
        }
        sum
    }

    /// The child whose turn it is, and how many of the bytes it may send.
    #[inline]
    fn pick(&mut self, now_ns: u64, class: u32, allowed: u32) -> (u32, u32) {
        let &Node { first, second, .. } = self.nodes.at(class);
        let (mut child, mut allowed) = (second, allowed);
        if first != NONE {
            child = first;
            let Shape { next, guarantee, .. } = &self.shapes[child as usize];
            // Packet by packet, so that nobody's guarantee waits for another's burst.
            let tokens = if *next == child { guarantee.tokens(now_ns) } else { 1 };
            allowed = allowed.min(tokens);
        } else if self.nodes.at(child).next != child {
            while self.nodes.at(child).deficit <= 0 {
                // Charged for packets longer than its quantum.
                self.nodes.grant(child);
                child = self.nodes.at(child).next;
                self.nodes.at_mut(class).second = child;
            }
            allowed = allowed.min(self.nodes.at(child).deficit.unsigned_abs());
        }
        if self.nodes.at(child).flags & CAP != 0 {
            allowed = allowed.min(self.shapes[child as usize].cap.tokens(now_ns));
        }
        (child, allowed)
    }

    /// Fetches what siblings will need whose turns come soon, each thing as soon as what it depends
    /// on is there: four turns ahead the node, three turns what its first line leads to.
    #[inline]
    fn fetch_ahead(&self, node: u32, is_queue: bool) {
        let soon = self.nodes.at(node).next;
        if soon == node || !self.is_large() {
            return;
        }
        let later = self.nodes.at(soon).next;
        let &Node { next: last, first, second, .. } = self.nodes.at(later);
        europa_pool::prefetch(self.nodes.at(last));
        europa_pool::prefetch(counters(&self.words, later).line());
        if is_queue {
            self.entries.prefetch(first);
            self.entries.prefetch(self.entries.after(self.nodes.at(soon).first));
        } else {
            if let Some(child) = self.nodes.0.get(second as usize) {
                europa_pool::prefetch(child);
            }
            let child = self.nodes.at(soon).second;
            if (child as usize) < self.nodes.0.len() {
                europa_pool::prefetch(counters(&self.words, child).line());
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        now_ns: u64,
        queue: u32,
        allowed: u32,
        out: &mut Vec<Due<T>>,
        dropped: &mut impl FnMut(T, Cause),
    ) -> Turn {
        let mut turn = Turn::default();
        self.nodes.at_mut(queue).note_peak();
        while turn.bytes < allowed && out.len() < out.capacity() {
            let node = self.nodes.at_mut(queue);
            let Some(taken) = self.entries.pop(node) else { break };
            let waited_ns = now_ns - taken.since_ns;
            let mut mark = taken.mark;
            if node.flags & CODEL != 0
                && let PolicyState::Codel(codel) = &mut self.policies[queue as usize]
                && codel.judge(now_ns, waited_ns, node.waiting.bytes().into()) == Verdict::Signal
            {
                if !(taken.ecn && codel.settings.ecn) {
                    let parent = node.parent;
                    self.leaves(parent, taken.length);
                    self.count_drop(queue, Cause::Delay, taken.length);
                    dropped(taken.packet, Cause::Delay);
                    continue;
                }
                mark = true;
            }
            if mark {
                self.count_up(queue, |counters| counters.add(MARKS, 1));
            }
            counters(&self.words, queue).waited(waited_ns);
            out.push(Due { packet: taken.packet, length: taken.length, mark, queue });
            turn.packets += 1;
            turn.bytes += taken.length;
        }
        turn
    }

    #[inline]
    fn count(&mut self, node: u32, turn: Turn, is_queue: bool) {
        let counters = counters(&self.words, node);
        let node = self.nodes.at_mut(node);
        // A queue's has been noted when its turn began.
        if is_queue || node.note_peak() {
            counters.set(PEAK, node.peak());
        }
        if !is_queue {
            node.waiting.take(turn.packets, turn.bytes);
        }
        counters.set(WAITING, node.waiting.0);
        counters.add(PACKETS, turn.packets.into());
        counters.add(BYTES, turn.bytes.into());
    }

    /// Charges a node for what left from under it, and has it stand where it belongs now.
    #[inline]
    fn settle(&mut self, now_ns: u64, node: u32, turn: Turn, is_queue: bool) {
        let this = self.nodes.at_mut(node);
        let (flags, parent) = (this.flags, this.parent);
        if flags & (CAP | GUARANTEE) != 0 || !this.has_work() {
            self.settle_other(now_ns, node, turn, is_queue);
            return;
        }
        // Who is alone takes nothing from anybody.
        if this.next != node {
            this.deficit = this.deficit.saturating_sub_unsigned(turn.bytes);
            if this.deficit <= 0 {
                let next = this.next;
                self.nodes.grant(node);
                self.nodes.at_mut(parent).second = next;
            }
        }
    }

    /// The same for a node that has rates, or nothing left.
    fn settle_other(&mut self, now_ns: u64, node: u32, turn: Turn, is_queue: bool) {
        let this = self.nodes.at_mut(node);
        let (flags, parent) = (this.flags, this.parent);
        if flags & ASSURED != 0 {
            self.shapes[node as usize].guarantee.charge(now_ns, turn.bytes, 0);
        } else if this.next != node {
            this.deficit = this.deficit.saturating_sub_unsigned(turn.bytes);
        }
        if flags & CAP != 0 {
            let extra = self.nodes.turn(node);
            self.shapes[node as usize].cap.charge(now_ns, turn.bytes, extra);
        }
        if !self.nodes.at(node).has_work() {
            if is_queue {
                self.has_emptied(now_ns, node, flags);
            }
            // Only this node: the one above is settled next.
            self.stand_aside(node);
            return;
        }
        if flags & CAP != 0 && !self.shapes[node as usize].cap.is_open(now_ns) {
            self.stand_aside(node);
            self.nodes.at_mut(node).state = State::Capped;
            self.wheel.set(node, self.shapes[node as usize].cap.opens_ns());
        } else if flags & ASSURED != 0 {
            let Shape { guarantee, next, .. } = &self.shapes[node as usize];
            if guarantee.is_open(now_ns) {
                self.nodes.at_mut(parent).first = *next;
            } else {
                self.wheel.set(node, guarantee.opens_ns());
                self.forgo(node);
            }
        } else if self.nodes.at(node).deficit <= 0 {
            self.nodes.grant(node);
            self.nodes.at_mut(parent).second = self.nodes.at(node).next;
        }
    }

    fn has_emptied(&mut self, now_ns: u64, queue: u32, flags: u8) {
        if flags & (RED | CODEL) != 0 {
            match &mut self.policies[queue as usize] {
                PolicyState::Red(red) => red.idle(now_ns),
                PolicyState::Codel(codel) => codel.idle(),
                PolicyState::Plain => (),
            }
        }
    }
}

impl<T> Due<T> {
    /// Whether it waited in this queue.
    pub fn is_from(&self, queue: Id) -> bool {
        self.queue == queue.index()
    }
}
