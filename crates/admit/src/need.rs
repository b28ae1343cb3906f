//! The needs of a flow.

use crate::flow::Flow;
use crate::machine::Machine;
use crate::unit::{Bytes, BytesPerSecond, Seconds};

/// The resources that a flow takes, and the settings of its queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Guarantee of the flow's queue, which is its share of the port.
    pub rate: BytesPerSecond,
    /// Depth of the guarantee. Even after a delay of the bound, the queue must have tokens for its
    /// backlog; see [`crate::Terms`].
    pub depth: Bytes,
    /// Most bytes that wait.
    pub backlog: Bytes,
    /// Slots for the flow's packets, if all have the smallest size.
    pub slots: u64,
    /// Share of a core.
    pub cores: f64,
    /// The promised delay, computed with the largest D.
    pub promised: Seconds,
}

impl Need {
    /// The resources that a flow needs from a machine.
    pub fn of(flow: &Flow, machine: &Machine) -> Self {
        let rate = flow.reserved();
        let promised = flow.delay(Bytes(0.0), machine.longest_d);
        let backlog = flow.depth + flow.rate * promised;
        let packets = backlog.0 / flow.smallest.0;
        // The sustained rate: packets beyond r wait.
        let packets_a_second = flow.rate.0 / flow.smallest.0;
        Self {
            rate,
            depth: backlog + flow.largest,
            backlog,
            // The conversion saturates: a flow with the largest number of packets fits nowhere.
            slots: packets.ceil() as u64,
            cores: packets_a_second * machine.packet_cost.0,
            promised,
        }
    }
}
