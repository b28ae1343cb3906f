//! All counters and states: the JSON of `/v1/stats`.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The counters and state of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodeStats {
    /// Time of the reading: nanoseconds of the machine's monotonic clock. A rate is a counter's
    /// difference divided by the difference of this time.
    pub at_ns: u64,
    /// Its routers.
    pub routers: Vec<RouterStats>,
    /// Its ports.
    pub ports: Vec<PortStats>,
    /// Its hosts.
    pub hosts: Vec<HostStats>,
    /// Links that have a delay, rate, loss or similar.
    pub links: Vec<LinkStats>,
    /// Its links to other machines.
    #[serde(default)]
    pub tunnels: Vec<TunnelStats>,
    /// Queues of ports that have a rate, reservations or queues.
    pub queues: Vec<QueueStats>,
    /// Its switch, if it runs.
    pub switch: Option<SwitchStats>,
    /// Number of times that the switch was restarted.
    pub switch_restarts: u64,
}

/// The counters and state of a router.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RouterStats {
    /// `slice/router`.
    pub name: String,
    /// `running`, or the time when the router will be started again.
    pub state: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// CPU time that the processes of the router's fast path have used, in nanoseconds; `None` if
    /// the machine does not account it.
    pub cpu_ns: Option<u64>,
    /// CPU time that the kernel has spent on putting packets from ports into the router's pool, in
    /// nanoseconds; it is measured for one packet of 64.
    pub kernel_ns: u64,
    /// Bytes of memory that these processes use in addition to the packet pool; `None` if the
    /// machine does not account it.
    pub memory_bytes: Option<u64>,
    /// Bytes of its packet pool.
    pub pool_bytes: u64,
    /// Times that a packet woke it.
    pub wakes: u64,
    /// The router's use of the switch, if it runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineStats>,
    /// Packets that passed through the router's Linux because the fast path may not decide on them,
    /// by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_linux: Vec<(String, u64)>,
    /// The places of the router's packets, if they were requested and the fast path is a Click
    /// configuration that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerStats>,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceStats>,
}

/// Packets that reached a router's elements since the router was started, by origin and by result.
/// At rest `received + made + copied = sent + to_linux + consumed + dropped + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerStats {
    /// Packets taken from receive rings.
    pub received: u64,
    /// Packets made by elements.
    pub made: u64,
    /// Copies of packets made by elements.
    pub copied: u64,
    /// Packets put into transmit rings.
    pub sent: u64,
    /// Packets put into the transmit rings that lead to the router's own Linux.
    pub to_linux: u64,
    /// Packets ended by elements that consume packets on purpose, by element.
    pub consumed: Vec<(String, u64)>,
    /// Packets lost in the router, by cause.
    pub dropped: Vec<(String, u64)>,
    /// Packets that wait in elements.
    pub held: u64,
}

/// Packets that an interface offered in its transmit ring since the interface was made, by result.
/// At rest `offered = sent + elsewhere + dropped + waiting`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SendingStats {
    /// Packets taken from the ring, or sent to this interface by a rule or an XDP program; copies
    /// that a link or a rule has made count as well.
    pub offered: u64,
    /// Packets that left.
    pub sent: u64,
    /// Packets that a rule sent to another interface, or back to the router.
    pub elsewhere: u64,
    /// Packets lost, by cause.
    pub dropped: Vec<(String, u64)>,
    /// Packets that wait in queues or on the link.
    pub waiting: u64,
}

/// The counters of a router inside the switch, since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineStats {
    /// Most nanoseconds of each turn of the router.
    pub budget_ns: u64,
    /// Its turns.
    pub turns: u64,
    /// Nanoseconds of all turns.
    pub spent_ns: u64,
    /// Nanoseconds of the longest turn, including times when the machine stopped.
    pub longest_ns: u64,
    /// Turns that ended because the budget was used up, and that the next turn continued.
    pub cut: u64,
    /// Turns of more than 16 budgets and 2 ms. The switch ends the router after eight such turns in
    /// a row.
    pub overruns: u64,
    /// Packets received.
    pub packets: u64,
    /// Bytes of memory, without the router's packet pool and its tables of routes.
    pub memory_bytes: u64,
    /// Most bytes of memory that the router may have.
    pub quota_bytes: u64,
    /// Bytes of addresses that the router's tables of routes reserve; only written ones occupy
    /// memory.
    pub table_bytes: u64,
}

/// An end system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostStats {
    /// Its name.
    pub name: String,
    /// The file of the host's network namespace.
    pub namespace: String,
    /// Its interfaces.
    pub interfaces: Vec<HostInterfaceStats>,
}

/// A host's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostInterfaceStats {
    /// Its name.
    pub name: String,
    /// The interface's other end: `link NAME`, `port NAME` or `device NAME`.
    pub to: String,
    /// The interface's Ethernet address; empty for a device, which has its own.
    pub mac: String,
    /// Its addresses.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpNet>,
}

