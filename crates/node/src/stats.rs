//! Counters, as the REST interface shows them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use europa_api::stats::{
    InlineStats, InterfaceStats, LinkStats, NodeStats, PortStats, QueueStats, RouterStats,
    SendingStats,
};
use europa_plan::{InterfacePlan, RouterId};
use europa_router::GuestStats;
use europa_sandbox::cgroup::Group;
use europa_switch::orders::{
    InlineStats as InlineOfSwitch, LinkStats as LinkOfSwitch, PortStats as PortOfSwitch,
    SwitchStats as StatsOfSwitch,
};
use nix::time::{ClockId, clock_gettime};

use crate::ports::Look;
use crate::queues::Counters;

/// Counters that have been gathered so far.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Those of the node and its hosts.
    pub(crate) stats: NodeStats,
    /// Those of queues, still to be read.
    pub(crate) queues: Counters,
    pub(crate) switch: OfSwitch,
    /// Routers whose counters are still missing.
    pub(crate) routers: Vec<RouterId>,
    /// The same of ports.
    pub(crate) ports: Vec<String>,
    /// Routers and their ends of links.
    pub(crate) of_routers: Vec<(RouterStats, Vec<End>)>,
    /// Hosts' ends of links.
    pub(crate) of_hosts: Vec<End>,
    /// Ports, with the looks at their devices.
    pub(crate) of_ports: Vec<(PortStats, Arc<Look>)>,
}

/// The switch's counters of other objects.
#[derive(Default)]
pub(crate) struct OfSwitch {
    /// Routers inside it, by pool.
    pub(crate) inline: HashMap<u32, InlineOfSwitch>,
    /// Ports, by number.
    pub(crate) ports: HashMap<u32, PortOfSwitch>,
    /// Links, by the interface that sends.
    links: HashMap<u32, LinkOfSwitch>,
}

/// An end of a link, which sends.
pub(crate) struct End {
    pub(crate) interface: u32,
    pub(crate) link: String,
    /// The object that sends: `SLICE/ROUTER.INTERFACE`, or `HOST.INTERFACE`.
    pub(crate) from: String,
}

impl From<StatsOfSwitch> for OfSwitch {
    fn from(all: StatsOfSwitch) -> Self {
        Self {
            inline: all.inline.into_iter().map(|one| (one.pool, one)).collect(),
            ports: all.ports.into_iter().map(|one| (one.port, one)).collect(),
            links: all.links.into_iter().map(|one| (one.interface, one)).collect(),
        }
    }
}

impl Gathered {
    /// All counters in the form for users.
    pub(crate) fn told(self, switch: &OfSwitch) -> NodeStats {
        let Self { mut stats, queues, of_routers, of_hosts, of_ports, .. } = self;
        stats.queues = queues.read();
        let ports = of_ports.into_iter();
        stats.ports =
            ports.map(|(port, look)| PortStats { device_drops: look.lost(), ..port }).collect();
        let ends = of_routers.iter().flat_map(|(_, ends)| ends).chain(&of_hosts);
        let links = ends.filter_map(|end| {
            let found = switch.links.get(&end.interface)?;
            Some(link(end.link.clone(), end.from.clone(), &found.packets))
        });
        stats.links = links.collect();
        stats.routers = of_routers.into_iter().map(|(router, _)| router).collect();
        let ways = Ways::new(&stats.links, &stats.queues);
        for router in &mut stats.routers {
            for interface in &mut router.interfaces {
                interface.sending.waiting += ways.waiting(&router.name, &interface.name);
            }
        }
        stats
    }
}

/// Packets that links and queues hold, by the interface that sent them.
struct Ways {
    links: HashMap<String, u64>,
    queues: HashMap<(String, String), u64>,
}

impl Ways {
    fn new(links: &[LinkStats], queues: &[QueueStats]) -> Self {
        let mut ways = Self { links: HashMap::new(), queues: HashMap::new() };
        for link in links {
            ways.links.entry(link.from.clone()).or_insert(link.waiting);
        }
        for queue in queues {
            if let (Some(slice), Some(router), Some(interface)) =
                (&queue.slice, &queue.router, &queue.interface)
            {
                let key = (format!("{slice}/{router}"), interface.clone());
                *ways.queues.entry(key).or_default() += queue.waiting;
            }
        }
        ways
    }

