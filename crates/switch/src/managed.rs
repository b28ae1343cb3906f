//! The queue manager behind a port: the tree of `europa-queue`, and the owner of each queue. The
//! node sends the desired tree as a whole, and this module compares it with the present one.

use std::collections::{HashMap, HashSet};

use europa_pool::Mapping;
use europa_queue::{
    Cause, Due, Id, Limit, PORT_NODES, QueueSettings, Settings, Share, Tree, WORDS,
};
use europa_substrate::layout::MAX_INTERFACES;

use crate::batching::MAX_KICK_FRAMES;
use crate::ecn;
use crate::orders::{PortQueues, QueueOf, RouterQueues, SliceQueues};
use crate::pools::Pools;
use crate::queue::Queued;
use crate::tables::{Shared, count};

/// Sizes of each tree. Unused pages cost address space only.
pub const QUEUE_SETTINGS: Settings =
    Settings { nodes: PORT_NODES, packets: 1 << 20, quantum_bytes: 1514 };
/// Bytes of a tree's statistics, see `europa_queue::Statistics`.
pub const QUEUE_BYTES: usize = (QUEUE_SETTINGS.nodes as usize + 1) * WORDS * 8;

/// Time for which departing packets gather if they wait for rates: one by one they would need a
/// system call each (measured: 1.5 frames a call). A device that can lose frames gets half of its
/// time to send the last batch, when the switch catches up.
const PACE_NS: u64 = 100_000;

/// Memory for a tree's statistics.
struct Words(Mapping);

impl AsRef<[std::sync::atomic::AtomicU64]> for Words {
    #[inline]
    fn as_ref(&self) -> &[std::sync::atomic::AtomicU64] {
        self.0.words(0, QUEUE_BYTES / 8).unwrap_or_default()
    }
}

/// The nodes of an interface on the port.
#[derive(Clone, Copy)]
struct Own {
    slice: Id,
    queue: Id,
    /// Number of packets of an interface at which it has to wait. `u32::MAX` if they are dropped.
    holds: u32,
}

/// A node of the tree, and its settings.
struct Made<T> {
    id: Id,
    of: T,
}

struct MadeRouter {
    share: Made<RouterQueues>,
    queues: Vec<Made<QueueOf>>,
}

struct MadeSlice {
    share: Made<SliceQueues>,
    routers: Vec<MadeRouter>,
}

/// See the file.
pub(crate) struct Managed {
    tree: Tree<Queued, Words>,
    scheduler: Id,
    slices: Vec<MadeSlice>,
    /// By interface.
    own: Vec<Option<Own>>,
    due: Vec<Due<Queued>>,
    /// No packet leaves before this time. See [`PACE_NS`].
    not_before_ns: u64,
}

/// A queue has dropped a packet.
fn dropped(shared: &Shared, pools: &Pools, packet: Queued) {
    count!(shared, packet.interface, tx_drop_queue, 1);
    pools.give_back(shared, &packet);
}

