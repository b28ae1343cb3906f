//! Counters, as the REST interface shows them.

use std::time::Duration;

use europa_api::stats::{InlineStats, InterfaceStats, LinkStats, QueueStats, SendingStats};
use europa_plan::InterfacePlan;
use europa_router::GuestStats;
use europa_sandbox::cgroup::Group;
use europa_switch::orders::InlineStats as InlineOfSwitch;
use nix::time::{ClockId, clock_gettime};

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
const RECEIVING: usize = 7;

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
        ("foreign source MAC address", c.tx_drop_source),
        ("source address not bound", c.tx_drop_address),
        ("VLAN tag not allowed", c.tx_drop_vlan),
        ("bad length", c.tx_drop_length),
        ("pool gone", c.tx_drop_pool),
        ("port queue full", c.tx_drop_queue),
        ("refused by the device", c.tx_drop_device),
        ("link full", c.tx_drop_link),
        ("dropped by a filter", c.tx_drop_filter),
        ("too many kernel routers in a row", c.tx_drop_hops),
        ("too long for a kernel router's link", c.tx_drop_live),
        ("held by a switch that has ended", c.tx_drop_switch),
    ];
    // Links tell of these themselves.
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

/// Adds the packets that an interface's link and queues hold.
pub(crate) fn add_way(
    sending: &mut SendingStats,
    link: Option<&LinkStats>,
    queues: &[QueueStats],
    (slice, router, interface): (&str, &str, &str),
) {
    if let Some(link) = link {
        sending.waiting += link.waiting;
    }
    let is_own = |queue: &&QueueStats| {
        queue.slice.as_deref() == Some(slice)
            && queue.router.as_deref() == Some(router)
            && queue.interface.as_deref() == Some(interface)
    };
    sending.waiting += queues.iter().filter(is_own).map(|queue| queue.waiting).sum::<u64>();
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
