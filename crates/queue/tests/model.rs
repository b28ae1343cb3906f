//! Compares random changes and packets with a simple model: order within a queue, and limits. Every
//! packet leaves, is dropped or is handed back exactly once.

use std::collections::{HashMap, HashSet, VecDeque};

use europa_queue::{
    Cause, Codel, Error, Id, Level, Limit, Policy, QueueSettings, Rate, Red, Settings, Share, Tree,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    AddClass(usize, Share),
    AddQueue(usize, u16, QueueSettings),
    Remove(usize),
    /// Hands back every packet whose serial number this divides.
    Retain(u32),
    SetShare(usize, Share),
    SetQueue(usize, QueueSettings),
    Enqueue {
        queue: usize,
        count: u32,
        length: u32,
        ecn: bool,
    },
    Dequeue {
        after_ns: u64,
        budget: u64,
        room: usize,
    },
}

fn share() -> impl Strategy<Value = Share> {
    let rate = || {
        let rate = (20u32..34, 0u64..5000);
        prop::option::weighted(0.3, rate)
            .prop_map(|rate| rate.map(|(bits, burst_bytes)| Rate { bits: 1 << bits, burst_bytes }))
    };
    (0u16..300, rate(), rate()).prop_map(|(weight, guarantee, cap)| Share {
        weight,
        guarantee,
        cap,
    })
}

