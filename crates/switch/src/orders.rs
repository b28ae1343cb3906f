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

/// How live frames and socket frames of a device are ordered relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ways {
    /// Both go through one queue: a tap, a veth that cuts no segments.
    Join,
    /// They are in two queues, and the kernel can report whether one of them is empty: a veth that
    /// cuts segments.
    Ask,
    /// They are in two queues, which a device empties independently: a network card.
    Part,
}

/// An order. Each is answered by one [`Answer`], in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first order: the switch's descriptors and settings. Descriptors: those of
    /// [`START_DESCRIPTORS`]; before the last of them, those of [`WORKER_DESCRIPTORS`] for each
    /// worker.
    Start {
        /// The number of the switch's workers; see [`port_worker`].
        workers: u32,
        /// The core on which each worker runs.
        cpus: Vec<u32>,
        /// Rows that a counter has.
        counter_rows: u32,
        /// The number of this machine's cores that are available to the switch and the routers.
        cores: u32,
    },
    /// Add a pool. Descriptors: its memory, the waker that the receive program uses, and, if its
    /// router has a process, a pipe that wakes it.
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
        /// The number of the worker that takes the router's packets, and that the router wakes.
        worker: u32,
        /// Whether the router never sleeps; then its worker does not sleep either.
        busy: bool,
    },
    /// Add a router that will run inside this switch, on a pool that the switch serves. The
    /// router's own orders have its settings. Descriptors: its control socket, the socket to which
    /// the next node connects, and its log.
    AddInline {
        /// The number of the pool; the router ends with the pool.
        pool: u32,
    },
    /// Remove a pool, and drop every descriptor that names it.
    RemovePool {
        /// Number of the pool.
        pool: u32,
    },
    /// Add a port. Descriptors: a packet socket bound to the device, the socket through which its
    /// losses are read, and for [`Ways::Ask`] the program of [`europa_substrate::Drained`].
    AddPort {
        /// Number of the port.
        port: u32,
        /// The number of the device in its namespace.
        device: u32,
        /// The device's rate in bits a second, if known.
        rate_bits: Option<u64>,
        /// Whether live frames can be sent by the port.
        live: bool,
        /// Whether live frames and those of a socket leave in the order in which they were sent.
        ways: Ways,
        /// Whether the device cuts a packet of merged TCP segments into the original ones.
        segments: bool,
    },
    /// Set the rate of a port.
    Rate {
        /// Number of the port.
        port: u32,
        /// The device's rate in bits a second, if known.
        rate_bits: Option<u64>,
    },
    /// Replace a port's queues and their order. Waiting packets remain in their queues, if these
    /// remain. The descriptor, if there are queues, is memory of
    /// [`QUEUE_BYTES`](crate::QUEUE_BYTES) for their statistics, always the same for a port.
    Queues {
        /// Number of the port.
        port: u32,
        /// `None`: first in, first out, and each interface up to a share.
        queues: Option<PortQueues>,
    },
    /// Forget a port.
    RemovePort {
        /// Number of the port.
        port: u32,
    },
    /// Add an interface whose transmit ring the worker serves.
    AddInterface {
        /// Number of the interface.
        interface: u32,
        /// Pool of its router.
        pool: u32,
        /// Its number in its router.
        local: u32,
        /// The destination of its frames.
        to: Target,
        /// Source addresses that the interface may use.
        bound: Vec<IpNet>,
        /// The link's effects on packets that the interface sends.
        impairment: Option<Settings>,
        /// The slice whose rules apply to the interface's packets.
        filtered_by: Option<FilteredBy>,
    },
    /// Set the slice whose rules apply to an interface's packets from now on.
    Filter {
        /// Number of the interface.
        interface: u32,
        /// `None` means no rules.
        filtered_by: Option<FilteredBy>,
    },
    /// Set the interfaces of numbers in rules. If an interface is removed, its number means none.
    Ways {
        /// The numbers in rules, with their destinations.
        ways: Vec<(u16, Option<Way>)>,
    },
    /// Add a connection for changes of rules. The descriptor is one end of a connection for
    /// [`FilterOrder`](crate::FilterOrder)s.
    Filters,
    /// Replace the effects of an interface's link. Packets in transit arrive at their time; if the
    /// link has no effects now, at once.
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
    /// socket bound to the local address and port, which is used if no other tunnel has one; and a
    /// UDP socket connected to the other machine.
    Tunnel {
        /// The number of the interface that sends.
        interface: u32,
        /// Its settings.
        settings: TunnelSettings,
    },
    /// Remove the tunnel of an interface.
    RemoveTunnel {
        /// Number of the interface.
        interface: u32,
    },
    /// Return copies of the receiving sockets of tunnels, for a new node. They are sent with
    /// [`Answer::Sockets`].
    TunnelSockets,
    /// Report the counters.
    Stats,
    /// List the served objects, for a node that has just started.
    Describe,
}

