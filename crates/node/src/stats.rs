//! What is told about everything: the JSON of `europa stats --json`.

use serde::{Deserialize, Serialize};

use crate::plan::InterfacePlan;

/// How a node goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
    pub switch: Option<europa_switch::orders::SwitchStats>,
    /// Times that the switch was started again.
    pub switch_restarts: u64,
}

/// How a router goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStats {
    /// Its name.
    pub name: String,
    /// The file of its network namespace.
    pub namespace: String,
    /// Its interfaces.
    pub interfaces: Vec<HostInterfaceStats>,
}

/// A host's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInterfaceStats {
    /// Its name.
    pub name: String,
    /// What it is attached to: `link NAME`, `port NAME` or `device NAME`.
    pub to: String,
    /// Its Ethernet address; empty for a device, which keeps its own.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<ipnet::IpNet>,
}

/// How one direction of a link goes, since the switch was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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

impl LinkStats {
    pub(crate) fn of(name: String, from: String, found: &europa_impair::Statistics) -> Self {
        let drops = [
            ("lost on the link", found.lost),
            ("link's queue full", found.over_limit),
            ("sender's pool used up", found.over_share),
        ];
        Self {
            name,
            from,
            packets: found.packets,
            waiting: found.waiting,
            drops: drops
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(cause, count)| (cause.to_owned(), count))
                .collect(),
            reordered: found.reordered,
            duplicated: found.duplicated,
            corrupted: found.corrupted,
        }
    }
}

/// Counters of an interface, since it was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InterfaceStats {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<ipnet::IpNet>,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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

impl InterfaceStats {
    pub(crate) fn of(planned: &InterfacePlan, c: &europa_substrate::layout::Counters) -> Self {
        let drops = [
            ("receive ring full", c.rx_drop_ring),
            ("no free slot", c.rx_drop_slots),
            ("too long for a slot", c.rx_drop_long),
            ("foreign source MAC address", c.tx_drop_source),
            ("source address not bound", c.tx_drop_address),
            ("VLAN tag not allowed", c.tx_drop_vlan),
            ("bad length", c.tx_drop_length),
            ("pool gone", c.tx_drop_pool),
            ("port queue full", c.tx_drop_queue),
            ("refused by the device", c.tx_drop_device),
            ("link full", c.tx_drop_link),
        ];
        Self {
            name: planned.name.clone(),
            mac: europa_api::Mac(planned.spec.mac).to_string(),
            addresses: planned.addresses.clone(),
            rx_packets: c.rx_packets,
            rx_bytes: c.rx_bytes,
            tx_packets: c.tx_packets,
            tx_bytes: c.tx_bytes,
            drops: drops
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(cause, count)| (cause.to_owned(), count))
                .collect(),
        }
    }
}
