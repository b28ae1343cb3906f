//! How late a packet can be.
//!
//! # The tree
//!
//! `europa-queue` asks, at each level, the children that have tokens of their guarantee first, packet by
//! packet in a circle; only then those that share by weight. A child is charged for what leaves while it
//! has tokens; the last packet may overdraw its bucket. The port has a bucket of its own: its rate C and
//! its depth, which is how far it sends ahead. The worker looks every `look` (100 µs), hands what is due
//! to the device, and kicks it.
//!
//! Let all rates be bytes a second, L the longest packet of the port, and for flow j: r_j its guarantee,
//! B_j the depth of that bucket, M_j its largest packet.
//!
//! # The delay before the tree
//!
//! A packet that is in the tree when the worker looks is behind what was handed to the device before: at
//! most the port's depth a and the packet that overdrew it. Tokens of the port are not lost between two
//! looks if a ≥ C·look. So in any interval of length t in which something waits, the tree sends at least
//! C·(t − T0) bytes *onto the wire*, with
//!
//! ```text
//! T0 = look + kick + (a + 2·L) / C
//! ```
//!
//! one L for the packet that overdrew, one for the packet itself, which counts when its last byte left.
//!
//! # The class of the flows
//!
//! If the flows' queues are under a class with guarantee R0 < C that also has unmanaged queues, these may use up the class's tokens: the
//! class then gets only R0. While it waits, its siblings that have tokens send, in any interval t, at most Σ(B_k + L) + t·Σr_k, as each of
//! them is charged for it. The rest is at least ρ0·(t − T), with ρ0 = C − Σr_k ≥ R0 and T = (C·T0 + Σ(B_k + L)) / ρ0. Its own bucket may be
//! overdrawn by L when a flow's packet arrives, and opens at a tick of the timer wheel (8.2 µs: the tick and the least depth) before the
//! next look. So it gets at least R0·(t − T1), with
//!
//! ```text
//! T1 = (C·T0 + Σ(B_k + L)) / ρ0 + L / R0 + look + tick
//! ```
//!
//! Without such a class, R0 = C and T1 = T0.
//!
//! # A flow among flows
//!
//! While flow i waits and has tokens, no flow without tokens is served. Two bounds hold; the smaller
//! one counts.
//!
//! *By tokens.* The other flows send at most Σ_{j≠i}(B_j + M_j) + t·Σ_{j≠i} r_j. The rest is at least
//! R0·(t − T1) − Σ(B_j + M_j) − t·Σr_j = ρ_i·(t − D_i), with ρ_i = R0 − Σ_{j≠i} r_j ≥ r_i as all fit, and
//!
//! ```text
//! D_i = (R0·T1 + Σ_{j≠i}(B_j + M_j)) / ρ_i
//! ```
//!
//! *By turns.* Between two packets of flow i, each other flow sends one packet. So for each m_i bytes of
//! flow i at most Σ_{j≠i} M_j others leave: it gets ρ = R0·m_i / (m_i + Σ_{j≠i} M_j), after
//! T1 + Σ_{j≠i} M_j / R0. This bound counts if ρ ≥ R_i.
//!
//! # That it has tokens
//!
//! In an interval t, flow i sends at most the packets that it has kept back, which came within the
//! bound Δ before, and the arriving ones: b + r·Δ + r·t. With B_i = b + r·Δ + M its bucket never runs
//! dry as long as no packet has been later than Δ; so none is (induction over packets). [`crate::Need`]
//! sets B_i so.
//!
//! # C and D of RFC 2212
//!
//! Both bounds have the form b/R + D: C = 0 and D = D_i. D_i depends on the other flows. The value in
//! ADSPEC is [`crate::Machine::longest_d`]; a flow that would have another's D_i exceed it is refused.

use crate::flow::Flow;
use crate::machine::Machine;
use crate::need::Need;
use crate::unit::{Bytes, BytesPerSecond, Seconds};

/// A tick of the tree's timer wheel and the least depth of its buckets: 4,096 ns each.
const TICK: Seconds = Seconds(8.192e-6);

/// Error terms of RFC 2212.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// C: depends on the rate.
    pub c: Bytes,
    /// D: does not.
    pub d: Seconds,
}

/// Sums over all flows of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shared {
    /// Sum of the rates.
    pub rates: BytesPerSecond,
    /// Sum of the guarantees' depths.
    pub depths: Bytes,
    /// Sum of the largest packets.
    pub packets: Bytes,
}

impl Shared {
    /// With one more flow.
    #[must_use]
    pub fn with(self, flow: &Flow, need: &Need) -> Self {
        Self {
            rates: self.rates + need.rate,
            depths: self.depths + depth(need),
            packets: self.packets + flow.largest,
        }
    }

    /// Without one of them.
    #[must_use]
    pub fn without(self, flow: &Flow, need: &Need) -> Self {
        Self {
            rates: self.rates - need.rate,
            depths: self.depths - depth(need),
            packets: self.packets - flow.largest,
        }
    }
}

/// A bucket holds the packets of 4,096 ns at least.
fn depth(need: &Need) -> Bytes {
    need.depth.max(need.rate * Seconds(4.096e-6))
}

/// The flows' service together: a rate, after a time. See the file.
fn class(machine: &Machine) -> (BytesPerSecond, Seconds) {
    let timing = machine.timing;
    let ahead = Bytes(timing.ahead.0 + 2.0 * machine.longest.0);
    let t0 = timing.look + timing.kick + ahead / machine.rate;
    let Some(class) = machine.class else { return (machine.rate, t0) };
    let left = machine.rate - class.siblings_rate;
    let others = class.siblings_depth.0 + f64::from(class.siblings) * machine.longest.0;
    let behind = Bytes(machine.rate.0 * t0.0 + others) / left;
    (class.rate, behind + machine.longest / class.rate + timing.look + TICK)
}

impl Terms {
    /// C and D of a flow beside `others`.
    pub fn of(flow: &Flow, others: &Shared, machine: &Machine) -> Self {
        let (rate, t1) = class(machine);
        let left = rate - others.rates;
        let by_tokens = if left.0 > 0.0 {
            Bytes(rate.0 * t1.0 + others.depths.0 + others.packets.0) / left
        } else {
            Seconds(f64::INFINITY)
        };
        let turn = flow.smallest + others.packets;
        let in_turn = BytesPerSecond(rate.0 * flow.smallest.0 / turn.0);
        let by_turns = t1 + others.packets / rate;
        let d =
            if in_turn >= flow.reserved() && by_turns < by_tokens { by_turns } else { by_tokens };
        Self { c: Bytes(0.0), d }
    }
}
