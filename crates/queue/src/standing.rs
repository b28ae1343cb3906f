//! Lists of nodes with work: nodes that are in their parents' lists, and nodes that wait for their
//! rates.

use crate::bucket::Bucket;
use crate::node::{ASSURED, CAP, GUARANTEE, NONE, Node, Nodes, ROOT, State};
use crate::order::Order;
use crate::wheel::Wheel;

/// Token buckets of a node.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shape {
    pub(crate) cap: Bucket,
    pub(crate) guarantee: Bucket,
    /// Neighbours in the cyclic list of siblings with guarantee left.
    pub(crate) next: u32,
    pub(crate) prev: u32,
}

/// The part of the tree that packets change.
pub(crate) struct Standing<'a> {
    pub(crate) nodes: &'a mut [Node],
    pub(crate) shapes: &'a mut [Shape],
    pub(crate) wheel: &'a mut Wheel,
    pub(crate) orders: &'a mut [Order],
    pub(crate) now_ns: u64,
}

impl Standing<'_> {
    /// Checks the nodes whose timers have expired.
    pub(crate) fn fire(&mut self) {
        let now_ns = self.now_ns;
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

    /// Gives a ready node precedence.
    pub(crate) fn assure(&mut self, node: u32) {
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

    /// Ends the node's guaranteed turns. The node has kept its place among the siblings that share
    /// by weight.
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

    /// Removes a node from all lists and stops its timer.
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

    /// Adds a node that has got work to its list, and with it all nodes above that had none.
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

    /// Adds a node with a cap to its list. Returns whether it is in its parent's list now.
    #[inline(never)]
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
    #[inline(always)]
    pub(crate) fn join(&mut self, node: u32) {
        if self.nodes.at(node).deficit <= 0 {
            self.nodes.grant(node);
        }
        self.nodes.link(node);
        self.goes(node, true);
    }

    /// Records that a node moves to the end of its parent's list, if `goes` is set.
    #[inline]
    pub(crate) fn goes(&mut self, node: u32, goes: bool) {
        let this = self.nodes.at_mut(node);
        if let Some(order) = self.orders.get_mut(this.parent as usize) {
            order.append(node, this, goes);
        }
    }

    /// Removes a node without work from its list, and with it all nodes above without work. The
    /// unused part of its turn is lost; an excess remains charged.
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
}
