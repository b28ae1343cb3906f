//! `scale`: one, ten, a hundred, a thousand routers on one pair of ports.
//!
//! All of them get the same load, in random order, so that a packet is mostly alone. Beside the
//! rate of all stands the rate of one router in the same run.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::generator::{Generator, Load};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Chart, Line, Lines, Outcome, Table, thousands};
use crate::sink::{Checks, Hook, Sink};
use crate::statistics::Spread;
use crate::systems::System as _;
use crate::systems::europa::Europa;
use crate::testbed::Testbed;

/// Where the node keeps what it must know of processes.
const KEPT: &str = "/run/europa/default/kept";
/// Slots of each router's pool.
const SLOTS: u32 = 256;
/// How many routers, of each kind.
const ISOLATED: [u32; 3] = [1, 10, 100];
const INLINE: [u32; 4] = [1, 10, 100, 1000];

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Isolated,
    Inline,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Inline => "inline",
        }
    }
}

/// What was found of one number of routers.
#[derive(Serialize)]
struct Measured {
    kind: Kind,
    routers: u32,
    delivered_pps: Vec<f64>,
    /// Jain's index of what each has forwarded.
    fairness: Vec<f64>,
    /// Memory of each beside its pool: of its process, or of the switch.
    each_kb: Vec<f64>,
    /// From its process's or graph's beginning until it runs, in the median of all routers.
    start_ms: Vec<f64>,
    /// Of `europa up` with all of them.
    up_s: Vec<f64>,
}

impl Measured {
    fn median(values: &[f64]) -> f64 {
        Spread::of(values).unwrap_or_default().median
    }
}

/// What is brought up: ports, a slice, and so many routers.
fn documents(kind: Kind, routers: u32) -> String {
    let mut text = "kind: port\nname: left\ndevice: r0\nnamespace: eub-rtr\n---\n\
                    kind: port\nname: right\ndevice: r1\nnamespace: eub-rtr\n---\n\
                    kind: slice\nname: bench\n"
        .to_owned();
    for number in 0..routers {
        let [high, low] = (number as u16).to_be_bytes();
        let (run, mac) = (kind.name(), format!("{high:02x}:{low:02x}"));
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "---\nkind: router\nname: r{number}\nslice: bench\nrun: {run}\n\
             pool: {{slots: {SLOTS}}}\ninterfaces:\n  \
             in: {{port: left, mac: \"02:00:00:00:{mac}\", addresses: [10.0.0.1/24]}}\n  \
             out: {{port: right, mac: \"02:00:00:01:{mac}\", addresses: [10.0.1.1/24]}}\n\
             fast_path:\n  builtin: ipv4\n  routes: [{{to: 10.1.0.0/16, via: 10.0.1.2}}]\n  \
             neighbours:\n    \
             - {{address: 10.0.1.2, mac: \"02:00:00:00:00:04\", interface: out}}\n"
        );
    }
    text
}

/// Numbers of processes of which there are records.
fn processes(kind: &str) -> Vec<u32> {
    let entries = fs::read_dir(KEPT).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| {
        let name = entry.file_name().to_str()?.strip_suffix(".json")?.to_owned();
        name.strip_prefix(kind)?.parse().ok()
    });
    pids.collect()
}

/// A process's private memory. Pools count as files.
fn memory_kb(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).context(path)?;
    let of = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
    };
    Ok(of("Pss_Anon:"))
}

/// Memory of all routers' own.
fn memory_of_all_kb(kind: Kind) -> Result<f64> {
    let pids = match kind {
        Kind::Isolated => processes("router."),
        Kind::Inline => processes("switch."),
    };
    pids.into_iter().map(memory_kb).sum()
}

/// How long routers took to start, in milliseconds.
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

/// Jain's index: 1 if all have the same, one by their number if one has all.
fn fairness(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 0.0 }
}

/// One run: routers come up, are measured, and go.
fn once(one: &mut Measured, options: &Options) -> Result<()> {
    let testbed = Testbed::routed()?;
    let mut europa = Europa::new(options.europa.clone());
    let found = forward(one, options, &testbed, &mut europa);
    let torn_down = europa.teardown(&testbed);
    found.and(torn_down)
}

