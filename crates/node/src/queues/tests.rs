use super::stats::{add_waits, percentile};
use super::*;

#[test]
fn percentiles_of_sums() {
    let mut sum = vec![(1024, 90)];
    add_waits(&mut sum, &[(512, 8), (1024, 1), (4096, 1)]);
    assert_eq!(sum, [(512, 8), (1024, 91), (4096, 1)]);
    assert_eq!([0.05, 0.5, 0.99, 1.0].map(|part| percentile(&sum, part)), [512, 1024, 1024, 4096]);
    assert_eq!(percentile(&[], 0.5), 0);
}

#[test]
fn an_own_queue_holds_back_unless_somebody_drops() {
    let number = |n| europa_api::QueueNumber(n);
    let queues = |list: Vec<(u16, Queue)>| {
        let at = |(n, queue)| (at(number(n)), at(queue));
        Queues(list.into_iter().map(at).collect())
    };
    let plain = Queue::default();
    let limited = Queue { packets: Some(at(7)), ..plain };
    for (list, holds, packets) in [
        (vec![], true, 1024),
        (vec![(0, plain)], true, 1024),
        (vec![(0, limited)], false, 7),
        (vec![(5, plain)], false, 1024),
    ] {
        let own = of_interface(3, &queues(list), None)[0];
        assert_eq!((own.number, own.interface), (0, 3));
        assert_eq!((own.holds, own.settings.limit.packets), (holds, packets));
    }
}

fn at<T>(value: T) -> europa_api::At<T> {
    europa_api::At { value, place: Default::default() }
}
