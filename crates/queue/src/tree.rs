//! The tree: its contents and their changes.

use std::sync::atomic::AtomicU64;

use crate::account::{count_up, leaves, publish};
use crate::codel::CodelState;
use crate::entries::Entries;
use crate::node::{CODEL, Level, NONE, Node, Nodes, RED, ROOT};
use crate::order::Order;
use crate::red::RedState;
use crate::settings::{Limit, QueueSettings, Settings, Share};
use crate::standing::{Shape, Standing};
use crate::statistics::{Counters, Statistics, WORDS};
use crate::wheel::Wheel;

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u16 = (1 << (32 - INDEX_BITS)) - 1;
/// A weight has 16 bits.
const POWERS: usize = 16;

/// The name of a node until it is removed. After its place has been used 4096 more times, it may
/// name another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u32);

impl Id {
    /// The root of each tree.
    pub const PORT: Self = Self(ROOT);

    /// Position of its statistics.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0 & INDEX_MASK
    }
}

/// Why a tree is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The node does not exist, or no longer exists.
    #[error("there is no such scheduler, slice, router or queue any more")]
    Gone,
    /// A node of this kind cannot have that parent.
    #[error("found a {found:?} where another level is wanted")]
    Level {
        /// The level of the named node.
        found: Level,
    },
    /// All nodes are in use.
    #[error("no room: all {capacity} schedulers, slices, routers and queues are in use")]
    Full {
        /// The capacity.
        capacity: u32,
    },
    /// The slice already has a queue of this number.
    #[error("the slice has a queue {local} already")]
    Taken {
        /// The queue's number in its slice.
        local: u16,
    },
    /// The memory for statistics is too small.
    #[error("statistics need {wanted} words, found {found}")]
    Words {
        /// The needed words.
        wanted: usize,
        /// The available words.
        found: usize,
    },
}

/// The state of a queue's policy.
pub(crate) enum PolicyState {
    /// Nothing.
    Plain,
    Red(RedState),
    Codel(CodelState),
}

/// The part of a node that no packet touches.
struct Kin {
    child: u32,
    next: u32,
    prev: u32,
    /// For a queue, its number in the slice.
    local: Option<u16>,
    /// For a class, the numbers of children with a weight of 2^n to 2^(n+1)-1.
    weights: [u32; POWERS],
    /// For a slice, its queues by number.
    queues: Vec<u32>,
}

/// The queues of one port. `T` represents a packet; `S` is the memory for statistics, in the layout
/// of [`Statistics`].
pub struct Tree<T, S = Box<[AtomicU64]>> {
    pub(crate) nodes: Vec<Node>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) wheel: Wheel,
    pub(crate) orders: Vec<Order>,
    pub(crate) entries: Entries<T>,
    pub(crate) policies: Vec<PolicyState>,
    pub(crate) words: S,
    pub(crate) now_ns: u64,
    /// Whether a class below the port has or had a limit. If not, a packet need not check each
    /// class.
    pub(crate) has_limits: bool,
    kin: Vec<Kin>,
    free: Vec<u32>,
    settings: Settings,
}

impl<T: Copy> Tree<T> {
    /// An empty tree with private statistics.
    pub fn new(settings: Settings) -> Self {
        let words = (0..Self::words(settings)).map(|_| AtomicU64::new(0)).collect();
        Self::make(settings, words)
    }

    /// Number of words of a tree's statistics.
    pub fn words(settings: Settings) -> usize {
        (settings.nodes.min(INDEX_MASK - 1) as usize + 1) * WORDS
    }
}

impl<T: Copy, S: AsRef<[AtomicU64]>> Tree<T, S> {
    /// An empty tree with counters in `words`.
    ///
    /// # Errors
    /// There are fewer words than [`Tree::words`].
    pub fn with_words(settings: Settings, words: S) -> Result<Self, Error> {
        let (wanted, found) = (Tree::<T>::words(settings), words.as_ref().len());
        if found < wanted {
            return Err(Error::Words { wanted, found });
        }
        Ok(Self::make(settings, words))
    }