fn queue() -> impl Strategy<Value = QueueSettings> {
    let red = Red {
        min_bytes: 1000,
        max_bytes: 3000,
        probability: 0.3,
        shift: 2,
        packet_ns: 1000,
        ecn: true,
    };
    let codel = Codel { target_ns: 2000, interval_ns: 20_000, ecn: true };
    let policy = prop_oneof![
        4 => Just(Policy::Tail),
        2 => Just(Policy::Head),
        1 => Just(Policy::Red(red)),
        1 => Just(Policy::Codel(codel)),
    ];
    (share(), 0u32..20, 0u32..20_000, policy).prop_map(|(share, packets, bytes, policy)| {
        QueueSettings { share, limit: Limit { packets, bytes }, policy }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<usize>;
    prop_oneof![
        3 => (at(), share()).prop_map(|(at, share)| Step::AddClass(at, share)),
        4 => (at(), 0u16..8, queue()).prop_map(|(at, local, queue)| Step::AddQueue(at, local, queue)),
        1 => at().prop_map(Step::Remove),
        1 => (1u32..8).prop_map(Step::Retain),
        2 => (at(), share()).prop_map(|(at, share)| Step::SetShare(at, share)),
        2 => (at(), queue()).prop_map(|(at, queue)| Step::SetQueue(at, queue)),
        20 => (at(), 1u32..6, 1u32..9001, any::<bool>())
            .prop_map(|(queue, count, length, ecn)| Step::Enqueue { queue, count, length, ecn }),
        8 => (0u64..100_000, 0u64..20_000, 0usize..10)
            .prop_map(|(after_ns, budget, room)| Step::Dequeue { after_ns, budget, room }),
    ]
}

/// The simplest queue manager: the waiting packets of each queue.
#[derive(Default)]
struct Model {
    /// All nodes ever made, with their parents and the settings of queues.
    nodes: Vec<(Id, Id)>,
    queues: HashMap<Id, (QueueSettings, VecDeque<(u32, u32)>)>,
    gone: HashSet<Id>,
    /// Serial numbers of present packets.
    inside: HashSet<u32>,
}

const ROOM: usize = 60;

impl Model {
    fn pick(&self, at: usize) -> Id {
        // The newest nodes come first, so that each level has work.
        let nodes = &self.nodes[self.nodes.len().saturating_sub(12)..];
        nodes.get(at % nodes.len().max(1)).map_or(Id::PORT, |(id, _)| *id)
    }

    fn pick_queue(&self, at: usize) -> Id {
        let is_queue = |(id, _): &&(Id, Id)| self.queues.contains_key(id);
        let queues: Vec<_> = self.nodes.iter().filter(is_queue).collect();
        queues.get(at % queues.len().max(1)).map_or(Id::PORT, |(id, _)| *id)
    }

    /// Marks a node and all below it as removed. Returns the packets that waited there.
    fn remove(&mut self, id: Id) -> Vec<u32> {
        self.gone.insert(id);
        let children: Vec<Id> = self
            .nodes
            .iter()
            .filter(|(node, parent)| *parent == id && *node != id)
            .map(|n| n.0)
            .collect();
        let waited = self.queues.remove(&id).map(|(_, waits)| waits).unwrap_or_default();
        let mut all: Vec<u32> = waited.into_iter().map(|(serial, _)| serial).collect();
        children.into_iter().for_each(|child| all.extend(self.remove(child)));
        self.nodes.retain(|(node, _)| *node != id);
        all
    }
}

/// Removes packets, and compares them with the model. Returns how many left or were dropped.
fn dequeue(
    tree: &mut Tree<(Id, u32)>,
    model: &mut Model,
    now: u64,
    budget: u64,
    room: usize,
) -> Result<usize, TestCaseError> {
    let mut out = Vec::with_capacity(room);
    let room = out.capacity();
    let mut dropped = Vec::new();
    let bytes = tree.dequeue(now, budget, &mut out, |(id, serial), cause| {
        dropped.push((id, serial, cause));
    });
    prop_assert_eq!(bytes, out.iter().map(|due| u64::from(due.length)).sum::<u64>());
    prop_assert!(out.len() <= room);
    let last = out.last().map_or(0, |due| u64::from(due.length));
    prop_assert!(bytes == 0 || bytes - last < budget);
    // A queue's packets leave in order; drops have the same order.
    let mut leave: HashMap<Id, Vec<u32>> = HashMap::new();
    for due in &out {
        prop_assert!(due.is_from(due.packet.0));
        leave.entry(due.packet.0).or_default().push(due.packet.1);
        let waits = model.queues[&due.packet.0].1.iter();
        prop_assert_eq!(waits.filter(|w| **w == (due.packet.1, due.length)).count(), 1);
    }
    for serials in leave.values() {
        prop_assert!(serials.is_sorted());
    }
    let count = out.len() + dropped.len();
    for (id, serial, cause) in dropped {
        prop_assert_eq!(cause, Cause::Delay);
        leave.entry(id).or_default().push(serial);
    }
    for (id, mut serials) in leave {
        serials.sort_unstable();
        let waits = &mut model.queues.get_mut(&id).unwrap().1;
        let first: Vec<u32> = waits.drain(..serials.len()).map(|(serial, _)| serial).collect();
        prop_assert_eq!(&first, &serials);
        serials.iter().for_each(|serial| assert!(model.inside.remove(serial)));
    }
    Ok(count)
}

fn apply(
    tree: &mut Tree<(Id, u32)>,
    model: &mut Model,
    step: Step,
    now: &mut u64,
    serial: &mut u32,
) -> Result<(), TestCaseError> {
    match step {
        Step::AddClass(at, share) => {
            let parent = model.pick(at);
            match tree.add_class(parent, share, Limit::NONE) {
                Ok(id) => {
                    prop_assert!(!model.gone.contains(&id));
                    model.nodes.push((id, parent));
                }
                Err(Error::Level { found }) => prop_assert!(found >= Level::Router),
                Err(error) => {
                    let fine = matches!(error, Error::Full { .. });
                    prop_assert!(fine, "{error}");
                }
            }
        }
        Step::AddQueue(at, local, settings) => {
            let parent = model.pick(at);
            match tree.add_queue(parent, local, settings) {
                Ok(id) => {
                    model.nodes.push((id, parent));
                    model.queues.insert(id, (settings, VecDeque::new()));
                    let slice = model.nodes.iter().find(|(node, _)| *node == parent).unwrap().1;
                    prop_assert_eq!(tree.queue(slice, local), Some(id));
                }
                Err(Error::Level { found }) => prop_assert!(found != Level::Router),
                Err(error) => {
                    let fine = matches!(error, Error::Full { .. } | Error::Taken { .. });
                    prop_assert!(fine, "{error}");
                }
            }
        }
        Step::Remove(at) => {
            let id = model.pick(at);
            let mut handed_back = Vec::new();
            let result = tree.remove(id, |(_, serial)| handed_back.push(serial));
            prop_assert_eq!(result.is_ok(), id != Id::PORT);
            if result.is_ok() {
                let mut waited = model.remove(id);
                waited.sort_unstable();
                handed_back.sort_unstable();
                prop_assert_eq!(&waited, &handed_back);
                waited.iter().for_each(|serial| assert!(model.inside.remove(serial)));
                prop_assert_eq!(tree.remove(id, |_| ()), Err(Error::Gone));
            }
        }
        Step::Retain(divisor) => {
            let mut handed_back = Vec::new();
            let keep = |(_, serial): &(Id, u32)| serial % divisor != 0;
            tree.retain(keep, |(_, serial)| handed_back.push(serial));
            for serial in &handed_back {
                prop_assert!(serial % divisor == 0 && model.inside.remove(serial));
            }
            for (_, waits) in model.queues.values_mut() {
                waits.retain(|(serial, _)| serial % divisor != 0);
            }
        }
        Step::SetShare(at, share) => prop_assert_eq!(tree.set_share(model.pick(at), share), Ok(())),
        Step::SetQueue(at, settings) => {
            let id = model.pick_queue(at);
            let set = tree.set_queue(id, settings);
            prop_assert_eq!(set.is_ok(), id != Id::PORT);
            if let Some((old, _)) = model.queues.get_mut(&id) {
                *old = settings;
            }
        }
        Step::Enqueue { queue, count, length, ecn } => {
            let id = model.pick_queue(queue);
            for _ in 0..count {
                enqueue(tree, model, *now, id, length, ecn, serial)?;
            }
        }
        Step::Dequeue { after_ns, budget, room } => {
            *now += after_ns;
            dequeue(tree, model, *now, budget, room)?;
        }
    }
    Ok(())
}

fn enqueue(
    tree: &mut Tree<(Id, u32)>,
    model: &mut Model,
    now: u64,
    id: Id,
    length: u32,
    ecn: bool,
    serial: &mut u32,
) -> Result<(), TestCaseError> {
    *serial += 1;
    let mut dropped = Vec::new();
    let waits = tree.enqueue(now, id, (id, *serial), length, ecn, |packet, cause| {
        dropped.push((packet.1, cause));
    });
    model.inside.insert(*serial);
    for (serial, _) in &dropped {
        prop_assert!(model.inside.remove(serial), "{serial} dropped twice");
    }
    let total = model.inside.len() - usize::from(waits);
    let Some((settings, queue)) = model.queues.get_mut(&id) else {
        prop_assert!(!waits && dropped == [(*serial, Cause::Gone)]);
        return Ok(());
    };
    let bytes: u32 = queue.iter().map(|(_, length)| length).sum();
    let full = queue.len() as u32 >= settings.limit.packets;
    let full_of_bytes = bytes + length > settings.limit.bytes;
    match settings.policy {
        Policy::Tail | Policy::Codel(_) => {
            let no_room = full || full_of_bytes || total >= ROOM;
            prop_assert_eq!(waits, !no_room);
        }
        Policy::Head => {
            let never = settings.limit.packets == 0 || length > settings.limit.bytes;
            prop_assert!(!(never && waits));
            prop_assert!(never || waits || total >= ROOM);
        }
        Policy::Red(_) => prop_assert!(!waits || !(full || full_of_bytes)),
    }
    let first: Vec<u32> = queue.iter().map(|(serial, _)| *serial).collect();
    let own = dropped.iter().filter(|(gone, _)| gone == serial).count();
    prop_assert_eq!(own, usize::from(!waits));
    // Drops from the head come in order, and from this queue only.
    for (at, (gone, _)) in dropped.iter().filter(|(gone, _)| gone != serial).enumerate() {
        prop_assert_eq!(first.get(at), Some(gone));
        queue.pop_front();
    }
    if waits {
        queue.push_back((*serial, length));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_packet_comes_out_once(steps in prop::collection::vec(step(), 1..150)) {
        let settings = Settings { nodes: 40, packets: ROOM as u32, quantum_bytes: 1514 };
        let mut tree: Tree<(Id, u32)> = Tree::new(settings);
        let mut model = Model::default();
        let (mut now, mut serial) = (0, 0);
        // An initial tree.
        for (level, parent) in [(0, 0), (1, 0), (2, 1)] {
            let parent = if level == 0 { Id::PORT } else { model.nodes[parent].0 };
            let id = tree.add_class(parent, Share::weight(1), Limit::NONE).unwrap();
            model.nodes.push((id, parent));
        }
        for step in steps {
            apply(&mut tree, &mut model, step, &mut now, &mut serial)?;
            prop_assert_eq!(tree.len() as usize, model.inside.len());
            for (id, (_, waits)) in &model.queues {
                let statistics = tree.statistics(*id).unwrap();
                prop_assert_eq!(statistics.waiting as usize, waits.len());
                let bytes: u64 = waits.iter().map(|(_, length)| u64::from(*length)).sum();
                prop_assert_eq!(statistics.waiting_bytes, bytes);
                prop_assert!(statistics.peak >= statistics.waiting);
            }
        }
        // All waiting packets leave in time, so that no queue is forgotten.
        let mut rounds = 0;
        while let Some(due) = tree.next_due(now) {
            prop_assert!(due >= now);
            now = due;
            dequeue(&mut tree, &mut model, now, u64::MAX, 100)?;
            rounds += 1;
            prop_assert!(rounds < 5000, "{} still wait", tree.len());
        }
        prop_assert!(model.inside.is_empty());
        let port = tree.statistics(Id::PORT).unwrap();
        prop_assert_eq!(port.waiting, 0);
        let sum = port.packets + port.dropped() + port.handed_back;
        // Packets for removed queues are not counted.
        prop_assert!(sum <= u64::from(serial));
    }
}
