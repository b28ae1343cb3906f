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
    /// Its links that have a delay, rate, loss or similar.
    pub links: Vec<LinkStats>,
    /// Its links to other machines.
    #[serde(default)]
    pub tunnels: Vec<TunnelStats>,
    /// Queues of ports that have a rate, reservations or queues.
    pub queues: Vec<QueueStats>,
    /// Its switch, if it runs.
    pub switch: Option<SwitchStats>,
    /// Times that the switch was started again.
    pub switch_restarts: u64,
}

/// The counters and state of a router.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RouterStats {
    /// `slice/router`.
    pub name: String,
    /// `running`, or when it will be started again.
    pub state: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// CPU time that its fast path's processes have used, in nanoseconds; `None` where the
    /// machine does not account it.
    pub cpu_ns: Option<u64>,
    /// CPU time that the kernel spent to put packets from ports into its pool, in nanoseconds:
    /// measured for one packet of 64.
    pub kernel_ns: u64,
    /// Bytes of memory that these processes use in addition to the packet pool; `None` as above.
    pub memory_bytes: Option<u64>,
    /// Bytes of its packet pool.
    pub pool_bytes: u64,
    /// Times that a packet woke it.
    pub wakes: u64,
    /// Its use of the switch, if it runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineStats>,
    /// Packets that passed through its Linux because the fast path may not decide on them, by
    /// reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_linux: Vec<(String, u64)>,
    /// Where its packets are, if that was asked for and its fast path is a Click configuration
    /// that answers.
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
    /// Packets ended by elements whose purpose that is, by element.
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
    /// Most nanoseconds of each of its turns.
    pub budget_ns: u64,
    /// Its turns.
    pub turns: u64,
    /// Nanoseconds of all turns.
    pub spent_ns: u64,
    /// Nanoseconds of the longest turn, including times when the machine stood still.
    pub longest_ns: u64,
    /// Turns that ended because the budget was used up; the next turn continued.
    pub cut: u64,
    /// Turns of more than 16 budgets and 2 ms. The switch ends the router after eight of them in a
    /// row.
    pub overruns: u64,
    /// Packets received.
    pub packets: u64,
    /// Bytes of memory, beside its packet pool and its tables of routes.
    pub memory_bytes: u64,
    /// Most bytes of memory that it may have.
    pub quota_bytes: u64,
    /// Bytes of addresses that its tables of routes reserve; only written ones take memory.
    pub table_bytes: u64,
}

/// An end system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostStats {
    /// Its name.
    pub name: String,
    /// The file of its network namespace.
    pub namespace: String,
    /// Its interfaces.
    pub interfaces: Vec<HostInterfaceStats>,
}

/// A host's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostInterfaceStats {
    /// Its name.
    pub name: String,
    /// Its other end: `link NAME`, `port NAME` or `device NAME`.
    pub to: String,
    /// Its Ethernet address; empty for a device, which has its own.
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
    /// Which end sends: `slice/router.interface`, or `host.interface`.
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
    /// Its interface on this node: `slice/router.interface`, or `host.interface`.
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
    /// Their bytes, without outer headers.
    pub tx_bytes: u64,
    /// Packets that left: more than frames where frames are split.
    pub tx_packets: u64,
    /// Complete frames that arrived.
    pub rx_frames: u64,
    /// Their bytes, without outer headers.
    pub rx_bytes: u64,
    /// Packets that arrived with the right key and epoch.
    pub rx_packets: u64,
    /// Numbers of packets that did not arrive.
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
    /// Packets that its router sent, by result.
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
    /// Frames too short to have a header.
    pub malformed: u64,
    /// Packets that wait to be sent.
    pub queued: usize,
    /// Most packets that have waited.
    pub queued_peak: usize,
    /// Packets that the device lost below Europa.
    pub device_drops: u64,
}

/// Counters of packets in queues of a port, since the start of the switch: in all of them, in a
/// slice's, in a router's, or in one.
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
    /// Histogram of waiting times of departed packets: nanoseconds, and the number of packets that
    /// waited less than that, but at least half of it. Empty classes are left out; the last class
    /// has no upper end.
    pub waited: Vec<(u64, u64)>,
    /// Half of the packets waited less than this, in nanoseconds, to within a factor of two.
    pub waited_p50_ns: u64,
    /// 99 of 100 packets waited less than this.
    pub waited_p99_ns: u64,
}

/// The counters and state of the switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SwitchStats {
    /// CPU time of all switches since the node's start, in nanoseconds; `None` where the machine
    /// does not account it.
    pub cpu_ns: Option<u64>,
    /// Runs of the transmit program.
    pub kicks: u64,
    /// Frames that were sent as live frames.
    pub live_frames: u64,
    /// System calls for sending by sockets.
    pub socket_calls: u64,
    /// Frames that left by a socket.
    pub socket_frames: u64,
    /// Frames that passed links.
    pub link_frames: u64,
    /// Unsegmented packets of TCP (super-packets) that left uncut, by sockets and over links.
    #[serde(default)]
    pub whole_packets: u64,
    /// Super-packets that the switch cut into segments.
    #[serde(default)]
    pub cut_packets: u64,
    /// Packets at UDP ports of tunnels that are of no link of this node.
    #[serde(default)]
    pub foreign_packets: u64,
    /// Packets at sockets of tunnels that are not packets of Europa's tunnels.
    #[serde(default)]
    pub malformed_packets: u64,
    /// Times it slept.
    pub sleeps: u64,
}