fn forward(
    one: &mut Measured,
    options: &Options,
    testbed: &Testbed,
    europa: &mut Europa,
) -> Result<()> {
    let (kind, routers) = (one.kind, one.routers);
    europa.up_with(&documents(kind, 0))?;
    let before_kb = memory_of_all_kb(kind)?;
    let begun = Instant::now();
    europa.up_with(&documents(kind, routers))?;
    one.up_s.push(begun.elapsed().as_secs_f64());
    let starts = starts_ms(&europa.ask(&["events", "--json"])?);
    one.start_ms.extend(Spread::of(&starts).map(|spread| spread.median));

    let checks = Checks { routed: true, flows: true, ..Checks::default() };
    let sink = Sink::attach(testbed, Hook::Xdp, checks)?;
    let load = Load { routers, ..options.load() };
    let generator = Generator::start(testbed, &load)?;
    interrupt::sleep(options.timing().warm_up + Duration::from_millis(300))?;
    let (begun, first) = (Instant::now(), sink.flows(routers)?);
    interrupt::sleep(options.timing().run)?;
    let (elapsed, last) = (begun.elapsed(), sink.flows(routers)?);
    let wrong = sink.counters()?.wrong_ttl;
    generator.stop()?;
    if wrong > 0 {
        return Err(Error::Other(format!("{wrong} packets arrived that no router had")));
    }
    let counts: Vec<u64> =
        last.iter().zip(&first).map(|(now, then)| now.saturating_sub(*then)).collect();
    let all: u64 = counts.iter().sum();
    one.delivered_pps.push(all as f64 / elapsed.as_secs_f64());
    one.fairness.push(fairness(&counts));
    one.each_kb.push((memory_of_all_kb(kind)? - before_kb) / f64::from(routers));
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
            once(one, options)?;
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
        ("memory each, kB", Align::Right),
        ("start of each, ms", Align::Right),
        ("all up after, s", Align::Right),
    ];
    let mut table = Table::new("Many routers", &columns);
    let mut lines: Vec<Line> = Vec::new();
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
            format!("{:.0}", Measured::median(&one.each_kb)),
            format!("{:.1}", Measured::median(&one.start_ms)),
            format!("{:.2}", Measured::median(&one.up_s)),
        ]);
        let point = (f64::from(one.routers).log10(), rate.median / 1e6);
        match lines.last_mut().filter(|line| line.name == one.kind.name()) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: one.kind.name().to_owned(),
                detail: format!("{SLOTS} slots each"),
                points: vec![point],
            }),
        }
    }
    let bytes = options.load().frame_bytes;
    Outcome {
        name: "scale",
        title: "Many routers".into(),
        tables: vec![table],
        charts: vec![(
            "scale".into(),
            Chart::Lines(Lines {
                title: "Rate of all routers together".into(),
                x: "number of routers, power of ten".into(),
                y: "million packets per second".into(),
                diagonal: None,
                lines,
            }),
        )],
        notes: vec![format!(
            "{bytes}-byte UDP frames to all routers in random order, as fast as the generator can; \
             medians of {} runs in turns. Each router is `builtin: ipv4` with a pool of {SLOTS} \
             slots on the same two ports, told apart by Ethernet addresses. Memory is beside the \
             pools: of its process, or of the switch by what it has grown. Start is from the \
             beginning of process or graph until it runs, its pool being there.",
            options.repeat()
        )],
        data: json!({ "measured": all }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_jains() {
        assert!((fairness(&[5, 5, 5]) - 1.0).abs() < 1e-9);
        assert!((fairness(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-9);
        assert!(fairness(&[]).abs() < 1e-9);
    }

    #[test]
    fn starts_are_read_in_both_units() {
        let events = "{\"message\":\"process 7, ready after 12 ms\"}\n\
                      {\"message\":\"inside the switch after 1500 us\"}\n{\"message\":\"ended\"}\n";
        assert_eq!(starts_ms(events), [12.0, 1.5]);
    }

    #[test]
    fn documents_are_valid() {
        for kind in [Kind::Isolated, Kind::Inline] {
            let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a temporary file");
            fs::write(file.path(), documents(kind, 300)).expect("written");
            let documents = europa_api::load(&[file.path()]).expect("valid documents");
            assert_eq!(documents.routers.len(), 300);
        }
    }
}
