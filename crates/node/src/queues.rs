//! Queues of ports: the documents' settings in the switch's form, and the counters in memory that
//! the switch writes.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use europa_api::stats::QueueStats;
use europa_api::{Documents, Queue, QueuePolicy, Queues};
use europa_pool::Mapping;
use europa_queue::{
    Cause, Codel, Limit, Policy, QueueSettings, Rate, Red, Share, Statistics, bucket_ns,
};
use europa_switch::orders::{Answer, Order, PortQueues, QueueOf, RouterQueues, SliceQueues};
use europa_switch::{QUEUE_BYTES, SHARE_PACKETS};

use crate::kept::Kept;
use crate::ports::Port;
use crate::routers::Router;
use crate::switch::Switch;
use crate::{Doing, NodeError};

/// Rates hold over this time: the switch catches up on at most this much. It is late when another
/// process has its core for a turn of the scheduler, which is 3 ms.
const BURST_US: u64 = 4000;
/// RED's weight of a packet in the mean length: 0.002, by Floyd and Jacobson.
const RED_SHIFT: u8 = 9;
const RED_MIN_BYTES: u64 = 30_000;
const RED_PROBABILITY: f64 = 0.1;
/// A typical packet, in bits, and the rate of a port without one.
const TYPICAL_BITS: u64 = 8000;
const TYPICAL_RATE: u64 = 1_000_000_000;

fn rate(rate: europa_api::Rate) -> Rate {
    Rate::over(rate.bits_per_second, BURST_US)
}

fn share(
    weight: Option<u16>,
    guarantee: Option<europa_api::Rate>,
    cap: Option<europa_api::Rate>,
) -> Share {
    Share { weight: weight.unwrap_or(1), guarantee: guarantee.map(rate), cap: cap.map(rate) }
}

/// The settings of a queue's document, on a port with a rate.
fn settings(queue: &Queue, port_bits: Option<u64>) -> QueueSettings {
    let ecn = queue.ecn.is_some_and(|ecn| ecn.value);
    let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let policy = match queue.policy() {
        QueuePolicy::Tail => Policy::Tail,
        QueuePolicy::Head => Policy::Head,
        QueuePolicy::Codel => {
            let usual = Codel::default();
            Policy::Codel(Codel {
                target_ns: queue.target.map_or(usual.target_ns, |target| target.ns),
                interval_ns: queue.interval.map_or(usual.interval_ns, |interval| interval.ns),
                ecn,
            })
        }
        QueuePolicy::Red => {
            let min = queue.min.map_or(RED_MIN_BYTES, |min| min.0);
            let bits = queue.cap.map(|cap| cap.bits_per_second).or(port_bits);
            let bits = bits.unwrap_or(TYPICAL_RATE).max(1);
            Policy::Red(Red {
                min_bytes: bytes(min),
                max_bytes: bytes(queue.max.map_or(min * 3, |max| max.0)),
                probability: queue.probability.map_or(RED_PROBABILITY, |share| share.of_one()),
                shift: RED_SHIFT,
                packet_ns: TYPICAL_BITS * 1_000_000_000 / bits,
                ecn,
            })
        }
    };
    QueueSettings {
        share: share(
            queue.weight.map(|weight| weight.value),
            queue.guarantee.map(|guarantee| guarantee.value),
            queue.cap.map(|cap| cap.value),
        ),
        limit: Limit {
            packets: queue.packets.map_or(Queue::DEFAULT_PACKETS, |packets| packets.value),
            bytes: queue.bytes.map_or(u32::MAX, |most| bytes(most.0)),
        },
        policy,
    }
}

/// All queues of an interface, always with its own.
fn of_interface(id: u32, queues: &Queues, port_bits: Option<u64>) -> Vec<QueueOf> {
    let own = queues.0.iter().find(|(number, _)| number.0 == 0).map(|(_, queue)| queue.value);
    let own = own.unwrap_or_default();
    // Packets for another queue must not wait behind packets for none.
    let holds = !own.drops() && queues.0.iter().all(|(number, _)| number.0 == 0);
    let mut own = settings(&own, port_bits);
    if holds {
        own.limit.packets = SHARE_PACKETS.into();
    }
    let own = QueueOf { number: 0, interface: id, settings: own, holds };
    let numbered = queues.0.iter().filter(|(number, _)| number.0 != 0);
    let numbered = numbered.map(|(number, queue)| QueueOf {
        number: number.0,
        interface: id,
        settings: settings(queue, port_bits),
        holds: false,
    });
    std::iter::once(own).chain(numbered).collect()
}

