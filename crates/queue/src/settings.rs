//! The settings.

use serde::{Deserialize, Serialize};

/// Most nodes of a port's tree in the switch: schedulers, slices, routers and queues together. The
/// checks of configurations use the same number.
pub const PORT_NODES: u32 = 2 * 65_536 + 4096;

/// A tree's sizes, fixed when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Most schedulers, slices, routers and queues together; at most 2^20 - 2.
    pub nodes: u32,
    /// Most packets that wait at the same time.
    pub packets: u32,
    /// The turn of the lightest child, within 64 to 16384 bytes. Use the longest packet of the
    /// port: a packet k times as long takes k turns.
    pub quantum_bytes: u32,
}

impl Settings {
    /// Sizes for this many queues, as many classes and 4096 more, and this many packets.
    pub fn new(queues: u32, packets: u32) -> Self {
        Self { nodes: queues.saturating_mul(2).saturating_add(4096), packets, quantum_bytes: 1514 }
    }
}

/// A rate, and a burst above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bits a second; at least 8.
    pub bits: u64,
    /// Depth of the token bucket. The rate is reached only if the depth is at least the rate's
    /// bytes between two calls of `dequeue`, and during the turns of others. The last packet may
    /// overdraw it.
    pub burst_bytes: u64,
}

impl Rate {
    /// A rate with a burst of `burst_us` microseconds.
    pub fn over(bits: u64, burst_us: u64) -> Self {
        let burst = u128::from(bits) * u128::from(burst_us) / 8_000_000;
        Self { bits, burst_bytes: u64::try_from(burst).unwrap_or(u64::MAX) }
    }
}

/// A child's share of its parent's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Share of what remains after all guarantees, in proportion to its siblings' weights. 0 counts
    /// as 1.
    pub weight: u16,
    /// Rate that is served before the weights apply. The caller makes sure that the guarantees of
    /// the children fit into their parent's assured rate.
    pub guarantee: Option<Rate>,
    /// The highest rate, even while no other child sends.
    pub cap: Option<Rate>,
}

impl Share {
    /// A share without guarantee or cap.
    pub const fn weight(weight: u16) -> Self {
        Self { weight, guarantee: None, cap: None }
    }

    /// The same with a guarantee.
    #[must_use]
    pub const fn guaranteed(mut self, rate: Rate) -> Self {
        self.guarantee = Some(rate);
        self
    }

    /// The same with a cap.
    #[must_use]
    pub const fn capped(mut self, rate: Rate) -> Self {
        self.cap = Some(rate);
        self
    }
}

/// Most packets and bytes that may wait in a queue, or in all queues of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u32,
}

impl Limit {
    /// As much as the tree has room for, up to 4 GiB.
    pub const NONE: Self = Self { packets: u32::MAX, bytes: u32::MAX };
}

/// Which packets are dropped if there is no room, or earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Policy {
    /// The arriving packet.
    #[default]
    Tail,
    /// The oldest packets, to make room for the arriving one.
    Head,
    /// Arriving packets; the probability grows with the average length of the queue.
    Red(Red),
    /// Packets that leave, if all packets have waited too long for some time.
    Codel(Codel),
}

/// Random early detection (Floyd and Jacobson 1993, with the gentle slope of 2000). No packet is
/// dropped while the mean length is below `min_bytes`. From there on the probability grows to
/// `probability` at `max_bytes`, and to 1 at twice that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Red {
    /// Mean length at which it begins.
    pub min_bytes: u32,
    /// Mean length at which `probability` is reached.
    pub max_bytes: u32,
    /// Between 0 and 1.
    pub probability: f64,
    /// Each packet moves the mean by 2^-shift of its distance from the length.
    pub shift: u8,
    /// The port's time for a typical packet. While no packet waits, the mean shrinks as if such
    /// packets arrived.
    pub packet_ns: u64,
    /// Mark packets with ECN instead of dropping them, up to `max_bytes`.
    pub ecn: bool,
}

/// Controlled delay, RFC 8289.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Codel {
    /// A waiting time that is fine.
    pub target_ns: u64,
    /// CoDel's interval: if all packets wait longer than the target for this time, one is dropped.
    pub interval_ns: u64,
    /// Mark packets with ECN instead of dropping them.
    pub ecn: bool,
}

impl Default for Codel {
    /// RFC 8289, section 4: 5 ms and 100 ms.
    fn default() -> Self {
        Self { target_ns: 5_000_000, interval_ns: 100_000_000, ecn: false }
    }
}

/// The settings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// Its share of its router's rate.
    pub share: Share,
    /// Limit of waiting packets.
    pub limit: Limit,
    /// The policy that chooses the packets to drop.
    pub policy: Policy,
}