    fn make(mut settings: Settings, words: S) -> Self {
        settings.nodes = settings.nodes.min(INDEX_MASK - 1);
        settings.quantum_bytes = settings.quantum_bytes.clamp(64, 16384);
        let nodes = settings.nodes as usize + 1;
        let records = Vec::with_capacity(nodes);
        europa_pool::huge_pages(&records);
        let mut new = Self {
            nodes: records,
            shapes: Vec::with_capacity(nodes),
            wheel: Wheel::new(nodes),
            orders: Vec::with_capacity(nodes),
            entries: Entries::new(settings.packets as usize),
            policies: Vec::with_capacity(nodes),
            words,
            now_ns: 0,
            has_limits: false,
            kin: Vec::with_capacity(nodes),
            free: Vec::new(),
            settings,
        };
        new.make_node(Level::Port);
        new
    }

    /// Sets the time, which must not decrease.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    fn make_node(&mut self, level: Level) -> u32 {
        let kin = Kin {
            child: NONE,
            next: NONE,
            prev: NONE,
            local: None,
            weights: [0; POWERS],
            queues: Vec::new(),
        };
        let mut new = Node::new(level);
        let node = if let Some(node) = self.free.pop() {
            new.generation = self.nodes.at(node).generation;
            *self.nodes.at_mut(node) = new;
            self.kin[node as usize] = kin;
            self.shapes[node as usize] = Shape::default();
            self.policies[node as usize] = PolicyState::Plain;
            if let Some(order) = self.orders.get_mut(node as usize) {
                *order = Order::default();
            }
            node
        } else {
            self.nodes.push(new);
            self.kin.push(kin);
            self.shapes.push(Shape::default());
            self.policies.push(PolicyState::Plain);
            self.wheel.push();
            self.nodes.len() as u32 - 1
        };
        Counters { words: self.words.as_ref(), node: node as usize }.clear();
        node
    }

    /// The part with the lists of nodes that have work.
    #[inline]
    pub(crate) fn standing(&mut self) -> Standing<'_> {
        let Self { nodes, shapes, wheel, orders, now_ns, .. } = self;
        Standing { nodes, shapes, wheel, orders, now_ns: *now_ns }
    }

    fn id(&self, node: u32) -> Id {
        Id(node | u32::from(self.nodes.at(node).generation) << INDEX_BITS)
    }

    /// The node of a name.
    #[inline]
    pub(crate) fn find(&self, id: Id) -> Option<u32> {
        let index = id.index();
        let node = self.nodes.get(index as usize)?;
        (u32::from(node.generation) == id.0 >> INDEX_BITS).then_some(index)
    }

    pub(crate) fn get(&self, id: Id) -> Result<u32, Error> {
        self.find(id).ok_or(Error::Gone)
    }

    fn add(&mut self, parent: Id, share: Share, limit: Limit) -> Result<(u32, Level), Error> {
        let parent = self.get(parent)?;
        let found = self.nodes.at(parent).level;
        let level = found.below().ok_or(Error::Level { found })?;
        if self.free.is_empty() && self.nodes.len() > self.settings.nodes as usize {
            return Err(Error::Full { capacity: self.settings.nodes });
        }
        let node = self.make_node(level);
        self.nodes.at_mut(node).parent = parent;
        let sibling = std::mem::replace(&mut self.kin[parent as usize].child, node);
        self.kin[node as usize].next = sibling;
        if sibling != NONE {
            self.kin[sibling as usize].prev = node;
        }
        self.nodes.at_mut(node).weight = share.weight.max(1);
        self.count_weight(node, 1);
        self.reserve_order(parent);
        self.shape(node, share);
        self.limit(node, limit);
        Ok((node, level))
    }

    /// Prepares a large tree to record the order of its nodes.
    fn reserve_order(&mut self, parent: u32) {
        if !self.is_large() {
            return;
        }
        let known = self.orders.len();
        self.orders.resize_with(self.nodes.len(), Order::default);
        for class in (known..self.nodes.len()).chain([parent as usize]) {
            self.orders[class].reserve(self.kin[class].weights.iter().sum());
        }
    }

    /// Adds a scheduler to the port, a slice to a scheduler, or a router to a slice.
    ///
    /// # Errors
    /// The parent has been removed, or is a router or queue; or the tree is full.
    pub fn add_class(&mut self, parent: Id, share: Share, limit: Limit) -> Result<Id, Error> {
        match self.level(parent)? {
            found @ (Level::Router | Level::Queue) => Err(Error::Level { found }),
            _ => self.add(parent, share, limit).map(|(node, _)| self.id(node)),
        }
    }

    /// Adds a queue to a router; `local` is its number in the slice.
    ///
    /// # Errors
    /// The router has been removed or is no router, the slice already has that queue, or the tree
    /// is full.
    pub fn add_queue(
        &mut self,
        router: Id,
        local: u16,
        settings: QueueSettings,
    ) -> Result<Id, Error> {
        let slice = self.parent(router, Level::Router)?;
        if self.local(slice, local).is_some() {
            return Err(Error::Taken { local });
        }
        let id = self.add_unnumbered(router, settings)?;
        let node = id.index();
        self.kin[node as usize].local = Some(local);
        let queues = &mut self.kin[slice as usize].queues;
        if queues.len() <= usize::from(local) {
            queues.resize(usize::from(local) + 1, NONE);
        }
        queues[usize::from(local)] = node;
        Ok(id)
    }

    /// Adds a queue without a number in the slice: only the owner of its id can use it.
    ///
    /// # Errors
    /// The router has been removed or is no router, or the tree is full.
    pub fn add_unnumbered(&mut self, router: Id, settings: QueueSettings) -> Result<Id, Error> {
        self.parent(router, Level::Router)?;
        let (node, _) = self.add(router, settings.share, settings.limit)?;
        self.policy(node, settings.policy);
        Ok(self.id(node))
    }

    /// The parent of a node at this level.
    fn parent(&self, id: Id, level: Level) -> Result<u32, Error> {
        let node = self.nodes.at(self.get(id)?);
        if node.level == level { Ok(node.parent) } else { Err(Error::Level { found: node.level }) }
    }

    fn local(&self, slice: u32, local: u16) -> Option<u32> {
        let queues = &self.kin[slice as usize].queues;
        queues.get(usize::from(local)).copied().filter(|node| *node != NONE)
    }

    /// A slice's queue by its number in the slice. No number names a queue of another slice.
    pub fn queue(&self, slice: Id, local: u16) -> Option<Id> {
        self.local(self.find(slice)?, local).map(|node| self.id(node))
    }

    /// The kind of a node.
    ///
    /// # Errors
    /// It has been removed.
    pub fn level(&self, id: Id) -> Result<Level, Error> {
        Ok(self.nodes.at(self.get(id)?).level)
    }

    /// Removes a node and all below it, and hands back the packets that waited there.
    ///
    /// # Errors
    /// The node has been removed, or is the port.
    pub fn remove(&mut self, id: Id, mut handed_back: impl FnMut(T)) -> Result<(), Error> {
        let node = self.get(id)?;
        if node == ROOT {
            return Err(Error::Level { found: Level::Port });
        }
        self.remove_node(node, &mut handed_back);
        Ok(())
    }

    /// Hands back the waiting packets for which `keep` is false. The others keep their places.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool, mut handed_back: impl FnMut(T)) {
        for queue in 0..self.nodes.len() as u32 {
            let &Node { level, waiting, parent, .. } = self.nodes.at(queue);
            let packets = waiting.packets();
            if level != Level::Queue || packets == 0 {
                continue;
            }
            self.nodes.at_mut(queue).note_peak();
            for _ in 0..packets {
                let Some(taken) = self.entries.pop(self.nodes.at_mut(queue)) else { break };
                if keep(&taken.packet) {
                    self.entries.push(self.nodes.at_mut(queue), taken);
                } else {
                    leaves(&mut self.nodes, self.words.as_ref(), parent, taken.length);
                    self.count_handed_back(queue);
                    handed_back(taken.packet);
                }
            }
            publish(&self.nodes, self.words.as_ref(), queue);
            self.standing().quiet(queue);
        }
    }

    fn remove_node(&mut self, node: u32, handed_back: &mut impl FnMut(T)) {
        while self.kin[node as usize].child != NONE {
            self.remove_node(self.kin[node as usize].child, handed_back);
        }
        let parent = self.nodes.at(node).parent;
        if self.nodes.at(node).level == Level::Queue {
            self.nodes.at_mut(node).note_peak();
            while let Some(taken) = self.entries.pop(self.nodes.at_mut(node)) {
                leaves(&mut self.nodes, self.words.as_ref(), parent, taken.length);
                self.count_handed_back(node);
                handed_back(taken.packet);
            }
            publish(&self.nodes, self.words.as_ref(), node);
            if let Some(local) = self.kin[node as usize].local {
                let slice = self.nodes.at(parent).parent;
                self.kin[slice as usize].queues[usize::from(local)] = NONE;
            }
        }
        self.standing().quiet(node);
        self.wheel.clear(node);
        self.count_weight(node, -1);
        let &Kin { next, prev, .. } = &self.kin[node as usize];
        if next != NONE {
            self.kin[next as usize].prev = prev;
        }
        if prev != NONE {
            self.kin[prev as usize].next = next;
        } else {
            self.kin[parent as usize].child = next;
        }
        let generation = &mut self.nodes.at_mut(node).generation;
        *generation = (*generation + 1) & GENERATION_MASK;
        self.kin[node as usize].queues = Vec::new();
        self.free.push(node);
    }

    fn count_handed_back(&self, queue: u32) {
        count_up(&self.nodes, self.words.as_ref(), queue, |counters| counters.handed_back());
    }

    /// Adds or removes a child's weight. So the lightest child gets a whole quantum in a turn, and
    /// at most two.
    pub(crate) fn count_weight(&mut self, node: u32, change: i32) {
        let &Node { parent, weight, .. } = self.nodes.at(node);
        let weights = &mut self.kin[parent as usize].weights;
        let power = weight.ilog2() as usize;
        weights[power] = weights[power].saturating_add_signed(change);
        let lightest = weights.iter().position(|count| *count > 0).unwrap_or(0);
        let unit = self.settings.quantum_bytes.div_ceil(1 << lightest);
        self.nodes.at_mut(parent).unit = unit;
    }

    /// Number of packets that wait in or under a node; 0 if it has been removed.
    #[inline]
    pub fn waiting(&self, id: Id) -> u32 {
        self.find(id).map_or(0, |node| self.nodes.at(node).waiting.packets())
    }

    /// Whether a queue's policy marks packets, so that the ECN field matters.
    #[inline]
    pub fn marks(&self, queue: Id) -> bool {
        let Some(node) = self.find(queue) else { return false };
        self.nodes.at(node).flags & (RED | CODEL) != 0
            && match &self.policies[node as usize] {
                PolicyState::Plain => false,
                PolicyState::Red(red) => red.settings.ecn,
                PolicyState::Codel(codel) => codel.settings.ecn,
            }
    }

    /// Number of waiting packets.
    pub fn len(&self) -> u32 {
        self.nodes.at(ROOT).waiting.packets()
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters of a node's packets.
    ///
    /// # Errors
    /// It has been removed.
    pub fn statistics(&self, id: Id) -> Result<Statistics, Error> {
        let index = self.get(id)?;
        let Node { waiting, peak_packets, peak_bytes, .. } = *self.nodes.at(index);
        let (packets, bytes) = (waiting.packets(), waiting.bytes());
        Ok(Statistics {
            waiting: packets.into(),
            waiting_bytes: bytes.into(),
            peak: packets.max(peak_packets).into(),
            peak_bytes: bytes.max(peak_bytes).into(),
            ..Statistics::read(self.words.as_ref(), index)
        })
    }
}