/// A router's guarantee is the sum of its queues' guarantees: it takes them from its slice.
fn of_router(name: &str, queues: Vec<QueueOf>) -> RouterQueues {
    let guarantees = queues.iter().filter_map(|queue| queue.settings.share.guarantee);
    let bits: u64 = guarantees.map(|rate| rate.bits).sum();
    let guarantee = (bits > 0).then(|| Rate::over(bits, BURST_US));
    RouterQueues { name: name.to_owned(), share: Share { guarantee, ..Share::weight(1) }, queues }
}

/// The queues of a port, and their order; `None` for a port without settings.
fn of_port(port: &Port, documents: &Documents, routers: &[Router]) -> Option<PortQueues> {
    let part = |slice: &str| {
        let slice = documents.slices.iter().find(|other| &**other.name == slice)?;
        slice.reservation.as_ref()?.port(&port.name).map(|part| part.value)
    };
    let parts = documents.slices.iter().filter_map(|slice| part(&slice.name));
    let reserved = parts.into_iter().any(|part| part.sends());
    let mut slices: Vec<SliceQueues> = Vec::new();
    let mut queued = false;
    for router in routers {
        let (slice_name, router_name) = (router.plan.name.slice(), router.plan.name.name());
        let all = router.plan.interfaces.iter().zip(&router.interfaces);
        let on = all.filter(|(interface, _)| interface.to.is_port(&port.name));
        let mut queues = Vec::new();
        for (interface, id) in on {
            queued |= !interface.queues.is_empty();
            queues.extend(of_interface(*id, &interface.queues, port.rate_bits));
        }
        if queues.is_empty() {
            continue;
        }
        let router = of_router(router_name, queues);
        match slices.iter_mut().find(|slice| slice.name == slice_name) {
            Some(slice) => slice.routers.push(router),
            None => {
                let share = part(slice_name).map_or(Share::weight(1), |part| {
                    share(
                        part.weight.map(|weight| weight.value),
                        part.guarantee.map(|guarantee| guarantee.value),
                        part.cap.map(|cap| cap.value),
                    )
                });
                let name = slice_name.to_owned();
                slices.push(SliceQueues { name, share, routers: vec![router] });
            }
        }
    }
    let managed = port.rate_bits.is_some() || reserved || queued;
    let rate = port.rate_bits.map(|bits| Rate::over(bits, BURST_US));
    managed.then_some(PortQueues { rate, slices })
}

/// A port with queues.
struct Managed {
    port: u32,
    name: String,
    /// The last order to the switch; `None` before the first.
    told: Option<PortQueues>,
    /// The places of its counters.
    places: Vec<u32>,
    memory: OwnedFd,
    statistics: Mapping,
}

/// All ports with queues.
#[derive(Default)]
pub(crate) struct PortsQueues(Vec<Managed>);

impl PortsQueues {
    /// The switch has no queues, or their numbers are unknown.
    pub(crate) fn forget(&mut self) {
        self.0.iter_mut().for_each(|managed| managed.told = None);
    }

    /// Sets the switch's queues to the desired ones. Costs little without a change.
    pub(crate) fn follow(
        &mut self,
        kept: &Kept,
        switch: &mut Switch,
        ports: &[Port],
        documents: &Documents,
        routers: &[Router],
    ) -> Result<(), NodeError> {
        self.0.retain(|managed| {
            let stays = ports.iter().any(|port| port.id == managed.port);
            if !stays {
                kept.forget_memory(&memory_name(managed.port));
            }
            stays
        });
        let reserved = |port: &Port| {
            let mut parts = documents.slices.iter().filter_map(|slice| slice.reservation.as_ref());
            parts.any(|reservation| reservation.port(&port.name).is_some_and(|part| part.sends()))
        };
        let interfaces = routers.iter().flat_map(|router| &router.plan.interfaces);
        let mut queued = interfaces.filter(|interface| !interface.queues.is_empty()).peekable();
        let nobody = queued.peek().is_none();
        for port in ports {
            let there = self.0.iter().any(|managed| managed.port == port.id);
            if there || !nobody || port.rate_bits.is_some() || reserved(port) {
                let wanted = of_port(port, documents, routers);
                self.tell(kept, switch, port, wanted)?;
            }
        }
        Ok(())
    }

