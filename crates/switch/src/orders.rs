//! The node's orders, and a switch's answers.

mod stats;
mod tunnel;

use std::net::SocketAddr;

use europa_impair::Settings;
use europa_pool::Geometry;
use europa_queue::{QueueSettings, Rate, Share};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use self::stats::{InlineStats, LinkStats, PortStats, SwitchStats};
pub use self::tunnel::{TunnelSettings, TunnelStats};

/// How live frames and socket frames of a device are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ways {
    /// They join in one queue: a tap, a veth that cuts no segments.
    Join,
    /// They are two queues, and the kernel can be asked whether one of them is empty: a veth that
    /// cuts segments.
    Ask,
    /// They are two queues, which a device empties independently: a network card.
    Part,
}

/// An order. Each is answered by one [`Answer`], in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first: its descriptors and settings. Descriptors: those of [`START_DESCRIPTORS`], before
    /// the last of them those of [`WORKER_DESCRIPTORS`] for each worker.
    Start {
        /// Number of its workers; see [`port_worker`].
        workers: u32,
        /// The core on which each of them runs.
        cpus: Vec<u32>,
        /// Rows that a counter has.
        counter_rows: u32,
        /// Cores that this machine has for it and the routers.
        cores: u32,
    },
    /// A pool to serve. Descriptors: its memory, the waker that the receive program uses,
    /// and, if its router has a process, a pipe that wakes it.
    AddPool {
        /// Number of the pool.
        pool: u32,
        /// Number of slots.
        slots: u32,
        /// Bytes of a slot.
        slot_bytes: u32,
        /// Number of interfaces.
        interfaces: u32,
        /// The process that fills its receive rings.
        of: PoolOf,
        /// Number of the worker that takes its router's packets, and that its router wakes.
        worker: u32,
        /// Whether its router never sleeps, and so its worker does not either.
        busy: bool,
    },
    /// A router that will run inside this switch, on a pool that it serves. The router's own orders
    /// have its settings. Descriptors: its control socket, the socket to which the next node
    /// connects, and its log.
    AddInline {
        /// Number of the pool; the router ends with it.
        pool: u32,
    },
    /// Forget a pool and drop every descriptor that names it.
    RemovePool {
        /// Number of the pool.
        pool: u32,
    },
    /// An output. Descriptors: a packet socket bound to the device, the socket through which its
    /// losses are read, and for [`Ways::Ask`] the program of [`europa_substrate::Drained`].
    AddPort {
        /// Number of the port.
        port: u32,
        /// Number of the device in its namespace.
        device: u32,
        /// Its rate in bits a second, if known.
        rate_bits: Option<u64>,
        /// Whether live frames can be sent by it.
        live: bool,
        /// Whether live frames and those of a socket leave in the order in which they were sent.
        ways: Ways,
        /// Whether the device cuts a packet of merged TCP segments into the original ones.
        segments: bool,
    },
    /// The rate of a port from now on.
    Rate {
        /// Number of the port.
        port: u32,
        /// Its rate in bits a second, if known.
        rate_bits: Option<u64>,
    },
    /// Replace a port's queues and their order. Waiting packets stay in their queues, if these
    /// stay. Descriptor, with queues: memory of [`QUEUE_BYTES`](crate::QUEUE_BYTES) for their
    /// statistics, always the same for a port.
    Queues {
        /// Number of the port.
        port: u32,
        /// Without it: first in, first out, each interface up to a share.
        queues: Option<PortQueues>,
    },
    /// Forget a port.
    RemovePort {
        /// Number of the port.
        port: u32,
    },
    /// An interface whose transmit ring the worker serves.
    AddInterface {
        /// Number of the interface.
        interface: u32,
        /// Pool of its router.
        pool: u32,
        /// Its number in its router.
        local: u32,
        /// The destination of its frames.
        to: Target,
        /// Source addresses it is bound to.
        bound: Vec<IpNet>,
        /// The link's effects on packets that the interface sends.
        impairment: Option<Settings>,
        /// The slice whose rules hold for its packets.
        filtered_by: Option<FilteredBy>,
    },
    /// The slice whose rules hold for an interface's packets from now on.
    Filter {
        /// Number of the interface.
        interface: u32,
        /// None: no rules.
        filtered_by: Option<FilteredBy>,
    },
    /// Set the interfaces of numbers in rules. If an interface is removed, its number means none.
    Ways {
        /// The numbers in rules, with their destinations.
        ways: Vec<(u16, Option<Way>)>,
    },
    /// A new connection for changes of rules. Descriptor: one end of a connection for
    /// [`FilterOrder`](crate::FilterOrder)s.
    Filters,
    /// Replace the effects of an interface's link. Packets in transit arrive at their time; without
    /// an impairment, at once.
    Impair {
        /// Number of the interface.
        interface: u32,
        /// The link's effects on packets that the interface sends.
        impairment: Option<Settings>,
    },
    /// Forget an interface.
    RemoveInterface {
        /// Number of the interface.
        interface: u32,
    },
    /// Set the tunnel of an interface to another machine, in both directions. Descriptors: a UDP
    /// socket bound to the local address and port, which is used if no other tunnel has one, and a
    /// UDP socket connected to the other machine.
    Tunnel {
        /// Number of the interface that sends.
        interface: u32,
        /// Its settings.
        settings: TunnelSettings,
    },
    /// Forget the tunnel of an interface.
    RemoveTunnel {
        /// Number of the interface.
        interface: u32,
    },
    /// Hand over copies of the receiving sockets of tunnels, for a new node. They are sent with
    /// [`Answer::Sockets`].
    TunnelSockets,
    /// Report the counters.
    Stats,
    /// List the served objects: for a node that has just started.
    Describe,
}

