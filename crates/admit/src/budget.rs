//! All flows of a port, and the decision whether one more fits.

use std::collections::BTreeMap;
use std::fmt;

use crate::bound::{Shared, Terms};
use crate::flow::{Flow, Service};
use crate::machine::Machine;
use crate::need::Need;
use crate::unit::{BytesPerSecond, Seconds};

/// A flow's number; the caller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// The resources that may be missing, in the order of their checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Bytes of a packet.
    Mtu,
    /// Bytes a second.
    Rate,
    /// Slots of packet pools.
    Buffer,
    /// Cores.
    Cpu,
    /// Labels.
    Labels,
    /// Nodes of the queue tree.
    QueueNodes,
    /// Seconds: this flow, or an existing one, would be later than promised.
    Delay,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mtu => "bytes of the longest packet",
            Self::Rate => "bytes a second",
            Self::Buffer => "slots for packets that wait",
            Self::Cpu => "cores",
            Self::Labels => "labels",
            Self::QueueNodes => "queues",
            Self::Delay => "seconds of delay",
        })
    }
}

/// The first resource that is missing.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{wanted} {resource} are wanted, {left} are left")]
pub struct Lack {
    /// Which.
    pub resource: Resource,
    /// The flow's demand; for delay, the resulting bound.
    pub wanted: f64,
    /// The available amount; for delay, the promised bound.
    pub left: f64,
}

/// The rest of each resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// Bytes a second.
    pub rate: BytesPerSecond,
    /// Slots.
    pub slots: u64,
    /// Cores.
    pub cores: f64,
    /// Labels.
    pub labels: u64,
    /// Queue nodes.
    pub queue_nodes: u64,
}

/// A machine's flows.
#[derive(Clone, Debug)]
pub struct Budget {
    machine: Machine,
    flows: BTreeMap<FlowId, (Flow, Need)>,
}