/// The process that fills a pool's receive rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolOf {
    /// A router's process.
    Process,
    /// A router that runs inside the switch.
    Inline,
    /// No router: the switch passes the frames on. See the node's relays.
    Relay,
}

/// Descriptors that come with [`Order::Start`], in this order. A descriptor of one of the
/// substrate's maps has that map's name. The next node connects to the last one.
pub const START_DESCRIPTORS: [&str; 11] = [
    "interfaces",
    "encap",
    "pool_state",
    "counters",
    "transmit_list",
    "workers",
    "tap_state",
    "status page",
    "held slots",
    "tap memory",
    "listening socket",
];

/// Descriptors of each worker in [`Order::Start`].
pub const WORKER_DESCRIPTORS: [&str; 3] =
    ["transmit program", "doorbell", "what rings the doorbell"];

/// The worker that sends by a port, if there are `workers` workers.
pub fn port_worker(port: u32, workers: u32) -> u32 {
    port % workers.max(1)
}

/// A port's queues: slices, their routers, and the routers' queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortQueues {
    /// The port's rate.
    pub rate: Option<Rate>,
    /// Slices that send by the port, each once.
    pub slices: Vec<SliceQueues>,
}

/// A slice's part of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceQueues {
    /// Its name.
    pub name: String,
    /// Its part.
    pub share: Share,
    /// The slice's routers that send by the port, each once.
    pub routers: Vec<RouterQueues>,
}

/// A router's part of its slice's share of a port.
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
    /// The queue's number, unique in the slice; 0 for an interface's own queue, for packets that
    /// name no other.
    pub number: u16,
    /// Number of the interface.
    pub interface: u32,
    /// Its settings.
    pub settings: QueueSettings,
    /// For an interface's own queue: packets are not dropped, but the interface waits.
    pub holds: bool,
}

impl QueueOf {
    /// The queue's identity among its router's queues.
    pub(crate) fn key(&self) -> (u16, u32) {
        (self.number, if self.number == 0 { self.interface } else { 0 })
    }
}

/// The destination of an interface's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// Out by a port.
    Port(u32),
    /// The pool of the router that has this interface.
    Link(u32),
    /// Another machine, through the interface's own tunnel.
    Tunnel,
}

/// The slice whose rules apply to an interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilteredBy {
    /// Number of the slice among filters.
    pub slice: u16,
    /// The number of this interface in the slice's rules; 0 if no rule names it.
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
    /// Whether the packets get that interface's Ethernet address as source.
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
    /// The places of the statistics of a port's queues: of each slice, then of each of its routers,
    /// then of each of that router's queues.
    Places(Vec<u32>),
    /// The local addresses of the sockets that are sent with the answer, in order.
    Sockets(Vec<SocketAddr>),
}

/// The objects that a switch serves, in the form of orders.
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
    /// The numbers of pools whose routers run inside the switch.
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

/// The geometry that [`Order::AddPool`] describes.
pub fn geometry(slots: u32, slot_bytes: u32, interfaces: u32) -> Geometry {
    Geometry { slots, slot_bytes, interfaces }
}