impl Managed {
    /// A tree without queues that counts in `memory`.
    pub(crate) fn new(memory: Mapping) -> Result<Self, String> {
        let mut tree =
            Tree::with_words(QUEUE_SETTINGS, Words(memory)).map_err(|error| error.to_string())?;
        let scheduler = tree
            .add_class(Id::PORT, Share::weight(1), Limit::NONE)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            tree,
            scheduler,
            slices: Vec::new(),
            own: vec![None; MAX_INTERFACES as usize],
            due: Vec::with_capacity(MAX_KICK_FRAMES as usize),
            not_before_ns: 0,
        })
    }

    #[inline]
    fn own(&self, interface: u32) -> Option<Own> {
        self.own.get(interface as usize).copied().flatten()
    }

    /// Number of packets that an interface may add. `None` as long as it has no queue: it waits.
    #[inline]
    pub(crate) fn room(&self, interface: u32) -> u32 {
        match self.own(interface) {
            None => 0,
            Some(Own { holds: u32::MAX, .. }) => u32::MAX,
            Some(own) => own.holds.saturating_sub(self.tree.waiting(own.queue)),
        }
    }

    /// The queue of a number; a number that the slice does not have here means 0.
    #[inline]
    fn queue(&self, own: Own, number: u16) -> Id {
        match number {
            0 => own.queue,
            number => self.tree.queue(own.slice, number).unwrap_or(own.queue),
        }
    }

    /// See [`PortQueue::fetch_ahead`](crate::queue::PortQueue::fetch_ahead).
    #[inline]
    pub(crate) fn fetch_ahead(&self, interface: u32, soon: Option<u16>, later: Option<u16>) {
        // Few queues are in the cache anyway.
        if !self.tree.is_large() {
            return;
        }
        let Some(own) = self.own(interface) else { return };
        if let Some(number) = later {
            self.tree.prefetch(self.queue(own, number));
        }
        if let Some(number) = soon {
            self.tree.prefetch_end(self.queue(own, number));
        }
    }

    /// Puts a packet into its named queue, or its interface's own. This or other packets may be
    /// dropped.
    #[inline]
    pub(crate) fn push(&mut self, shared: &Shared, pools: &Pools, now_ns: u64, packet: Queued) {
        let Some(own) = self.own(packet.interface) else {
            dropped(shared, pools, packet);
            return;
        };
        let queue = self.queue(own, packet.queue);
        let capable = self.tree.marks(queue)
            && pools.get(&packet.pool).is_some_and(|pool| ecn::is_capable(&pool.view, packet.word));
        let length = u32::from(packet.word.length()) + u32::from(packet.before);
        let drop = |packet, _: Cause| dropped(shared, pools, packet);
        self.tree.enqueue(now_ns, queue, packet, length, capable, drop);
    }

    /// Takes out departing packets: `bytes` of them, and no more than a kick takes. `patient` is a
    /// device that loses nothing at any speed.
    pub(crate) fn take(
        &mut self,
        shared: &Shared,
        pools: &Pools,
        now_ns: u64,
        (bytes, patient): (u64, bool),
        mut out: impl FnMut(Queued),
    ) {
        if now_ns < self.not_before_ns || self.tree.is_empty() {
            return;
        }
        self.due.clear();
        let drop = |packet, _: Cause| dropped(shared, pools, packet);
        self.tree.dequeue(now_ns, bytes, &mut self.due, drop);
        if self.tree.next_due(now_ns).is_some_and(|due| due > now_ns || !patient) {
            self.not_before_ns = now_ns + PACE_NS;
        }
        for due in &self.due {
            if due.mark
                && let Some(pool) = pools.get(&due.packet.pool)
            {
                ecn::mark(&pool.view, due.packet.word);
            }
            out(due.packet);
        }
    }

    /// Time when a packet may leave; `None` if no packet waits.
    pub(crate) fn next_due_ns(&self, now_ns: u64) -> Option<u64> {
        self.tree.next_due(now_ns).map(|due| due.max(self.not_before_ns))
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Drops the packets of a removed pool.
    pub(crate) fn remove_pool(&mut self, pool: u32, gone: impl FnMut(Queued)) {
        self.tree.retain(|packet| packet.pool != pool, gone);
    }

    /// Takes everything out, ignoring rates.
    pub(crate) fn drain(&mut self, out: impl FnMut(Queued)) {
        self.tree.retain(|_| false, out);
    }

    /// Changes into the desired tree. `left` gets the packets of removed queues. Returns the places
    /// of statistics: of each slice, then of each of its routers, then of each of its queues.
    pub(crate) fn become_as(
        &mut self,
        wanted: &PortQueues,
        mut left: impl FnMut(Queued),
    ) -> Result<Vec<u32>, String> {
        // Half a change would be worse than none.
        let routers = wanted.slices.iter().flat_map(|slice| &slice.routers);
        let nodes = routers.map(|router| 1 + router.queues.len()).sum::<usize>();
        let capacity = QUEUE_SETTINGS.nodes;
        if 1 + wanted.slices.len() + nodes > capacity as usize {
            return Err(europa_queue::Error::Full { capacity }.to_string());
        }
        let result = self.try_become(wanted, &mut left);
        if result.is_err() {
            // Nodes without a name would be lost permanently.
            self.begin_anew(&mut left).map_err(|error| error.to_string())?;
        }
        let result = result.map_err(|error| error.to_string());
        self.own.fill(None);
        let Self { slices, own, .. } = self;
        for slice in slices.iter() {
            for queue in slice.routers.iter().flat_map(|router| &router.queues) {
                if let Some(own) = own.get_mut(queue.of.interface as usize)
                    && queue.of.number == 0
                {
                    let holds = if queue.of.holds { queue.of.settings.limit.packets } else { !0 };
                    *own = Some(Own { slice: slice.share.id, queue: queue.id, holds });
                }
            }
        }
        result?;
        let mut places = Vec::new();
        for slice in &self.slices {
            places.push(slice.share.id.index());
            for router in &slice.routers {
                places.push(router.share.id.index());
                places.extend(router.queues.iter().map(|queue| queue.id.index()));
            }
        }
        Ok(places)
    }

    fn try_become(
        &mut self,
        wanted: &PortQueues,
        left: &mut impl FnMut(Queued),
    ) -> Result<(), europa_queue::Error> {
        self.tree.set_share(Id::PORT, Share { cap: wanted.rate, ..Share::weight(1) })?;
        self.shrink(wanted, left)?;
        let mut old = std::mem::take(&mut self.slices);
        for slice in &wanted.slices {
            let found = old.iter().position(|there| there.share.of.name == slice.name);
            let there = found.map(|at| old.swap_remove(at));
            let made = self.slice(slice, there)?;
            self.slices.push(made);
        }
        Ok(())
    }

    /// Removes all queues, including remains of a failed change.
    fn begin_anew(&mut self, left: &mut impl FnMut(Queued)) -> Result<(), europa_queue::Error> {
        self.slices.clear();
        self.tree.remove(self.scheduler, left)?;
        self.scheduler = self.tree.add_class(Id::PORT, Share::weight(1), Limit::NONE)?;
        Ok(())
    }

    /// Removes old nodes before it adds new ones: a number may move from one router to another, and
    /// room from one slice to another.
    fn shrink(
        &mut self,
        wanted: &PortQueues,
        left: &mut impl FnMut(Queued),
    ) -> Result<(), europa_queue::Error> {
        let mut gone = Vec::new();
        self.slices.retain_mut(|slice| {
            let stays = wanted.slices.iter().find(|other| other.name == slice.share.of.name);
            let Some(stays) = stays else {
                gone.push(slice.share.id);
                return false;
            };
            slice.routers.retain_mut(|router| {
                let stays = stays.routers.iter().find(|other| other.name == router.share.of.name);
                let Some(stays) = stays else {
                    gone.push(router.share.id);
                    return false;
                };
                let stay: HashSet<_> = stays.queues.iter().map(QueueOf::key).collect();
                let is_gone = |queue: &mut Made<QueueOf>| !stay.contains(&queue.of.key());
                gone.extend(router.queues.extract_if(.., is_gone).map(|queue| queue.id));
                true
            });
            true
        });
        gone.into_iter().try_for_each(|id| self.tree.remove(id, &mut *left))
    }

    /// Adds or changes a slice's part.
    fn slice(
        &mut self,
        wanted: &SliceQueues,
        there: Option<MadeSlice>,
    ) -> Result<MadeSlice, europa_queue::Error> {
        let (id, mut old) = match there {
            Some(there) => {
                if there.share.of.share != wanted.share {
                    self.tree.set_share(there.share.id, wanted.share)?;
                }
                (there.share.id, there.routers)
            }
            None => (self.tree.add_class(self.scheduler, wanted.share, Limit::NONE)?, Vec::new()),
        };
        let mut routers = Vec::with_capacity(wanted.routers.len());
        for router in &wanted.routers {
            let found = old.iter().position(|there| there.share.of.name == router.name);
            let there = found.map(|at| old.swap_remove(at));
            routers.push(self.router(id, router, there)?);
        }
        let of = SliceQueues { routers: Vec::new(), ..wanted.clone() };
        Ok(MadeSlice { share: Made { id, of }, routers })
    }

    fn router(
        &mut self,
        slice: Id,
        wanted: &RouterQueues,
        there: Option<MadeRouter>,
    ) -> Result<MadeRouter, europa_queue::Error> {
        let (id, old) = match there {
            Some(there) => {
                if there.share.of.share != wanted.share {
                    self.tree.set_share(there.share.id, wanted.share)?;
                }
                (there.share.id, there.queues)
            }
            None => (self.tree.add_class(slice, wanted.share, Limit::NONE)?, Vec::new()),
        };
        let old: HashMap<_, _> = old.into_iter().map(|queue| (queue.of.key(), queue)).collect();
        let mut queues = Vec::with_capacity(wanted.queues.len());
        for queue in &wanted.queues {
            let queue_id = match old.get(&queue.key()) {
                Some(there) => {
                    if there.of.settings != queue.settings {
                        self.tree.set_queue(there.id, queue.settings)?;
                    }
                    there.id
                }
                None => self.add_queue(id, queue.number, queue.settings)?,
            };
            queues.push(Made { id: queue_id, of: *queue });
        }
        let of = RouterQueues { queues: Vec::new(), ..wanted.clone() };
        Ok(MadeRouter { share: Made { id, of }, queues })
    }

    fn add_queue(
        &mut self,
        router: Id,
        number: u16,
        settings: QueueSettings,
    ) -> Result<Id, europa_queue::Error> {
        match number {
            0 => self.tree.add_unnumbered(router, settings),
            number => self.tree.add_queue(router, number, settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    /// One slice with routers that have 30,000 queues, the last one fewer: `nodes` in all, with the
    /// scheduler.
    fn wanted(nodes: u32) -> PortQueues {
        let settings = QueueSettings {
            share: Share::weight(1),
            limit: Limit::NONE,
            policy: europa_queue::Policy::Tail,
        };
        let (mut left, mut routers) = (nodes - 2, Vec::new());
        while left > 0 {
            let queues = (left - 1).min(30_000);
            left -= 1 + queues;
            let at = routers.len() as u16;
            let queue = |number: u32| QueueOf {
                number: if at == 0 { number as u16 } else { 0 },
                interface: u32::from(at) * 30_000 + number,
                settings,
                holds: false,
            };
            routers.push(RouterQueues {
                name: at.to_string(),
                share: Share::weight(1),
                queues: (0..queues).map(queue).collect(),
            });
        }
        let slice = SliceQueues { name: "red".into(), share: Share::weight(1), routers };
        PortQueues { rate: None, slices: vec![slice] }
    }

    #[test]
    fn a_port_has_as_many_nodes_as_configurations_may_use() {
        let file = memfd_create(c"queues", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&file, QUEUE_BYTES as i64).unwrap();
        let mut managed = Managed::new(Mapping::new(&file, QUEUE_BYTES).unwrap()).unwrap();
        let full = europa_queue::Error::Full { capacity: PORT_NODES }.to_string();
        assert_eq!(managed.become_as(&wanted(PORT_NODES + 1), |_| ()), Err(full));
        assert!(managed.become_as(&wanted(PORT_NODES), |_| ()).is_ok());
    }

    /// A change that fails half-way leaves no node without a name.
    #[test]
    fn n11_a_failed_change_loses_no_nodes() {
        let file = memfd_create(c"queues", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&file, QUEUE_BYTES as i64).unwrap();
        let mut managed = Managed::new(Mapping::new(&file, QUEUE_BYTES).unwrap()).unwrap();
        let right = wanted(PORT_NODES);
        let mut wrong = wanted(PORT_NODES - 2);
        let twice = wrong.slices[0].routers[0].queues[7];
        wrong.slices[0].routers[0].queues.push(twice);
        for _ in 0..3 {
            let refused = managed.become_as(&wrong, |_| ());
            assert!(refused.is_err(), "two queues have one number");
        }
        assert!(managed.become_as(&right, |_| ()).is_ok());
    }
}
