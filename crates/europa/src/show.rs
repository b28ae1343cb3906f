//! `stats` and `doctor`: print a node's counters, and the abilities of the machine.

use std::process::ExitCode;
use std::time::Duration;

use europa_api::balance::Balance;
use europa_api::stats::{InlineStats, LedgerStats, NodeStats, PortStats};
use europa_node::{Instance, doctor as physician};
use serde::Serialize;

use crate::exit::Failure;
use crate::selected::only;
use crate::table::{line, out, scaled};
use crate::up::client;

/// Requests counters together with the places of each router's packets.
const WITH_LEDGERS: &str = "/v1/stats?ledgers=true";

pub(crate) fn stats(
    instance: &Instance,
    name: Option<&str>,
    all: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut stats: NodeStats = client(instance).get(WITH_LEDGERS)?;
    if let Some(name) = name {
        stats = only(stats, name)?;
    }
    if json {
        line!("{}", serde_json::to_string_pretty(&stats)?);
        return Ok(ExitCode::SUCCESS);
    }
    if !all {
        hide_internal(&mut stats);
    }
    let text = table(&stats) + &name.map_or_else(|| switch(&stats), |_| String::new());
    out!("{}", text.strip_prefix('\n').unwrap_or(&text));
    Ok(ExitCode::SUCCESS)
}

/// Removes interfaces to slow paths and ports to hosts, which the node makes itself, unless they
/// have lost packets.
fn hide_internal(stats: &mut NodeStats) {
    for router in &mut stats.routers {
        router.interfaces.retain(|one| !one.name.contains('@') || !one.drops.is_empty());
    }
    // The name of a port in a document contains no dot.
    let lossless = |port: &PortStats| port.device_drops == 0 && port.copies_refused == 0;
    stats.ports.retain(|port| !port.name.contains('.') || !lossless(port));
}

