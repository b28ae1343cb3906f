//! What is printed about a node's counters and a machine.

use std::process::ExitCode;

use europa_api::stats::{InlineStats, NodeStats};
use europa_node::{Instance, doctor as physician};

use crate::exit::Failure;
use crate::table::{line, out};
use crate::up::client;

pub(crate) fn stats(instance: &Instance, json: bool) -> Result<ExitCode, Failure> {
    let stats: NodeStats = client(instance).get("/v1/stats")?;
    if json {
        line!("{}", serde_json::to_string_pretty(&stats)?);
    } else {
        out!("{}", table(&stats));
    }
    Ok(ExitCode::SUCCESS)
}

/// A table for people.
fn table(stats: &NodeStats) -> String {
    let mut text = format!(
        "{:<24} {:>14} {:>16} {:>14} {:>16} {:>12}\n",
        "router interface", "rx packets", "rx bytes", "tx packets", "tx bytes", "dropped"
    );
    for router in &stats.routers {
        let pid = router.pid.map_or(String::new(), |pid| format!(", process {pid}"));
        text += &format!(
            "{} ({}{pid}, restarted {} times)\n",
            router.name, router.state, router.restarts
        );
        text += &router.inline.as_ref().map_or(String::new(), inline);
        for interface in &router.interfaces {
            let dropped: u64 = interface.drops.iter().map(|(_, count)| count).sum();
            text += &format!(
                "  {:<22} {:>14} {:>16} {:>14} {:>16} {:>12}\n",
                interface.name,
                interface.rx_packets,
                interface.rx_bytes,
                interface.tx_packets,
                interface.tx_bytes,
                dropped
            );
            let addresses: Vec<String> =
                interface.addresses.iter().map(ToString::to_string).collect();
            text += &format!("    {} {}\n", interface.mac, addresses.join(" "));
            for (cause, count) in &interface.drops {
                text += &format!("    {count} dropped: {cause}\n");
            }
        }
    }
    text += &format!(
        "\n{:<24} {:>14} {:>16} {:>14} {:>16} {:>12}\n",
        "port", "to Linux", "waiting", "waited at most", "copies refused", "device drops"
    );
    for port in &stats.ports {
        text += &format!(
            "{:<24} {:>14} {:>16} {:>14} {:>16} {:>12}\n",
            format!("{} ({})", port.name, port.device),
            port.to_linux,
            port.queued,
            port.queued_peak,
            port.copies_refused,
            port.device_drops
        );
    }
    if !stats.queues.is_empty() {
        text += &queues(stats);
    }
    for host in &stats.hosts {
        text += &format!("\nhost {} ({})\n", host.name, host.namespace);
        for interface in &host.interfaces {
            let addresses: Vec<String> =
                interface.addresses.iter().map(ToString::to_string).collect();
            text += &format!(
                "  {:<22} {} {}, {}\n",
                interface.name,
                interface.mac,
                addresses.join(" "),
                interface.to
            );
        }
    }
    if !stats.links.is_empty() {
        text += &links(stats);
    }
    match &stats.switch {
        Some(switch) => {
            text += &format!(
                "\nswitch: {} live frames in {} kicks, {} frames in {} socket calls, \
                 {} frames over links, slept {} times, restarted {} times\n",
                switch.live_frames,
                switch.kicks,
                switch.socket_frames,
                switch.socket_calls,
                switch.link_frames,
                switch.sleeps,
                stats.switch_restarts
            );
        }
        None => text += "\nswitch: does not run\n",
    }
    text
}

/// Ports' queues, as a tree.
/// What a router takes of the switch.
fn inline(of: &InlineStats) -> String {
    let us = |ns: u64| ns / 1000;
    let mean = us(of.spent_ns.checked_div(of.turns).unwrap_or(0));
    format!(
        "    inside the switch: {} turns of {mean} us, {} at most, {} allowed; {} cut off, {} far \
         too long; {} of {} kB of memory\n",
        of.turns,
        us(of.longest_ns),
        us(of.budget_ns),
        of.cut,
        of.overruns,
        of.memory_bytes / 1000,
        of.quota_bytes / 1000
    )
}

fn queues(stats: &NodeStats) -> String {
    let mut text = format!(
        "\n{:<30} {:>12} {:>14} {:>8} {:>8} {:>8} {:>10} {:>9} {:>9}\n",
        "queues of", "packets", "bytes", "waiting", "peak", "marked", "dropped", "p50 µs", "p99 µs"
    );
    for queue in &stats.queues {
        let name = match (&queue.slice, &queue.router, queue.queue) {
            (None, ..) => format!("port {}", queue.port),
            (Some(slice), None, _) => format!("  slice {slice}"),
            (_, Some(router), None) => format!("    router {router}"),
            (.., Some(0)) => format!("      {}", queue.interface.as_deref().unwrap_or_default()),
            (.., Some(number)) => {
                format!("      {} {number}", queue.interface.as_deref().unwrap_or_default())
            }
        };
        let dropped: u64 = queue.drops.iter().map(|(_, count)| count).sum();
        text += &format!(
            "{name:<30} {:>12} {:>14} {:>8} {:>8} {:>8} {:>10} {:>9} {:>9}\n",
            queue.packets,
            queue.bytes,
            queue.waiting,
            queue.peak,
            queue.marks,
            dropped,
            queue.waited_p50_ns / 1000,
            queue.waited_p99_ns / 1000
        );
        for (cause, count) in queue.drops.iter().filter(|_| queue.queue.is_some()) {
            text += &format!("        {count} dropped: {cause}\n");
        }
    }
    text
}

/// The links that do something to packets.
fn links(stats: &NodeStats) -> String {
    let mut text = format!(
        "\n{:<40} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
        "link, from", "packets", "waiting", "dropped", "reordered", "twice", "wrong bit"
    );
    for link in &stats.links {
        let dropped: u64 = link.drops.iter().map(|(_, count)| count).sum();
        text += &format!(
            "{:<40} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
            format!("{}, {}", link.name, link.from),
            link.packets,
            link.waiting,
            dropped,
            link.reordered,
            link.duplicated,
            link.corrupted
        );
        for (cause, count) in &link.drops {
            text += &format!("    {count} dropped: {cause}\n");
        }
    }
    text
}

pub(crate) fn doctor(json: bool) -> Result<ExitCode, Failure> {
    let findings = physician::examine();
    if json {
        line!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            line!("{finding}");
        }
    }
    let fit = findings.iter().all(|finding| !finding.is_fatal());
    Ok(if fit { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