impl Budget {
    /// Without flows.
    pub fn new(machine: Machine) -> Self {
        Self { machine, flows: BTreeMap::new() }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Admits a flow, or changes the flow of this number; an error changes nothing.
    ///
    /// # Errors
    /// The first resource that is missing.
    pub fn admit(&mut self, id: FlowId, flow: Flow) -> Result<Need, Lack> {
        let need = self.ask(id, &flow)?;
        self.flows.insert(id, (flow, need));
        Ok(need)
    }

    /// The needs of a flow, if it fits.
    ///
    /// # Errors
    /// The first resource that is missing.
    pub fn ask(&self, id: FlowId, flow: &Flow) -> Result<Need, Lack> {
        let machine = &self.machine;
        let need = Need::of(flow, machine);
        let left = self.left_without(Some(id));
        let lack = |resource, wanted, left| Err(Lack { resource, wanted, left });
        if flow.largest > machine.longest {
            return lack(Resource::Mtu, flow.largest.0, machine.longest.0);
        }
        // Sums of f64 may be wrong in their last bits.
        if need.rate.0 > left.rate.0 + machine.rate.0 * 1e-12 {
            return lack(Resource::Rate, need.rate.0, left.rate.0);
        }
        if need.slots > left.slots {
            return lack(Resource::Buffer, need.slots as f64, left.slots as f64);
        }
        if need.cores > left.cores {
            return lack(Resource::Cpu, need.cores, left.cores);
        }
        if left.labels == 0 {
            return lack(Resource::Labels, 1.0, 0.0);
        }
        if left.queue_nodes == 0 {
            return lack(Resource::QueueNodes, 1.0, 0.0);
        }
        self.check_delays(id, flow, &need)?;
        Ok(need)
    }

    /// Checks that no flow's D exceeds its promised bound.
    fn check_delays(&self, id: FlowId, flow: &Flow, need: &Need) -> Result<(), Lack> {
        let others = self.flows.iter().filter(|(other, _)| **other != id);
        let all =
            others.clone().fold(Shared::default(), |all, (_, (flow, need))| all.with(flow, need));
        let all = all.with(flow, need);
        let guaranteed = others.map(|(_, (flow, need))| (flow, need)).chain([(flow, need)]);
        let guaranteed =
            guaranteed.filter(|(flow, _)| matches!(flow.service, Service::Guaranteed { .. }));
        for (flow, need) in guaranteed {
            let d = Terms::of(flow, &all.without(flow, need), &self.machine).d;
            if d > self.machine.longest_d {
                let (wanted, left) = (d.0, self.machine.longest_d.0);
                return Err(Lack { resource: Resource::Delay, wanted, left });
            }
        }
        Ok(())
    }

    /// Removes a flow; does nothing if it is not admitted.
    pub fn release(&mut self, id: FlowId) {
        self.flows.remove(&id);
    }

    /// The rest.
    pub fn left(&self) -> Left {
        self.left_without(None)
    }

    fn left_without(&self, id: Option<FlowId>) -> Left {
        let machine = &self.machine;
        let others = self.flows.iter().filter(|(other, _)| Some(**other) != id);
        let (mut rate, mut slots, mut cores) = (machine.reservable(), machine.slots, machine.cores);
        let mut count = 0;
        for (_, (_, need)) in others {
            rate = rate - need.rate;
            slots = slots.saturating_sub(need.slots);
            cores -= need.cores;
            count += 1;
        }
        Left {
            rate,
            slots,
            cores,
            labels: machine.labels.saturating_sub(count),
            queue_nodes: machine.queue_nodes.saturating_sub(count),
        }
    }

    /// The greatest delay of a flow's packet with the present flows; `None` if the flow is not
    /// admitted.
    pub fn bound(&self, id: FlowId) -> Option<Seconds> {
        let (flow, need) = self.flows.get(&id)?;
        let all =
            self.flows.values().fold(Shared::default(), |all, (flow, need)| all.with(flow, need));
        let terms = Terms::of(flow, &all.without(flow, need), &self.machine);
        Some(flow.delay(terms.c, terms.d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Timing;
    use crate::unit::Bytes;

    fn machine() -> Machine {
        Machine {
            rate: BytesPerSecond(1.25e8),
            longest: Bytes(1514.0),
            class: None,
            slots: 10_000,
            cores: 0.5,
            packet_cost: Seconds(1e-6),
            labels: 3,
            queue_nodes: 4,
            timing: Timing { look: Seconds(1e-4), kick: Seconds(2e-5), ahead: Bytes(25_000.0) },
            longest_d: Seconds(0.01),
        }
    }

    fn flow(rate: f64, smallest: f64, service: Service) -> Flow {
        let (rate, peak) = (BytesPerSecond(rate), BytesPerSecond(f64::INFINITY));
        Flow::new(rate, Bytes(15_000.0), peak, (Bytes(smallest), Bytes(1500.0)), service).unwrap()
    }

    fn load(rate: f64) -> Flow {
        flow(rate, 1000.0, Service::ControlledLoad)
    }

    #[test]
    fn the_first_resource_that_is_lacking_is_named() {
        let with = |change: fn(&mut Machine)| {
            let mut machine = machine();
            change(&mut machine);
            machine
        };
        let guaranteed = Service::Guaranteed { rate: BytesPerSecond(1e6) };
        let table = [
            (machine(), load(1e6), None),
            (with(|machine| machine.longest = Bytes(1400.0)), load(1e6), Some(Resource::Mtu)),
            (machine(), load(1.3e8), Some(Resource::Rate)),
            (with(|machine| machine.slots = 10), load(1e6), Some(Resource::Buffer)),
            (
                with(|machine| machine.slots = 100_000),
                flow(1e8, 64.0, Service::ControlledLoad),
                Some(Resource::Cpu),
            ),
            (with(|machine| machine.labels = 0), load(1e6), Some(Resource::Labels)),
            (with(|machine| machine.queue_nodes = 0), load(1e6), Some(Resource::QueueNodes)),
            (
                with(|machine| machine.longest_d = Seconds(1e-5)),
                flow(1e6, 1000.0, guaranteed),
                Some(Resource::Delay),
            ),
        ];
        for (machine, flow, wanted) in table {
            let found = Budget::new(machine).admit(FlowId(1), flow).err();
            assert_eq!(found.map(|lack| lack.resource), wanted, "{found:?}");
        }
    }

    #[test]
    fn what_is_left_is_what_was_there_without_what_is_held() {
        let mut budget = Budget::new(machine());
        let before = budget.left();
        budget.admit(FlowId(1), load(1e7)).unwrap();
        budget.admit(FlowId(2), load(2e7)).unwrap();
        assert_eq!(budget.left().rate, BytesPerSecond(9.5e7));
        // A change that fails keeps the former flow; one that fits replaces it.
        let lack = budget.admit(FlowId(2), load(1.2e8)).unwrap_err();
        assert_eq!((lack.resource, lack.left), (Resource::Rate, 1.15e8));
        assert_eq!(budget.left().rate, BytesPerSecond(9.5e7));
        budget.admit(FlowId(2), load(1e8)).unwrap();
        budget.admit(FlowId(3), load(1e6)).unwrap();
        let lack = budget.admit(FlowId(4), load(1e6)).unwrap_err();
        assert_eq!((lack.resource, lack.left), (Resource::Labels, 0.0));
        (1..=4).for_each(|id| budget.release(FlowId(id)));
        assert_eq!(budget.left(), before);
    }

    #[test]
    fn a_flow_that_would_make_another_late_is_refused() {
        let mut machine = machine();
        (machine.slots, machine.longest_d) = (1_000_000, Seconds(0.002));
        let service = Service::Guaranteed { rate: BytesPerSecond(1e6) };
        let mut budget = Budget::new(machine);
        budget.admit(FlowId(1), flow(1e6, 1500.0, service)).unwrap();
        let first = budget.bound(FlowId(1)).unwrap();
        // With deep buckets the bound by turns applies, which one more flow increases by a packet.
        budget.admit(FlowId(2), load(1e7)).unwrap();
        let second = budget.bound(FlowId(1)).unwrap();
        assert!(
            second > first && second.0 < first.0 + 2.0 * 1514.0 / 1.25e8,
            "{first:?} {second:?}"
        );
    }
}
