//! How late a packet can be.
//!
//! # The tree
//!
//! At each level, `europa-queue` first serves the children that have tokens of their guarantee,
//! packet by packet in a circle; after that, it serves the children that share by weight. A child
//! is charged for the packets that leave while it has tokens; the last packet may overdraw its
//! bucket. The port has a bucket of its own, with its rate C and its depth, which says how far the
//! worker sends ahead. The worker checks the tree every `look` (100 µs), passes the due packets to
//! the device, and kicks it.
//!
//! Let all rates be bytes a second, L the longest packet of the port, and for flow j: r_j its guarantee,
//! B_j the depth of that bucket, M_j its largest packet.
//!
//! # The delay before the tree
//!
//! A packet that is in the tree when the worker looks is behind the packets that were passed to the
//! device before: at most the port's depth a and the packet that overdrew it. Tokens of the port
//! are not lost between two looks if a ≥ C·look. So in any interval of length t in which a packet
//! waits, the tree sends at least C·(t − T0) bytes *onto the wire*, with
//!
//! ```text
//! T0 = look + kick + (a + 2·L) / C
//! ```
//!
//! one L for the packet that overdrew, and one for the packet itself, which counts when its last
//! byte has left.
//!
//! # The class of the flows
//!
//! The flows' queues may be under a class with guarantee R0 < C that also has unmanaged queues.
//! These may use up the class's tokens: the class then gets only R0. While it waits, its siblings
//! with tokens send, in any interval t, at most Σ(B_k + L) + t·Σr_k, because each of them is
//! charged. The rest is at least ρ0·(t − T), with ρ0 = C − Σr_k ≥ R0 and T = (C·T0 + Σ(B_k + L)) /
//! ρ0. The class's own bucket may be overdrawn by L when a flow's packet arrives, and opens at a
//! tick of the timer wheel (8.2 µs: the tick and the least depth) before the next look. So the
//! class gets at least R0·(t − T1), with
//!
//! ```text
//! T1 = (C·T0 + Σ(B_k + L)) / ρ0 + L / R0 + look + tick
//! ```
//!
//! Without such a class, R0 = C and T1 = T0.
//!
//! # A flow among flows
//!
//! While flow i waits and has tokens, no flow without tokens is served. Two bounds hold; the
//! smaller one applies.
//!
//! *By tokens.* The other flows send at most Σ_{j≠i}(B_j + M_j) + t·Σ_{j≠i} r_j. The rest is at
//! least R0·(t − T1) − Σ(B_j + M_j) − t·Σr_j = ρ_i·(t − D_i). Here ρ_i = R0 − Σ_{j≠i} r_j ≥ r_i,
//! because all flows fit, and
//!
//! ```text
//! D_i = (R0·T1 + Σ_{j≠i}(B_j + M_j)) / ρ_i
//! ```
//!
//! *By turns.* Between two packets of flow i, each other flow sends one packet. So for each m_i
//! bytes of flow i at most Σ_{j≠i} M_j bytes of others leave. Flow i gets ρ = R0·m_i / (m_i +
//! Σ_{j≠i} M_j), after T1 + Σ_{j≠i} M_j / R0. This bound applies if ρ ≥ R_i.
//!
//! # That it has tokens
//!
//! In an interval t, flow i sends at most the packets that it has kept back, which arrived within
//! the bound Δ before, and the arriving ones: b + r·Δ + r·t. With B_i = b + r·Δ + M its bucket
//! never runs dry as long as no packet has been later than Δ. So no packet is (induction over
//! packets). [`crate::Need`] sets B_i to this value.
//!
//! # C and D of RFC 2212
//!
//! Both bounds have the form b/R + D, with C = 0 and D = D_i. D_i depends on the other flows. The
//! value in ADSPEC is [`crate::Machine::longest_d`]. A flow is refused if it would make another
//! flow's D_i exceed that value.

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

/// A bucket's depth is at least the bytes of 4,096 ns.
fn depth(need: &Need) -> Bytes {
    need.depth.max(need.rate * Seconds(4.096e-6))
}

/// The service of all flows together: a rate, after a time. See the top of this file.
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
    /// C and D of a flow in the presence of `others`.
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