/// The counters of all objects.
fn table(stats: &NodeStats) -> String {
    let mut text = String::new();
    if !stats.routers.is_empty() {
        text += &format!(
            "{:<24} {:>14} {:>16} {:>14} {:>16} {:>12}\n",
            "router interface", "rx packets", "rx bytes", "tx packets", "tx bytes", "dropped"
        );
    }
    for router in &stats.routers {
        let pid = router.pid.map_or(String::new(), |pid| format!(", process {pid}"));
        text += &format!(
            "{} ({}{pid}, restarted {} times)\n",
            router.name, router.state, router.restarts
        );
        text += &router.inline.as_ref().map_or(String::new(), inline);
        text += &router.ledger.as_ref().map_or(String::new(), ledger);
        for (reason, count) in &router.by_linux {
            text += &format!("  {count} by Linux because: {reason}\n");
        }
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
    if !stats.ports.is_empty() {
        text += &format!(
            "\n{:<24} {:>14} {:>16} {:>14} {:>16} {:>12}\n",
            "port", "to Linux", "waiting", "most waiting", "copies refused", "device drops"
        );
    }
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
    if !stats.tunnels.is_empty() {
        text += &tunnels(stats);
    }
    text
}

/// The counters of the switch.
fn switch(stats: &NodeStats) -> String {
    match &stats.switch {
        Some(switch) => format!(
            "\nswitch: {} live frames in {} kicks, {} frames in {} socket calls, {} frames over \
             links, slept {} times, restarted {} times\n",
            switch.live_frames,
            switch.kicks,
            switch.socket_frames,
            switch.socket_calls,
            switch.link_frames,
            switch.sleeps,
            stats.switch_restarts
        ),
        None => "\nswitch: not running\n".to_owned(),
    }
}

/// An inline router's use of the switch.
fn inline(of: &InlineStats) -> String {
    let us = |ns: u64| ns / 1000;
    let mean = us(of.spent_ns.checked_div(of.turns).unwrap_or(0));
    format!(
        "    inside the switch: {} turns, mean {mean} us, longest {} us, budget {} us; {} cut off, {} \
         overruns; memory {} of {}\n",
        of.turns,
        us(of.longest_ns),
        us(of.budget_ns),
        of.cut,
        of.overruns,
        scaled(of.memory_bytes as f64, "B"),
        scaled(of.quota_bytes as f64, "B")
    )
}

/// The packets that ended in a router, by cause, as text.
fn ledger(of: &LedgerStats) -> String {
    let lines = |counts: &[(String, u64)], what: &str| -> String {
        counts.iter().map(|(by, count)| format!("    {count} {what} {by}\n")).collect()
    };
    lines(&of.consumed, "consumed by") + &lines(&of.dropped, "dropped by")
}

/// The queues of ports, as a tree.
fn queues(stats: &NodeStats) -> String {
    let mut text = format!(
        "\n{:<30} {:>12} {:>14} {:>8} {:>8} {:>8} {:>10} {:>9} {:>9}\n",
        "queues of", "packets", "bytes", "waiting", "peak", "marked", "dropped", "p50 us", "p99 us"
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

/// The links with a rate, delay or losses.
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

/// The links to other machines.
fn tunnels(stats: &NodeStats) -> String {
    let mut text = format!(
        "\n{:<46} {:>12} {:>12} {:>10} {:>10}\n",
        "tunnel, to", "frames out", "frames in", "lost", "reordered"
    );
    for tunnel in &stats.tunnels {
        text += &format!(
            "{:<46} {:>12} {:>12} {:>10} {:>10}\n",
            format!("{}, {} ({}, epoch {})", tunnel.name, tunnel.remote, tunnel.id, tunnel.epoch),
            tunnel.tx_frames,
            tunnel.rx_frames,
            tunnel.lost,
            tunnel.reordered
        );
        for (cause, count) in &tunnel.drops {
            text += &format!("    {count} dropped: {cause}\n");
        }
    }
    if let Some(switch) = &stats.switch {
        let (foreign, malformed) = (switch.foreign_packets, switch.malformed_packets);
        if foreign + malformed > 0 {
            text += &format!("    {foreign} packets of no link, {malformed} malformed ones\n");
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

/// The result of checking an equation of counters.
#[derive(Serialize)]
struct Checked {
    of: String,
    holds: bool,
    equation: String,
}

/// Number of readings until all equations must hold, and the interval between two. Packets in
/// transit are missing on both sides of an equation.
const READINGS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(100);

/// Checks that each packet in the running node is present, or was lost for a known cause.
pub(crate) fn doctor_live(instance: &Instance, json: bool) -> Result<ExitCode, Failure> {
    let read = || -> Result<Vec<Balance>, Failure> {
        Ok(Balance::all(&client(instance).get::<NodeStats>(WITH_LEDGERS)?))
    };
    let mut balances = read()?;
    for _ in 1..READINGS {
        if balances.iter().all(Balance::holds) {
            break;
        }
        std::thread::sleep(BETWEEN);
        balances = read()?;
    }
    if json {
        let checked = balances.iter().map(|balance| Checked {
            of: balance.of.clone(),
            holds: balance.holds(),
            equation: balance.to_string(),
        });
        line!("{}", serde_json::to_string_pretty(&checked.collect::<Vec<_>>())?);
    } else {
        for balance in &balances {
            line!("{}  {balance}", if balance.holds() { "ok     " } else { "WRONG  " });
        }
    }
    let all = balances.iter().all(Balance::holds);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;

    #[test]
    fn internal_interfaces_and_ports_are_shown_only_with_losses() {
        let mut stats = reading(1, 100);
        let internal = |name: &str, device_drops| PortStats {
            name: name.to_owned(),
            device_drops,
            ..PortStats::default()
        };
        stats.ports.extend([internal("pc1.eth0", 0), internal("pc2.eth0", 3)]);
        let mut interface = stats.routers[0].interfaces[0].clone();
        interface.name = "in@host".to_owned();
        interface.drops.clear();
        stats.routers[0].interfaces.push(interface);
        assert!(table(&stats).contains("in@host") && table(&stats).contains("pc1.eth0"));
        hide_internal(&mut stats);
        let text = table(&stats);
        assert!(!text.contains("in@host") && !text.contains("pc1.eth0"), "{text}");
        assert!(text.contains("pc2.eth0") && text.contains("left (eth0)"), "{text}");
        assert_eq!(table(&NodeStats::default()), "");
    }
}