/// The process that fills a pool's receive rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolOf {
    /// A router's process.
    Process,
    /// A router that runs inside the switch.
    Inline,
    /// No router: the switch passes it on. See the node's relays.
    Relay,
}

/// Descriptors that come with [`Order::Start`], in this order; the names are those of the
/// substrate's maps where there is one. The next node connects to the last one.
pub const START_DESCRIPTORS: [&str; 12] = [
    "interfaces",
    "encap",
    "pool_state",
    "counters",
    "transmit_list",
    "workers",
    "tap_state",
    "fence",
    "status page",
    "held slots",
    "tap memory",
    "listening socket",
];

/// Descriptors of each worker in [`Order::Start`].
pub const WORKER_DESCRIPTORS: [&str; 3] =
    ["transmit program", "doorbell", "what rings the doorbell"];

/// The worker that sends by a port, of `workers` workers.
pub fn port_worker(port: u32, workers: u32) -> u32 {
    port % workers.max(1)
}

/// A port's queues: slices, their routers, the routers' queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortQueues {
    /// The port's rate.
    pub rate: Option<Rate>,
    /// Slices that send by it, each once.
    pub slices: Vec<SliceQueues>,
}

/// A slice's part of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceQueues {
    /// Its name.
    pub name: String,
    /// Its part.
    pub share: Share,
    /// Its routers that send by the port, each once.
    pub routers: Vec<RouterQueues>,
}

/// A router's part of its slice's part of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouterQueues {
    /// Its name.
    pub name: String,
    /// Its part.
    pub share: Share,
    /// Its queues.
    pub queues: Vec<QueueOf>,
}

/// A queue of a router on a port.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueOf {
    /// Its number, unique in the slice; 0 for an interface's own, for packets that name no other.
    pub number: u16,
    /// Number of the interface.
    pub interface: u32,
    /// Its settings.
    pub settings: QueueSettings,
    /// For an interface's own: packets are not dropped, but the interface waits.
    pub holds: bool,
}

impl QueueOf {
    /// Its identity among its router's queues.
    pub(crate) fn key(&self) -> (u16, u32) {
        (self.number, if self.number == 0 { self.interface } else { 0 })
    }
}

/// The destination of an interface's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// Out by a port.
    Port(u32),
    /// Into the pool of the router that has this interface.
    Link(u32),
    /// Another machine, by the interface's own tunnel.
    Tunnel,
}

/// The slice whose rules hold for an interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilteredBy {
    /// Number of the slice among filters.
    pub slice: u16,
    /// Number of this interface in the slice's rules; 0 if none of them names it.
    pub interface: u16,
    /// The interface that leads to the router's own Linux.
    pub linux: Option<u32>,
}

/// How rules send packets by another interface of the same router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Number of the interface.
    pub interface: u32,
    /// The new destination address; unchanged by default.
    pub destination: Option<[u8; 6]>,
    /// Whether they get that interface's Ethernet address as source.
    pub own_source: bool,
}

/// A switch's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The order was carried out.
    Done,
    /// The order was refused, and changed nothing.
    Refused(String),
    /// The counters.
    Stats(SwitchStats),
    /// The objects that it serves.
    Served(Served),
    /// The places of the statistics of a port's queues: those of each slice, after it of each of
    /// its routers, after that of each of its queues.
    Places(Vec<u32>),
    /// The local addresses of the sockets that are sent with it, in order.
    Sockets(Vec<SocketAddr>),
}

/// The objects that a switch serves, as orders have them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Served {
    /// Numbers of pools.
    pub pools: Vec<u32>,
    /// Numbers of ports.
    pub ports: Vec<u32>,
    /// Interfaces.
    pub interfaces: Vec<ServedInterface>,
    /// Tunnels, by number of the sending interface.
    pub tunnels: Vec<(u32, TunnelSettings)>,
    /// Numbers of pools whose routers run inside it.
    pub inline: Vec<u32>,
}

/// An interface that a switch serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServedInterface {
    /// Its number.
    pub interface: u32,
    /// Pool of its router.
    pub pool: u32,
    /// The destination of its frames.
    pub to: Target,
    /// The link's effects on packets that the interface sends.
    pub impairment: Option<Settings>,
}

/// The geometry of [`Order::AddPool`].
pub fn geometry(slots: u32, slot_bytes: u32, interfaces: u32) -> Geometry {
    Geometry { slots, slot_bytes, interfaces }
}
