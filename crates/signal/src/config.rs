//! The settings of a signaller at its start.

use std::net::IpAddr;
use std::time::Duration;

use europa_impair::Random;

use crate::auth::Key;
use crate::id::{InterfaceId, Label, LspKey};
use crate::output::Entry;

/// All settings. [`Config::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// The router's own address: its node id (RFC 4558), and its address in errors.
    pub router: IpAddr,
    /// Addresses of the router that belong to no interface of its list.
    pub addresses: Vec<IpAddr>,
    /// The interfaces with RSVP.
    pub interfaces: Vec<Interface>,
    /// R (RFC 2205, section 3.7). State lives for 5.25 R: (K + 0.5) * 1.5 R with K = 3.
    pub refresh: Duration,
    /// Back-off of messages that are not acknowledged.
    pub retransmit: Retransmit,
    /// Hello messages; `None` sends none, but answers those of neighbours.
    pub hello: Option<HelloSettings>,
    /// R towards neighbours with RFC 8370; needs `hello` by node.
    pub independent_refresh: Option<Duration>,
    /// The labels that the tail assigns.
    pub egress: EgressLabel,
    /// The restart capability sent to neighbours (RFC 3473, section 9.1).
    pub restart: Restart,
    /// Time for which a softly preempted LSP may stay (RFC 5712, section 5).
    pub soft_preemption: Duration,
    /// Bounds against hostile neighbours.
    pub limits: Limits,
    /// Hello instance, not 0: the same after a restart if state survived, otherwise another one.
    pub instance: u32,
    /// Message-id epoch, 24 bits: another one after each restart (RFC 2961, section 4.1).
    pub epoch: u32,
    /// The lowest sequence number that authentication may use: the last value of
    /// [`crate::Output::Remember`].
    pub sequence: u64,
    /// Seed of jitter and challenges; the caller takes it from the system's random numbers.
    pub seed: u64,
}

/// An interface with RSVP.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its number; not 0.
    pub id: InterfaceId,
    /// The interface's addresses; the first of each family is the source of messages.
    pub addresses: Vec<IpAddr>,
    /// Longest IP packet, in bytes.
    pub mtu: u32,
    /// Bits that affinities test.
    pub colours: u32,
    /// Authentication; if set, messages without it are refused.
    pub key: Option<Key>,
}

/// RFC 2961, section 6.
#[derive(Clone, Copy, Debug)]
pub struct Retransmit {
    /// Rf: the time until the first retransmission.
    pub first: Duration,
    /// Rl: total number of transmissions. After these, state without refreshes is sent at `slow`.
    pub limit: u8,
    /// RFC 8370, section 2.2: the interval after the rapid retransmissions.
    pub slow: Duration,
    /// RFC 8370, section 2.3: most messages to a neighbour that are not acknowledged.
    pub window: usize,
}

/// Hello sessions.
#[derive(Clone, Copy, Debug)]
pub struct HelloSettings {
    /// Time between two requests; a neighbour that is silent for 3.5 intervals is lost.
    pub interval: Duration,
    /// Whether Hellos identify nodes by node id (RFC 4558) instead of interface addresses.
    pub by_node: bool,
}

/// The label that a tail assigns to the router before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressLabel {
    /// 3: the router before pops.
    ImplicitNull,
    /// Label 0 or 2, depending on the payload's protocol.
    ExplicitNull,
    /// A label from the label table, one for each LSP.
    Allocated,
}

impl EgressLabel {
    /// The reserved label; `None` if labels are allocated.
    pub(crate) fn reserved(self, is_v6: bool) -> Option<Label> {
        match self {
            Self::ImplicitNull => Some(Label::IMPLICIT_NULL),
            Self::ExplicitNull if is_v6 => Some(Label::EXPLICIT_NULL_V6),
            Self::ExplicitNull => Some(Label::EXPLICIT_NULL_V4),
            Self::Allocated => None,
        }
    }
}

/// Graceful restart.
#[derive(Clone, Debug, Default)]
pub struct Restart {
    /// Longest time for which this node is silent when it restarts; 0 does not ask neighbours to
    /// wait.
    pub restart: Duration,
    /// Time in which this node learns its state again.
    pub recovery: Duration,
    /// Whether the data plane continued while the signaller restarted: then neighbours are asked to
    /// send their state again.
    pub resumes: bool,
    /// The entries that the data plane has kept from before this start. They are removed at the end
    /// of `recovery` unless a neighbour claims them.
    pub kept: Vec<(LspKey, Entry)>,
}

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most LSPs.
    pub lsps: usize,
    /// Most neighbours.
    pub neighbours: usize,
}

impl Config {
    /// The defaults for a router without interfaces.
    pub fn new(router: IpAddr, seed: u64) -> Self {
        Self {
            router,
            addresses: Vec::new(),
            interfaces: Vec::new(),
            refresh: Duration::from_secs(30),
            retransmit: Retransmit {
                first: Duration::from_millis(500),
                limit: 7,
                slow: Duration::from_secs(30),
                window: 64,
            },
            hello: Some(HelloSettings { interval: Duration::from_secs(1), by_node: false }),
            independent_refresh: None,
            egress: EgressLabel::ImplicitNull,
            restart: Restart::default(),
            soft_preemption: Duration::from_secs(30),
            limits: Limits { lsps: 100_000, neighbours: 4096 },
            instance: (seed as u32).max(1),
            epoch: (seed >> 32) as u32 & 0x00ff_ffff,
            sequence: 1,
            seed,
        }
    }

    pub(crate) fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.id == id)
    }

    /// Whether an address belongs to the router.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.router == address
            || self.addresses.contains(&address)
            || self.interfaces.iter().any(|interface| interface.addresses.contains(&address))
    }
}

impl Interface {
    /// The source address of messages to `to`.
    pub(crate) fn source(&self, to: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|own| own.is_ipv4() == to.is_ipv4())
    }
}

/// RFC 2205, section 3.7: L >= (K + 0.5) * 1.5 * R with K = 3; 157.5 s if R = 30 s.
pub(crate) fn lifetime(refresh: Duration) -> Duration {
    refresh.saturating_mul(21) / 4
}

/// RFC 2205, section 3.7: a random time between half the period and one and a half periods.
pub(crate) fn jitter(random: &mut Random, period: Duration) -> Duration {
    period.mul_f64(0.5 + random.unit())
}
