//! What is told about everything: the JSON of `/v1/stats`.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodeStats {
    /// Its routers.
    pub routers: Vec<RouterStats>,
    /// Its ports.
    pub ports: Vec<PortStats>,
    /// Its hosts.
    pub hosts: Vec<HostStats>,
    /// Its links, as far as they do something to packets.
    pub links: Vec<LinkStats>,
    /// Its switch, if it runs.
    pub switch: Option<SwitchStats>,
    /// Times that the switch was started again.
    pub switch_restarts: u64,
}

/// How a router goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RouterStats {
    /// `slice/router`.
    pub name: String,
    /// `running`, or when it will be started again.
    pub state: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Times that it was started again.
    pub restarts: u64,
    /// Bytes of its packet pool.
    pub pool_bytes: u64,
    /// Times that a packet woke it.
    pub wakes: u64,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceStats>,
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
    /// What it is attached to: `link NAME`, `port NAME` or `device NAME`.
    pub to: String,
    /// Its Ethernet address; empty for a device, which keeps its own.
    pub mac: String,
    /// Its addresses.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpNet>,
}

/// How one direction of a link goes, since the switch was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LinkStats {
    /// Its name.
    pub name: String,
    /// Which end sends: `slice/router.interface`, or `host.interface`.
    pub from: String,
    /// Packets that came in.
    pub packets: u64,
    /// Packets on the way now.
    pub waiting: u64,
    /// Packets lost, by cause; causes that never happened are left out.
    pub drops: Vec<(String, u64)>,
    /// Packets that overtook others.
    pub reordered: u64,
    /// Packets that came twice.
    pub duplicated: u64,
    /// Packets with a wrong bit.
    pub corrupted: u64,
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
}

/// How a port goes.
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

/// How the switch goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SwitchStats {
    /// Runs of the transmit program.
    pub kicks: u64,
    /// Frames that left as live frames.
    pub live_frames: u64,
    /// System calls of the socket way.
    pub socket_calls: u64,
    /// Frames that left by a socket.
    pub socket_frames: u64,
    /// Frames that went over links.
    pub link_frames: u64,
    /// Times it slept.
    pub sleeps: u64,
}
