//! Links to other machines.

use std::fmt;

use europa_api::stats::{NodeStats, TunnelStats};
use prometheus_client::encoding::DescriptorEncoder;

use super::{Labels, counter, drops};

/// Adds the counters of links to other machines.
pub(super) fn all(stats: &NodeStats, to: &mut DescriptorEncoder) -> fmt::Result {
    let of = |tunnel: &TunnelStats, direction: &'static str, count: u64| {
        let labels: Labels<'_> = vec![("direction", direction)];
        (labels, tunnel.name.clone(), count)
    };
    let both = |counts: fn(&TunnelStats) -> [u64; 2]| {
        let all = stats.tunnels.iter().flat_map(move |tunnel| {
            let [out, into] = counts(tunnel);
            [of(tunnel, "out", out), of(tunnel, "in", into)]
        });
        all.collect::<Vec<_>>()
    };
    for (name, help, counts) in [
        (
            "tunnel_frames",
            "Frames of links to other machines.",
            both(|t| [t.tx_frames, t.rx_frames]),
        ),
        ("tunnel_packets", "Packets that carried them.", both(|t| [t.tx_packets, t.rx_packets])),
    ] {
        let values = counts.iter().map(|(labels, link, count)| {
            let labels: Labels<'_> = [&[("link", link.as_str())][..], labels].concat();
            (labels, *count)
        });
        counter(to, name, help, values)?;
    }
    let each = |value: fn(&TunnelStats) -> u64| {
        let all = stats.tunnels.iter();
        all.map(move |tunnel| (vec![("link", tunnel.name.as_str())], value(tunnel)))
    };
    counter(to, "tunnel_lost_packets", "Packets that have not come.", each(|t| t.lost))?;
    counter(to, "tunnel_late_packets", "Packets after later ones.", each(|t| t.reordered))?;
    let by_cause = stats.tunnels.iter();
    let by_cause = by_cause.map(|t| (vec![("link", t.name.as_str())], t.drops.as_slice()));
    drops(to, "tunnel_drops", "Packets and frames dropped, by cause.", by_cause)?;
    let Some(switch) = &stats.switch else { return Ok(()) };
    if stats.tunnels.is_empty() {
        return Ok(());
    }
    for (name, help, count) in [
        ("tunnel_foreign_packets", "Packets of no link.", switch.foreign_packets),
        ("tunnel_malformed_packets", "Packets that no node has sent.", switch.malformed_packets),
    ] {
        counter(to, name, help, [(Vec::new(), count)].into_iter())?;
    }
    Ok(())
}
