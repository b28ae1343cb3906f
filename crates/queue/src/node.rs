//! The tree's nodes. Port, schedulers, slices, routers and queues have the same record of one cache
//! line, so a packet uses one line at each level.

/// No node, no entry.
pub(crate) const NONE: u32 = u32::MAX;
/// The port.
pub(crate) const ROOT: u32 = 0;

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The tree's root.
    Port,
    /// A part of the port with a separate rate.
    Scheduler,
    /// A slice's part of a scheduler.
    Slice,
    /// A router's part of its slice.
    Router,
    /// Contains the waiting packets.
    Queue,
}

impl Level {
    /// The kind of a node's children.
    pub(crate) fn below(self) -> Option<Self> {
        match self {
            Self::Port => Some(Self::Scheduler),
            Self::Scheduler => Some(Self::Slice),
            Self::Slice => Some(Self::Router),
            Self::Router => Some(Self::Queue),
            Self::Queue => None,
        }
    }
}

/// A node's state in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Nothing under it may be sent.
    Idle,
    /// The node is in its parent's list and waits for its turn.
    Ready,
    /// The node is not in the list and waits for its cap.
    Capped,
}

/// The node has a cap.
pub(crate) const CAP: u8 = 1;
/// The node has a guarantee.
pub(crate) const GUARANTEE: u8 = 2;
/// The queue's policy is [`crate::Policy::Head`].
pub(crate) const HEAD: u8 = 4;
/// The queue's policy is [`crate::Policy::Red`].
pub(crate) const RED: u8 = 8;
/// The queue's policy is [`crate::Policy::Codel`].
pub(crate) const CODEL: u8 = 16;
/// The node has some of its guarantee left, and is in the list of guaranteed nodes too.
pub(crate) const ASSURED: u8 = 32;
/// All of a queue's policies.
pub(crate) const POLICIES: u8 = HEAD | RED | CODEL;

/// Packets in the lower half, their bytes in the upper half of one word. So each arrival or
/// departure needs one addition in each class above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount(pub(crate) u64);

impl Amount {
    #[inline]
    pub(crate) fn of(packets: u32, bytes: u32) -> Self {
        Self(u64::from(packets) | u64::from(bytes) << 32)
    }

    #[inline]
    pub(crate) fn packets(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) fn bytes(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Adds. Limits prevent an overflow of either half.
    #[inline]
    pub(crate) fn add(&mut self, more: Self) {
        self.0 = self.0.wrapping_add(more.0);
    }

    /// Subtracts, which must not underflow.
    #[inline]
    pub(crate) fn take(&mut self, less: Self) {
        self.0 = self.0.wrapping_sub(less.0);
    }
}

/// See the file.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// The waiting bytes in or under the node; more than 4 GiB are refused.
    pub(crate) waiting: Amount,
    /// Neighbours in the cyclic list in which the node is.
    pub(crate) next: u32,
    pub(crate) prev: u32,
    pub(crate) parent: u32,
    /// The rest of its turn. It is negative if the last packet was longer than the rest: then the
    /// next turn is charged.
    pub(crate) deficit: i32,
    /// In a queue, the oldest entry; in a class, the next child with a guarantee.
    pub(crate) first: u32,
    /// In a queue, the newest entry; in a class, the child whose turn it is by weight among all
    /// that are ready.
    pub(crate) second: u32,
    pub(crate) packet_limit: u32,
    pub(crate) byte_limit: u32,
    pub(crate) peak_packets: u32,
    pub(crate) peak_bytes: u32,
    /// In a class, the turn of a child of weight 1, in bytes.
    pub(crate) unit: u32,
    /// Its position in its parent's [`Order`](crate::order::Order).
    pub(crate) place: u32,
    pub(crate) weight: u16,
    /// How often the record has been used for another node.
    pub(crate) generation: u16,
    pub(crate) state: State,
    pub(crate) flags: u8,
    pub(crate) level: Level,
}