/// The counters of one direction of a link, since the switch was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LinkStats {
    /// Its name.
    pub name: String,
    /// The end that sends: `slice/router.interface`, or `host.interface`.
    pub from: String,
    /// Packets that entered.
    pub packets: u64,
    /// Packets in transit.
    pub waiting: u64,
    /// Packets lost, by cause; causes that never happened are left out.
    pub drops: Vec<(String, u64)>,
    /// Packets that overtook others.
    pub reordered: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets with a wrong bit.
    pub corrupted: u64,
}

/// The counters of one end of a link to another machine, since the switch was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TunnelStats {
    /// The link's name.
    pub name: String,
    /// The interface on this node: `slice/router.interface`, or `host.interface`.
    pub end: String,
    /// This node's address.
    pub local: String,
    /// The other node's address.
    pub remote: String,
    /// The UDP port of both.
    pub port: u16,
    /// The link's number.
    pub id: u32,
    /// The epoch in packets that this node sends.
    pub epoch: u64,
    /// Frames that left.
    pub tx_frames: u64,
    /// Bytes of these frames, without outer headers.
    pub tx_bytes: u64,
    /// Packets that left; if frames are split, these are more than the frames.
    pub tx_packets: u64,
    /// Complete frames that arrived.
    pub rx_frames: u64,
    /// Bytes of these frames, without outer headers.
    pub rx_bytes: u64,
    /// Packets that arrived with the valid key and epoch.
    pub rx_packets: u64,
    /// Packets that did not arrive, according to their numbers.
    pub lost: u64,
    /// Packets that arrived after later ones.
    pub reordered: u64,
    /// Packets and frames dropped, by cause; causes that never happened are left out.
    pub drops: Vec<(String, u64)>,
}

/// Counters of an interface, since it was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStats {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Its addresses.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpNet>,
    /// Packets put into its ring.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that left.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets lost, by cause; causes that never happened are left out.
    pub drops: Vec<(String, u64)>,
    /// Packets that the interface's router sent, by result.
    #[serde(default)]
    pub sending: SendingStats,
}

/// The counters and state of a port.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PortStats {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Frames passed on to Linux.
    pub to_linux: u64,
    /// Copies of broadcasts that were not made, because of their rate.
    pub copies_refused: u64,
    /// Frames that are too short for a header.
    pub malformed: u64,
    /// Packets that wait to be sent.
    pub queued: usize,
    /// Most packets that have waited.
    pub queued_peak: usize,
    /// Packets that the device lost below Europa.
    pub device_drops: u64,
}

/// Counters of packets in queues of a port, since the start of the switch: in all queues, in those
/// of a slice or a router, or in one queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct QueueStats {
    /// The port.
    pub port: String,
    /// The slice; `None` for the whole port.
    pub slice: Option<String>,
    /// The router, by its name in the slice; `None` for the whole slice.
    pub router: Option<String>,
    /// The interface; `None` for the whole router.
    pub interface: Option<String>,
    /// The queue's number; 0 for the interface's own.
    pub queue: Option<u16>,
    /// Packets that left.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that wait now.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Most packets that have waited.
    pub peak: u64,
    /// Most bytes that have waited.
    pub peak_bytes: u64,
    /// Packets that left with a mark (RFC 3168).
    pub marks: u64,
    /// Packets dropped, by cause; causes that never happened are left out.
    pub drops: Vec<(String, u64)>,
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Histogram of waiting times of departed packets. Each class has an upper bound in
    /// nanoseconds, and the number of packets that waited less than that, but at least half of it.
    /// Empty classes are left out; the last class has no upper bound.
    pub waited: Vec<(u64, u64)>,
    /// Half of the packets waited less than this, in nanoseconds, to within a factor of two.
    pub waited_p50_ns: u64,
    /// 99 of 100 packets waited less than this.
    pub waited_p99_ns: u64,
}

/// The counters and state of the switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SwitchStats {
    /// CPU time of all switches since the node's start, in nanoseconds; `None` if the machine does
    /// not account it.
    pub cpu_ns: Option<u64>,
    /// Runs of the transmit program.
    pub kicks: u64,
    /// Frames that were sent as live frames.
    pub live_frames: u64,
    /// System calls that sent frames by sockets.
    pub socket_calls: u64,
    /// Frames that left by a socket.
    pub socket_frames: u64,
    /// Frames that passed links.
    pub link_frames: u64,
    /// Packets at UDP ports of tunnels that belong to no link of this node.
    #[serde(default)]
    pub foreign_packets: u64,
    /// Packets at sockets of tunnels that are not packets of Europa's tunnels.
    #[serde(default)]
    pub malformed_packets: u64,
    /// Times it slept.
    pub sleeps: u64,
}
