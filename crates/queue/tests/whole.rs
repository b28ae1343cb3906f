//! Packets of several frames: they count as their frames.

use europa_queue::{Codel, Due, Id, Limit, Policy, QueueSettings, Rate, Settings, Share, Tree};

const MS: u64 = 1_000_000;

/// A tree with a queue of this policy, for 100 frames of 150 kB in all, below a cap of 1 Gb/s.
fn tree(policy: Policy) -> (Tree<u32>, Id) {
    let mut tree = Tree::new(Settings::new(8, 100));
    let share = Share::weight(1);
    let scheduler = tree.add_class(Id::PORT, share, Limit::NONE).unwrap();
    let cap = Some(Rate { bits: 1_000_000_000, burst_bytes: 64_000 });
    let slice = tree.add_class(scheduler, Share { cap, ..share }, Limit::NONE).unwrap();
    let router = tree.add_class(slice, share, Limit::NONE).unwrap();
    let limit = Limit { packets: 100, bytes: 150_000 };
    let queue = tree.add_queue(router, 1, QueueSettings { share, limit, policy }).unwrap();
    (tree, queue)
}

#[test]
fn limits_rates_and_policies_decide_on_whole_packets() {
    let (mut tree, queue) = tree(Policy::Tail);
    for (what, frames, bytes, most_ns, wanted) in [
        ("as many as fit", 44, 65_000, MS, true),
        ("too many frames", 101, 65_000, MS, false),
        ("too many bytes", 44, 150_001, 2 * MS, false),
        ("520 µs at the cap", 44, 65_000, 500_000, false),
    ] {
        assert_eq!(tree.takes_whole(queue, frames, bytes, most_ns), wanted, "{what}");
    }
    assert!(tree.enqueue_frames(0, queue, 1, (44, 65_000), false, |_, _| ()));
    assert!(tree.enqueue_frames(0, queue, 2, (44, 65_000), false, |_, _| ()));
    assert!(!tree.takes_whole(queue, 13, 19_000, MS), "12 frames are left");
    assert!(tree.takes_whole(queue, 12, 18_000, MS));
    let (judging, queue) = self::tree(Policy::Codel(Codel::default()));
    assert!(!judging.takes_whole(queue, 2, 3000, MS), "it judges each frame");
}

#[test]
fn statistics_and_caps_count_frames() {
    let (mut tree, queue) = tree(Policy::Head);
    tree.enqueue_frames(0, queue, 1, (44, 65_000), false, |_, _| ());
    tree.enqueue_frames(0, queue, 2, (44, 65_000), false, |_, _| ());
    let mut out: Vec<Due<u32>> = Vec::with_capacity(8);
    tree.dequeue(0, u64::MAX, &mut out, |_, _| ());
    assert_eq!(out.iter().map(|due| (due.packet, due.length)).collect::<Vec<_>>(), [(1, 65_000)]);
    let statistics = tree.statistics(queue).unwrap();
    assert_eq!((statistics.packets, statistics.bytes), (44, 65_000));
    assert_eq!(tree.waiting(queue), 44);
    // The burst is exceeded by 1,000 bytes: 8 µs.
    let due = tree.next_due(0).unwrap();
    assert!((4000..20_000).contains(&due), "{due} ns");
    // The first one gives way to two others.
    let mut dropped = Vec::new();
    for packet in [3, 4] {
        tree.enqueue_frames(0, queue, packet, (44, 65_000), false, |gone, _| dropped.push(gone));
    }
    assert_eq!((dropped, tree.waiting(queue)), (vec![2], 88));
    assert_eq!(tree.statistics(queue).unwrap().dropped(), 44);
}

#[test]
fn a_removed_pool_leaves_the_others_in_order() {
    let (mut tree, queue) = tree(Policy::Tail);
    for (packet, frames) in [(1, 1), (2, 20), (3, 1), (4, 30), (5, 1)] {
        let wire = (frames, u32::from(frames) * 1500);
        tree.enqueue_frames(0, queue, packet, wire, false, |_, _| ());
    }
    let mut gone = Vec::new();
    tree.retain(|packet| packet % 2 == 1, |packet| gone.push(packet));
    assert_eq!((gone, tree.waiting(queue)), (vec![2, 4], 3));
    let mut out: Vec<Due<u32>> = Vec::with_capacity(8);
    tree.dequeue(0, u64::MAX, &mut out, |_, _| ());
    assert_eq!(out.iter().map(|due| due.packet).collect::<Vec<_>>(), [1, 3, 5]);
}
