//! `scale`: one, ten, a hundred, a thousand routers on one pair of ports.
//!
//! All routers get the same load, in random order, so that most packets are alone in their batch;
//! then a TCP stream passes each router. The rate of all routers is compared with the rate of one
//! router in the same run.

use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::many::{Kind, documents, fairness, lay_streams};
use crate::cli::Options;
use crate::cpu::Sample;
use crate::error::{Context, Error, Result};
use crate::generator::{Generator, Load};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Chart, Line, Lines, Outcome, Table, thousands};
use crate::sink::{Checks, Hook, Sink};
use crate::statistics::Spread;
use crate::streams::Streams;
use crate::systems::europa::{Europa, KEPT, on_testbed};
use crate::testbed::Testbed;

/// Slots of each router's pool.
const SLOTS: u32 = 256;
/// Numbers of routers of each kind.
const ISOLATED: [u32; 3] = [1, 10, 100];
const INLINE: [u32; 4] = [1, 10, 100, 1000];

/// The result of one number of routers.
#[derive(Serialize)]
struct Measured {
    kind: Kind,
    routers: u32,
    delivered_pps: Vec<f64>,
    /// Jain's index of the routers' forwarded packets.
    fairness: Vec<f64>,
    /// CPU time of all cores for each packet, including that of generator and sink.
    cpu_ns: Vec<f64>,
    /// Sum over all TCP streams, one through each router.
    tcp_bps: Vec<f64>,
    tcp_fairness: Vec<f64>,
    /// Memory of each router without its pool: that of its process, or its part of the switch's
    /// memory.
    each_kb: Vec<f64>,
    /// Time from the start of a router's process or graph until it runs: the median of all routers.
    start_ms: Vec<f64>,
    /// Time that `europa up` takes with all routers.
    up_s: Vec<f64>,
}

impl Measured {
    fn median(values: &[f64]) -> f64 {
        Spread::of(values).unwrap_or_default().median
    }
}

/// Pids of processes that the node has recorded.
fn processes(kind: &str) -> Vec<u32> {
    let entries = fs::read_dir(KEPT).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(".json")?.to_owned();
        name.strip_prefix(kind)?.parse().ok()
    });
    pids.collect()
}

/// A process's private memory. Pools count as files, so they are not included.
fn memory_kb(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).context(path)?;
    let of = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
    };
    Ok(of("Pss_Anon:"))
}

/// Memory of all routers, without shared parts.
fn memory_of_all_kb(kind: Kind) -> Result<f64> {
    let pids = match kind {
        Kind::Isolated => processes("router."),
        Kind::Inline => processes("switch."),
    };
    pids.into_iter().map(memory_kb).sum()
}

/// Parses the starting times of routers, in milliseconds.
fn starts_ms(events: &str) -> Vec<f64> {
    let time = |event: &str| {
        let event: Value = serde_json::from_str(event).ok()?;
        let message = event.get("message")?.as_str()?;
        let (_, time) = message.split_once(" after ")?;
        let (number, unit) = time.split_once(' ')?;
        let number: f64 = number.parse().ok()?;
        match unit {
            "ms" => Some(number),
            "us" => Some(number / 1000.0),
            _ => None,
        }
    };
    events.lines().filter_map(time).collect()
}

/// Does one run: routers start, are measured, and stop.
fn once(
    one: &mut Measured,
    options: &Options,
    testbed: &Testbed,
    europa: &mut Europa,
) -> Result<()> {
    let (kind, routers) = (one.kind, one.routers);
    europa.up_with(&documents(kind, 0, SLOTS))?;
    let before_kb = memory_of_all_kb(kind)?;
    let begun = Instant::now();
    europa.up_with(&documents(kind, routers, SLOTS))?;
    one.up_s.push(begun.elapsed().as_secs_f64());
    let starts = starts_ms(&europa.ask(&["events", "--json"])?);
    one.start_ms.extend(Spread::of(&starts).map(|spread| spread.median));

    let checks = Checks { hops: 1, flows: true, ..Checks::default() };
    let sink = Sink::attach(testbed, Hook::Xdp, checks)?;
    let load = Load { routers, ..options.load() };
    let generator = Generator::start(testbed, &load)?;
    interrupt::sleep(options.timing().warm_up + Duration::from_millis(300))?;
    let (begun, first) = (Sample::take()?, sink.flows(routers)?);
    interrupt::sleep(options.timing().run)?;
    let (busy, last) = (Sample::take()?.since(&begun)?, sink.flows(routers)?);
    let wrong = sink.counters()?.wrong_ttl;
    generator.stop()?;
    if wrong > 0 {
        return Err(Error::Other(format!("{wrong} packets arrived that no router had")));
    }
    let counts: Vec<u64> =
        last.iter().zip(&first).map(|(now, then)| now.saturating_sub(*then)).collect();
    let all: u64 = counts.iter().sum();
    one.delivered_pps.push(all as f64 / busy.elapsed.as_secs_f64());
    one.cpu_ns.push(busy.total_ns() / all.max(1) as f64);
    one.fairness.push(fairness(&counts));
    one.each_kb.push((memory_of_all_kb(kind)? - before_kb) / f64::from(routers));
    drop(sink);
    tcp(one, options, testbed)
}