    fn waiting(&self, router: &str, interface: &str) -> u64 {
        let on_link = self.links.get(&format!("{router}.{interface}")).copied();
        let queued = self.queues.get(&(router.to_owned(), interface.to_owned())).copied();
        on_link.unwrap_or_default() + queued.unwrap_or_default()
    }
}

/// The machine's monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time that a group has used, where the machine accounts it.
pub(crate) fn cpu_ns(group: Option<&Group>) -> Option<u64> {
    u64::try_from(group?.cpu_time().ok()??.as_nanos()).ok()
}

/// Memory that a group uses, where the machine accounts it.
pub(crate) fn memory_bytes(group: Option<&Group>) -> Option<u64> {
    group?.memory_bytes().ok()?
}

/// Causes of drops before a router has a packet.
const RECEIVING: usize = 8;

/// The counters of an interface; causes of drops that never happened are left out.
pub(crate) fn interface(
    planned: &InterfacePlan,
    c: &europa_substrate::layout::Counters,
) -> InterfaceStats {
    let drops = [
        ("receive ring full", c.rx_drop_ring),
        ("no free slot", c.rx_drop_slots),
        ("too long for a slot", c.rx_drop_long),
        ("over the reserved rate in", c.rx_drop_rate),
        ("dropped by the XDP program", c.rx_drop_program),
        ("XDP program aborted", c.rx_drop_aborted),
        ("redirected to no device", c.rx_drop_target),
        ("fenced: no lease, in", c.rx_drop_fenced),
        ("foreign source MAC address", c.tx_drop_source),
        ("source address not bound", c.tx_drop_address),
        ("VLAN tag not allowed", c.tx_drop_vlan),
        ("bad length", c.tx_drop_length),
        ("pool gone", c.tx_drop_pool),
        ("port queue full", c.tx_drop_queue),
        ("refused by the device", c.tx_drop_device),
        ("link full", c.tx_drop_link),
        ("dropped by a filter", c.tx_drop_filter),
        ("fenced: no lease, out", c.tx_drop_fenced),
        ("too many kernel routers in a row", c.tx_drop_hops),
        ("too long for a kernel router's link", c.tx_drop_live),
        ("held by a switch that has ended", c.tx_drop_switch),
    ];
    // Links report these themselves.
    let line = told(&[("lost on the link", c.tx_drop_line)]);
    InterfaceStats {
        name: planned.name.clone(),
        mac: europa_api::Mac(planned.spec.mac).to_string(),
        addresses: planned.addresses.clone(),
        rx_packets: c.rx_packets,
        rx_bytes: c.rx_bytes,
        tx_packets: c.tx_packets,
        tx_bytes: c.tx_bytes,
        sending: SendingStats {
            offered: c.tx_offered,
            sent: c.tx_packets,
            elsewhere: c.tx_elsewhere,
            dropped: told(&drops[RECEIVING..]).into_iter().chain(line).collect(),
            waiting: 0,
        },
        drops: told(&drops),
    }
}

/// Causes that happened.
fn told(drops: &[(&str, u64)]) -> Vec<(String, u64)> {
    let happened = drops.iter().filter(|(_, count)| *count > 0);
    happened.map(|(cause, count)| ((*cause).to_owned(), *count)).collect()
}

/// A router inside the switch.
pub(crate) fn inline(found: &InlineOfSwitch) -> InlineStats {
    let GuestStats {
        budget_ns,
        turns,
        spent_ns,
        longest_ns,
        cut,
        overruns,
        packets,
        memory_bytes,
        quota_bytes,
        table_bytes,
    } = found.router;
    InlineStats {
        budget_ns,
        turns,
        spent_ns,
        longest_ns,
        cut,
        overruns,
        packets,
        memory_bytes,
        quota_bytes,
        table_bytes,
    }
}

/// One direction of a link.
pub(crate) fn link(name: String, from: String, found: &europa_impair::Statistics) -> LinkStats {
    let drops = [
        ("lost on the link", found.lost),
        ("link's queue full", found.over_limit),
        ("sender's pool used up", found.over_share),
    ];
    LinkStats {
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