    fn tell(
        &mut self,
        kept: &Kept,
        switch: &mut Switch,
        port: &Port,
        wanted: Option<PortQueues>,
    ) -> Result<(), NodeError> {
        let found = self.0.iter().position(|managed| managed.port == port.id);
        let place = match (found, &wanted) {
            (None, None) => return Ok(()),
            (Some(place), None) => {
                self.0.remove(place);
                switch.order(&Order::Queues { port: port.id, queues: None }, &[])?;
                kept.forget_memory(&memory_name(port.id));
                return Ok(());
            }
            (Some(place), Some(_)) => place,
            (None, Some(_)) => {
                let memory = kept.memory(&memory_name(port.id), QUEUE_BYTES)?;
                let statistics = Mapping::read_only(&memory, 0, QUEUE_BYTES)
                    .doing("mapping statistics of queues")?;
                let (port, name) = (port.id, port.name.clone());
                let new =
                    Managed { port, name, told: None, places: Vec::new(), memory, statistics };
                self.0.push(new);
                self.0.len() - 1
            }
        };
        let Some(managed) = self.0.get_mut(place) else { return Ok(()) };
        if managed.told == wanted {
            return Ok(());
        }
        // Sent once, for any answer: a refusal now is a refusal later.
        managed.told.clone_from(&wanted);
        let order = Order::Queues { port: port.id, queues: wanted };
        match switch.order(&order, &[managed.memory.as_fd()])? {
            Answer::Places(places) => managed.places = places,
            other => {
                return Err(NodeError::Refused(format!("the switch answered {other:?}")));
            }
        }
        Ok(())
    }

    /// Counters of packets, in all queues and each.
    pub(crate) fn stats(&self, routers: &[Router]) -> Vec<QueueStats> {
        let mut names = HashMap::new();
        for router in routers {
            let all = router.plan.interfaces.iter().zip(&router.interfaces);
            names.extend(all.map(|(interface, id)| (*id, interface.name.as_str())));
        }
        self.0.iter().flat_map(|managed| managed.stats(&names)).collect()
    }
}

fn memory_name(port: u32) -> String {
    format!("queues.{port}")
}

impl Managed {
    fn read(&self, place: u32) -> Statistics {
        let words = self.statistics.words(0, QUEUE_BYTES / 8).unwrap_or_default();
        Statistics::read(words, place)
    }

    fn stats(&self, names: &HashMap<u32, &str>) -> Vec<QueueStats> {
        let Some(told) = &self.told else { return Vec::new() };
        let mut places = self.places.iter().copied();
        let mut all = vec![self.one(europa_queue::Id::PORT.index())];
        for slice in &told.slices {
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
                        interface: names.get(&queue.interface).map(|name| (*name).to_owned()),
                        queue: Some(queue.number),
                        ..self.one(place)
                    };
                    // Classes have no separate waiting times.
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

fn add_waits(sum: &mut Vec<(u64, u64)>, more: &[(u64, u64)]) {
    for (ns, count) in more {
        match sum.binary_search_by_key(ns, |(ns, _)| *ns) {
            Ok(at) => sum[at].1 += count,
            Err(at) => sum.insert(at, (*ns, *count)),
        }
    }
}

fn percentile(waited: &[(u64, u64)], part: f64) -> u64 {
    let wanted = part * waited.iter().map(|(_, count)| count).sum::<u64>() as f64;
    let mut sum = 0;
    let found = waited.iter().find(|(_, count)| {
        sum += count;
        sum as f64 >= wanted
    });
    found.map_or(0, |(ns, _)| *ns)
}

#[cfg(test)]
mod tests;