/// Measures a TCP stream through each router.
fn tcp(one: &mut Measured, options: &Options, testbed: &Testbed) -> Result<()> {
    lay_streams(testbed, one.routers)?;
    // Shorter runs do not show fairness: TCP windows need round trips to grow.
    let time = options.timing().run.max(Duration::from_secs(2));
    let received = Streams::received(testbed, one.routers, options.timing().warm_up, time)?;
    one.tcp_bps.push(received.bps);
    one.tcp_fairness.push(fairness(&received.flows));
    Ok(())
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let of = |kind| {
        move |routers: &u32| Measured {
            kind,
            routers: *routers,
            delivered_pps: Vec::new(),
            fairness: Vec::new(),
            cpu_ns: Vec::new(),
            tcp_bps: Vec::new(),
            tcp_fairness: Vec::new(),
            each_kb: Vec::new(),
            start_ms: Vec::new(),
            up_s: Vec::new(),
        }
    };
    let isolated = ISOLATED.iter().map(of(Kind::Isolated));
    let mut all: Vec<Measured> = isolated.chain(INLINE.iter().map(of(Kind::Inline))).collect();
    for round in 1..=options.repeat() {
        for one in &mut all {
            let (kind, routers) = (one.kind.name(), one.routers);
            progress.show(&format!("scale: {routers} {kind}, {round}/{}", options.repeat()));
            interrupt::check()?;
            on_testbed(options, |testbed, europa| once(one, options, testbed, europa))?;
        }
    }
    Ok(report(&all, options))
}

fn report(all: &[Measured], options: &Options) -> Outcome {
    let columns = [
        ("routers", Align::Left),
        ("thousand packets/s, all", Align::Right),
        ("smallest–largest", Align::Right),
        ("of one router's", Align::Right),
        ("fairness (Jain)", Align::Right),
        ("CPU ns/packet, ends included", Align::Right),
        ("TCP, Gb/s, all", Align::Right),
        ("fairness", Align::Right),
        ("memory each, kB", Align::Right),
        ("start of each, ms", Align::Right),
        ("all up after, s", Align::Right),
    ];
    let mut table = Table::new("Many routers", &columns);
    for one in all {
        let same = |other: &&Measured| other.kind == one.kind && other.routers == 1;
        let rate = Spread::of(&one.delivered_pps).unwrap_or_default();
        let single = all.iter().find(same).map_or(0.0, |one| Measured::median(&one.delivered_pps));
        let part = rate.median / single.max(1.0);
        table.push([
            format!("{} {}", one.routers, one.kind.name()),
            thousands(rate.median),
            format!("{}–{}", thousands(rate.min), thousands(rate.max)),
            format!("{part:.2}"),
            format!("{:.4}", Measured::median(&one.fairness)),
            format!("{:.0}", Measured::median(&one.cpu_ns)),
            format!("{:.2}", Measured::median(&one.tcp_bps) / 1e9),
            format!("{:.4}", Measured::median(&one.tcp_fairness)),
            format!("{:.0}", Measured::median(&one.each_kb)),
            format!("{:.1}", Measured::median(&one.start_ms)),
            format!("{:.2}", Measured::median(&one.up_s)),
        ]);
    }
    let bytes = options.load().frame_bytes;
    Outcome {
        name: "scale",
        title: "Many routers".into(),
        tables: vec![table],
        charts: vec![
            chart(
                all,
                "scale",
                "Rate of all routers together",
                "million packets per second",
                |one| Measured::median(&one.delivered_pps) / 1e6,
            ),
            chart(
                all,
                "scale-tcp",
                "TCP, one stream through each router",
                "gigabits per second, of all streams",
                |one| Measured::median(&one.tcp_bps) / 1e9,
            ),
        ],
        notes: vec![format!(
            "{bytes}-byte UDP frames to all routers in random order, as fast as the generator can; \
             medians of {} runs in turns. Each router is `builtin: ipv4` with a pool of {SLOTS} \
             slots on the same two ports, told apart by Ethernet addresses. Memory is beside the \
             pools: of its process, or of the switch by what it has grown. Start is from the \
             beginning of process or graph until it runs, its pool being there. CPU time is that \
             of all cores, with generator and sink. TCP: one stream through each router at once, \
             default offloads, counted where it arrives.",
            options.repeat()
        )],
        data: json!({ "measured": all }),
    }
}

/// A curve of each kind.
fn chart(
    all: &[Measured],
    name: &str,
    title: &str,
    unit: &str,
    figure: fn(&Measured) -> f64,
) -> (String, Chart) {
    let line = |kind: Kind| {
        let of = all.iter().filter(|one| one.kind == kind);
        Line {
            name: kind.name().to_owned(),
            detail: format!("{SLOTS} slots each"),
            points: of.map(|one| (f64::from(one.routers), figure(one))).collect(),
        }
    };
    let chart = Chart::Lines(Lines {
        title: title.to_owned(),
        x: "number of routers".into(),
        factors: INLINE.map(f64::from).to_vec(),
        y: unit.to_owned(),
        diagonal: None,
        lines: [Kind::Isolated, Kind::Inline].map(line).into(),
    });
    (name.to_owned(), chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read_in_both_units() {
        let events = "{\"message\":\"process 7, ready after 12 ms\"}\n\
                      {\"message\":\"inside the switch after 1500 us\"}\n{\"message\":\"ended\"}\n";
        assert_eq!(starts_ms(events), [12.0, 1.5]);
    }
}
