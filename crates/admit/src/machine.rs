//! The resources of a port and its worker.

use crate::unit::{Bytes, BytesPerSecond, Seconds};

/// A port, and the resources of its worker for flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The port's rate: the tree's cap, or the rate of the wire.
    pub rate: BytesPerSecond,
    /// The longest packet that the port sends, of any flow.
    pub longest: Bytes,
    /// The class that contains all flows, if it is not the whole port.
    pub class: Option<Class>,
    /// Slots of packet pools for flows.
    pub slots: u64,
    /// Cores for flows; 1 is a whole core.
    pub cores: f64,
    /// The cost of a packet, as measured on this machine.
    pub packet_cost: Seconds,
    /// Labels for flows.
    pub labels: u64,
    /// Nodes of the queue tree for flows.
    pub queue_nodes: u64,
    /// When packets move.
    pub timing: Timing,
    /// The largest D. It is promised to each guaranteed flow; flows that would break the promise
    /// are refused.
    pub longest_d: Seconds,
}

/// The slice or router that contains the flows' queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Its guarantee.
    pub rate: BytesPerSecond,
    /// Sum of the rates that are guaranteed to the class's siblings.
    pub siblings_rate: BytesPerSecond,
    /// Sum of the depths of the siblings' guarantees.
    pub siblings_depth: Bytes,
    /// Number of siblings with guarantees.
    pub siblings: u32,
}

/// Intervals of the worker, and how far it sends ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The longest time between two looks at the tree.
    pub look: Seconds,
    /// Time from passing frames to the device until the device sends them (the kick).
    pub kick: Seconds,
    /// The bytes passed to the device ahead of the wire: the depth of the port's bucket.
    pub ahead: Bytes,
}

impl Machine {
    /// The rate that flows may reserve together.
    pub(crate) fn reservable(&self) -> BytesPerSecond {
        self.class.map_or(self.rate, |class| class.rate)
    }
}
