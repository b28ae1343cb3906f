//! Counters of queues. A thread reads them: a switch may have 65,536 queues.

use std::collections::HashMap;
use std::sync::Arc;

use europa_api::stats::QueueStats;
use europa_pool::Mapping;
use europa_queue::{Cause, Statistics, bucket_ns};
use europa_switch::QUEUE_BYTES;
use europa_switch::orders::PortQueues;

use super::PortsQueues;
use crate::routers::Router;

/// All that is needed to read the counters.
#[derive(Default)]
pub(crate) struct Counters {
    ports: Vec<Counted>,
    /// Names of interfaces, by number.
    names: HashMap<u32, String>,
}

/// A port with queues.
struct Counted {
    name: String,
    told: Arc<PortQueues>,
    places: Arc<Vec<u32>>,
    statistics: Mapping,
}

impl PortsQueues {
    /// The counters of all queues, to be read in a thread.
    pub(crate) fn counters(&self, routers: &[Router]) -> Counters {
        let ports = self.all.iter().filter_map(|managed| {
            Some(Counted {
                name: managed.name.clone(),
                told: managed.told.clone()?,
                places: managed.places.clone(),
                statistics: managed.statistics.clone(),
            })
        });
        let ports: Vec<Counted> = ports.collect();
        let mut names = HashMap::new();
        for router in routers.iter().filter(|_| !ports.is_empty()) {
            let all = router.plan.interfaces.iter().zip(&router.interfaces);
            names.extend(all.map(|(interface, id)| (*id, interface.name.clone())));
        }
        Counters { ports, names }
    }
}

impl Counters {
    /// Counters of packets, in all queues and each.
    pub(crate) fn read(&self) -> Vec<QueueStats> {
        self.ports.iter().flat_map(|port| port.stats(&self.names)).collect()
    }
}

impl Counted {
    fn read(&self, place: u32) -> Statistics {
        let words = self.statistics.words(0, QUEUE_BYTES / 8).unwrap_or_default();
        Statistics::read(words, place)
    }

    fn stats(&self, names: &HashMap<u32, String>) -> Vec<QueueStats> {
        let mut places = self.places.iter().copied();
        let mut all = vec![self.one(europa_queue::Id::PORT.index())];
        for slice in &self.told.slices {
            let slice_at = all.len();
            let Some(place) = places.next() else { return all };
            let mut of_slice = self.one(place);
            of_slice.slice = Some(slice.name.clone());
            all.push(of_slice);
            for router in &slice.routers {
                let router_at = all.len();
                let Some(place) = places.next() else { return all };
                let mut of_router = self.one(place);
                of_router.slice = Some(slice.name.clone());
                of_router.router = Some(router.name.clone());
                all.push(of_router);
                for queue in &router.queues {
                    let Some(place) = places.next() else { return all };
                    let of_queue = QueueStats {
                        slice: Some(slice.name.clone()),
                        router: Some(router.name.clone()),
                        interface: names.get(&queue.interface).cloned(),
                        queue: Some(queue.number),
                        ..self.one(place)
                    };
                    // Classes have no waiting times of their own.
                    for at in [0, slice_at, router_at] {
                        if let Some(class) = all.get_mut(at) {
                            add_waits(&mut class.waited, &of_queue.waited);
                        }
                    }
                    all.push(of_queue);
                }
            }
        }
        for one in &mut all {
            one.waited_p50_ns = percentile(&one.waited, 0.5);
            one.waited_p99_ns = percentile(&one.waited, 0.99);
        }
        all
    }

    fn one(&self, place: u32) -> QueueStats {
        let read = self.read(place);
        let drops = read.drops.iter().zip(Cause::COUNTED);
        let waited = read.waited.iter().enumerate();
        QueueStats {
            port: self.name.clone(),
            packets: read.packets,
            bytes: read.bytes,
            waiting: read.waiting,
            waiting_bytes: read.waiting_bytes,
            peak: read.peak,
            peak_bytes: read.peak_bytes,
            marks: read.marks,
            drops: drops
                .filter(|(count, _)| **count > 0)
                .map(|(count, cause)| (told(cause).to_owned(), *count))
                .collect(),
            dropped_bytes: read.dropped_bytes,
            waited: waited
                .filter(|(_, count)| **count > 0)
                .map(|(bucket, count)| (bucket_ns(bucket), *count))
                .collect(),
            ..QueueStats::default()
        }
    }
}

fn told(cause: Cause) -> &'static str {
    match cause {
        Cause::Packets => "queue full of packets",
        Cause::Bytes => "queue full of bytes",
        Cause::Early => "random early detection",
        Cause::Delay => "waited too long",
        Cause::Share => "slice's or router's limit",
        Cause::Room => "port full",
        Cause::Gone => "no such queue",
    }
}

pub(super) fn add_waits(sum: &mut Vec<(u64, u64)>, more: &[(u64, u64)]) {
    for (ns, count) in more {
        match sum.binary_search_by_key(ns, |(ns, _)| *ns) {
            Ok(at) => sum[at].1 += count,
            Err(at) => sum.insert(at, (*ns, *count)),
        }
    }
}

pub(super) fn percentile(waited: &[(u64, u64)], part: f64) -> u64 {
    let wanted = part * waited.iter().map(|(_, count)| count).sum::<u64>() as f64;
    let mut sum = 0;
    let found = waited.iter().find(|(_, count)| {
        sum += count;
        sum as f64 >= wanted
    });
    found.map_or(0, |(ns, _)| *ns)
}
