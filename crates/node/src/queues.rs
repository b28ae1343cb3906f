//! Queues of ports: the documents' settings in the switch's form, and the counters in memory that
//! the switch writes.
//!
//! `stats`: reads the counters.

mod stats;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use europa_api::{Documents, Queue, QueuePolicy, Queues};
use europa_plan::RouterPlan;
use europa_pool::Mapping;
use europa_queue::{Codel, Limit, Policy, QueueSettings, Rate, Red, Share};
use europa_switch::orders::{Answer, Order, PortQueues, QueueOf, RouterQueues, SliceQueues};
use europa_switch::{QUEUE_BYTES, SHARE_PACKETS};

pub(crate) use self::stats::Counters;
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
    /// The last order to the switch. None if it knows nothing.
    told: Option<Arc<PortQueues>>,
    /// Where it counts.
    places: Arc<Vec<u32>>,
    memory: OwnedFd,
    statistics: Mapping,
}

/// All ports with queues.
#[derive(Default)]
pub(crate) struct PortsQueues {
    all: Vec<Managed>,
    /// The sources of what the switch has been told.
    seen: Option<Seen>,
}

/// The sources of the settings of queues.
struct Seen {
    documents: Arc<Documents>,
    /// Numbers and rates of ports.
    ports: Vec<(u32, Option<u64>)>,
    /// Plans of routers, and the numbers of their interfaces.
    routers: Vec<(Arc<RouterPlan>, Vec<u32>)>,
}

impl Seen {
    fn new(documents: &Arc<Documents>, ports: &[Port], routers: &[Router]) -> Self {
        let of = |router: &Router| (router.wanted.clone(), router.interfaces.clone());
        Self {
            documents: documents.clone(),
            ports: ports.iter().map(|port| (port.id, port.rate_bits)).collect(),
            routers: routers.iter().map(of).collect(),
        }
    }

    /// Whether they are the same. Costs little, however many queues there are.
    fn is(&self, documents: &Arc<Documents>, ports: &[Port], routers: &[Router]) -> bool {
        let same = |((plan, interfaces), router): (&(Arc<RouterPlan>, Vec<u32>), &Router)| {
            Arc::ptr_eq(plan, &router.wanted) && *interfaces == router.interfaces
        };
        Arc::ptr_eq(&self.documents, documents)
            && self.routers.len() == routers.len()
            && self.ports.iter().copied().eq(ports.iter().map(|port| (port.id, port.rate_bits)))
            && self.routers.iter().zip(routers).all(same)
    }
}

impl PortsQueues {
    /// The switch has no queues, or their numbers are unknown.
    pub(crate) fn forget(&mut self) {
        self.all.iter_mut().for_each(|managed| managed.told = None);
        self.seen = None;
    }

    /// Sets the switch's queues to the desired ones. Costs little without a change.
    pub(crate) fn follow(
        &mut self,
        kept: &Kept,
        switch: &mut Switch,
        ports: &[Port],
        documents: &Arc<Documents>,
        routers: &[Router],
    ) -> Result<(), NodeError> {
        if self.seen.as_ref().is_some_and(|seen| seen.is(documents, ports, routers)) {
            return Ok(());
        }
        self.seen = None;
        self.all.retain(|managed| {
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
            let there = self.all.iter().any(|managed| managed.port == port.id);
            if there || !nobody || port.rate_bits.is_some() || reserved(port) {
                let wanted = of_port(port, documents, routers);
                self.tell(kept, switch, port, wanted)?;
            }
        }
        self.seen = Some(Seen::new(documents, ports, routers));
        Ok(())
    }

    fn tell(
        &mut self,
        kept: &Kept,
        switch: &mut Switch,
        port: &Port,
        wanted: Option<PortQueues>,
    ) -> Result<(), NodeError> {
        let found = self.all.iter().position(|managed| managed.port == port.id);
        let place = match (found, &wanted) {
            (None, None) => return Ok(()),
            (Some(place), None) => {
                self.all.remove(place);
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
                    Managed { port, name, told: None, places: Arc::default(), memory, statistics };
                self.all.push(new);
                self.all.len() - 1
            }
        };
        let Some(managed) = self.all.get_mut(place) else { return Ok(()) };
        if managed.told.as_deref() == wanted.as_ref() {
            return Ok(());
        }
        // Sent once, for any answer: a refusal now is a refusal later.
        managed.told = wanted.clone().map(Arc::new);
        let order = Order::Queues { port: port.id, queues: wanted };
        match switch.order(&order, &[managed.memory.as_fd()])? {
            Answer::Places(places) => managed.places = Arc::new(places),
            other => {
                return Err(NodeError::Refused(format!("the switch answered {other:?}")));
            }
        }
        Ok(())
    }
}

fn memory_name(port: u32) -> String {
    format!("queues.{port}")
}

#[cfg(test)]
mod tests;
