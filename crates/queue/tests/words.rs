//! Compares a queue's mapped words with the tree's own values.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use europa_queue::{
    Codel, Id, Limit, Policy, QueueSettings, Red, Settings, Share, Statistics, Tree,
};

type Words = Arc<[AtomicU64]>;

/// A tree with one queue, whose words the test reads.
fn tree(policy: Policy) -> (Tree<u32, Words>, Words, [Id; 4]) {
    let settings = Settings::new(8, 100);
    let words: Words = (0..Tree::<u32>::words(settings)).map(|_| AtomicU64::new(0)).collect();
    let mut tree = Tree::with_words(settings, words.clone()).unwrap();
    let share = Share::weight(1);
    let scheduler = tree.add_class(Id::PORT, share, Limit::NONE).unwrap();
    let slice = tree.add_class(scheduler, share, Limit::NONE).unwrap();
    let router = tree.add_class(slice, share, Limit::NONE).unwrap();
    let limit = Limit { packets: 5, bytes: 4000 };
    let queue = tree.add_queue(router, 1, QueueSettings { share, limit, policy }).unwrap();
    (tree, words, [queue, router, slice, Id::PORT])
}

#[test]
fn words_say_what_the_tree_does_whatever_the_policy() {
    let red = Red {
        min_bytes: 500,
        max_bytes: 2000,
        probability: 0.2,
        shift: 1,
        packet_ns: 1000,
        ecn: true,
    };
    let codel = Codel { target_ns: 1000, interval_ns: 5000, ecn: false };
    // Arriving bursts, and the number of packets that leave after each.
    let table = [
        (Policy::Tail, [(3, 1), (9, 2), (1, 9)]),
        (Policy::Head, [(3, 1), (9, 2), (1, 9)]),
        (Policy::Head, [(9, 0), (2, 1), (0, 9)]),
        (Policy::Red(red), [(5, 1), (9, 2), (9, 9)]),
        (Policy::Codel(codel), [(5, 0), (5, 2), (5, 9)]),
    ];
    for (policy, bursts) in table {
        let (mut tree, words, nodes) = tree(policy);
        for (step, (come, leave)) in bursts.into_iter().enumerate() {
            let now_ns = 10_000 * step as u64;
            for packet in 0..come {
                tree.enqueue(now_ns, nodes[0], packet, 900, packet % 2 == 0, |_, _| ());
            }
            let mut out = Vec::with_capacity(leave);
            tree.dequeue(now_ns + 9000, u64::MAX, &mut out, |_, _| ());
            let whole = |id| (tree.statistics(id).unwrap(), Statistics::read(&words, id.index()));
            let (tree_says, words_say) = whole(nodes[0]);
            assert_eq!(tree_says, words_say, "{policy:?}, step {step}");
            // A class's words are updated when a packet leaves.
            for class in nodes.into_iter().skip(1).filter(|_| !out.is_empty()) {
                let (tree_says, words_say) = whole(class);
                assert_eq!(tree_says, words_say, "{policy:?}, step {step}, {class:?}");
                assert_eq!(tree_says.packets, whole(nodes[0]).1.packets);
            }
        }
    }
}