impl Node {
    /// The root, or an unused record.
    pub(crate) fn new(level: Level) -> Self {
        Self {
            waiting: Amount::default(),
            next: NONE,
            prev: NONE,
            parent: NONE,
            deficit: 0,
            first: NONE,
            second: NONE,
            packet_limit: u32::MAX,
            byte_limit: u32::MAX,
            peak_packets: 0,
            peak_bytes: 0,
            unit: 1,
            place: 0,
            weight: 1,
            generation: 0,
            state: State::Idle,
            flags: 0,
            level,
        }
    }

    /// Whether packets under the node may be sent.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.second != NONE
    }

    /// Records a new maximum of waiting packets. A call before each departure is enough: only then
    /// can it be a maximum. Returns whether it is one.
    #[inline]
    pub(crate) fn note_peak(&mut self) -> bool {
        let (packets, bytes) = (self.waiting.packets(), self.waiting.bytes());
        let is_higher = packets > self.peak_packets || bytes > self.peak_bytes;
        if is_higher {
            self.peak_packets = self.peak_packets.max(packets);
            self.peak_bytes = self.peak_bytes.max(bytes);
        }
        is_higher
    }

    /// The node's maxima in the form of the statistics.
    pub(crate) fn peak(&self) -> u64 {
        Amount::of(self.peak_packets, self.peak_bytes).0
    }

    /// Whether one more packet would exceed the limit.
    #[inline]
    pub(crate) fn is_full(&self, length: u32) -> bool {
        self.waiting.packets() >= self.packet_limit || self.is_full_of_bytes(length)
    }

    #[inline]
    pub(crate) fn is_full_of_bytes(&self, length: u32) -> bool {
        u64::from(self.waiting.bytes()) + u64::from(length) > u64::from(self.byte_limit)
    }
}

/// All nodes, and the list by weight of each class.
pub(crate) trait Nodes {
    fn at(&self, node: u32) -> &Node;

    fn at_mut(&mut self, node: u32) -> &mut Node;

    /// Puts an idle node at the end of its parent's list.
    fn link(&mut self, node: u32);

    /// Removes a node that is ready from its parent's list.
    fn unlink(&mut self, node: u32);

    /// The bytes of a node's turn: at most 16384 times 65535, below 2^30.
    fn turn(&self, node: u32) -> u32;

    /// Adds one turn to a node.
    fn grant(&mut self, node: u32);
}

impl Nodes for [Node] {
    #[inline]
    fn at(&self, node: u32) -> &Node {
        &self[node as usize]
    }

    #[inline]
    fn at_mut(&mut self, node: u32) -> &mut Node {
        &mut self[node as usize]
    }

    #[inline]
    fn link(&mut self, node: u32) {
        let parent = self.at_mut(self.at(node).parent);
        let head = parent.second;
        let (prev, next) = if head == NONE {
            parent.second = node;
            (node, node)
        } else {
            (std::mem::replace(&mut self.at_mut(head).prev, node), head)
        };
        self.at_mut(prev).next = node;
        let this = self.at_mut(node);
        (this.prev, this.next, this.state) = (prev, next, State::Ready);
    }

    #[inline]
    fn unlink(&mut self, node: u32) {
        let this = self.at_mut(node);
        this.state = State::Idle;
        let &mut Node { next, prev, parent, .. } = this;
        let head = &mut self.at_mut(parent).second;
        if next == node {
            *head = NONE;
            return;
        }
        if *head == node {
            *head = next;
        }
        self.at_mut(prev).next = next;
        self.at_mut(next).prev = prev;
    }

    #[inline]
    fn turn(&self, node: u32) -> u32 {
        let node = self.at(node);
        self.at(node.parent).unit * u32::from(node.weight)
    }

    #[inline]
    fn grant(&mut self, node: u32) {
        let turn = self.turn(node);
        let node = self.at_mut(node);
        node.deficit = node.deficit.saturating_add_unsigned(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_cache_line() {
        assert_eq!((size_of::<Node>(), align_of::<Node>()), (64, 64));
    }
}
