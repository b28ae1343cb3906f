//! `changes`: losses of a stream while Europa's node is killed, or applies a change.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use crate::cases::plainest;
use crate::cli::Options;
use crate::error::Result;
use crate::interrupt;
use crate::measure::{self, Stamped, undisturbed};
use crate::progress::Progress;
use crate::report::{Align, Outcome, Table, thousands};
use crate::statistics::Spread;
use crate::systems::System as _;
use crate::systems::europa::{DOCUMENTS, Europa};
use crate::testbed::Testbed;

/// Time before and after the event.
const QUIET: Duration = Duration::from_millis(500);

/// An event at a node whose router forwards.
struct Event {
    name: &'static str,
    /// Whether the event ends the router itself.
    interrupts: bool,
    what: fn(&Europa) -> Result<()>,
}

const EVENTS: [Event; 6] = [
    Event { name: "nothing", interrupts: false, what: |_| interrupt::sleep(QUIET) },
    Event { name: "node killed, its successor adopts", interrupts: false, what: adopt },
    Event { name: "100 routes added and removed", interrupts: false, what: routes },
    Event { name: "another router added and removed", interrupts: false, what: neighbour },
    Event {
        name: "the router itself restarted",
        interrupts: true,
        what: |europa| europa.call(&["restart", "bench/r1"]),
    },
    Event {
        name: "the router itself killed",
        interrupts: true,
        what: |europa| europa.kill_router("bench/r1"),
    },
];

fn adopt(europa: &Europa) -> Result<()> {
    europa.kill_node()?;
    interrupt::sleep(Duration::from_millis(100))?;
    europa.with_file("up", DOCUMENTS)
}

fn routes(europa: &Europa) -> Result<()> {
    let first = "    - {to: 10.1.0.0/16, via: 10.0.1.2}\n";
    let more = (0..100).map(|number| format!("    - {{to: 10.2.{number}.0/24, via: 10.0.1.2}}\n"));
    let more = DOCUMENTS.replace(first, &more.fold(first.to_owned(), |text, line| text + &line));
    europa.with_file("apply", &more)?;
    europa.with_file("apply", DOCUMENTS)
}

fn neighbour(europa: &Europa) -> Result<()> {
    let other = "---\nkind: router\nname: r2\nslice: bench\ninterfaces:\n  \
                 in: {port: left, addresses: [10.9.0.1/24]}\nfast_path: {builtin: ipv4}\n";
    europa.with_file("apply", &format!("{DOCUMENTS}{other}"))?;
    europa.with_file("apply", DOCUMENTS)
}

/// Most repetitions of a stream if the hypervisor takes cores away: without a core, no program
/// forwards.
const TRIES: u32 = 8;

/// The results of the stream in each round.
#[derive(Serialize)]
struct Measured {
    name: &'static str,
    interrupts: bool,
    seconds: Vec<f64>,
    streams: Vec<Stamped>,
    /// Fraction of the time that the hypervisor took away, in each round.
    stolen: Vec<f64>,
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut europa = Europa::new(options.europa.clone());
    if let Err(reason) = europa.available() {
        return Ok(outcome(vec![], format!("europa: not available, {reason}."), json!({})));
    }
    let arrangement = plainest(&europa)?;
    let repeat = options.repeat();
    progress.show("changes: the highest rate");
    let rates = (0..repeat).map(|_| {
        measure::run(&mut europa, arrangement, &options.load(), options.timing())
            .map(|run| run.delivered_pps)
    });
    let rates = rates.collect::<Result<Vec<f64>>>()?;
    let half = Spread::of(&rates).unwrap_or_default().median / 2.0;
    let load = options.load().at(half as u64);
    let mut measured: Vec<Measured> = EVENTS
        .iter()
        .map(|event| Measured {
            name: event.name,
            interrupts: event.interrupts,
            seconds: vec![],
            streams: vec![],
            stolen: vec![],
        })
        .collect();
    for round in 1..=repeat {
        for (event, results) in EVENTS.iter().zip(&mut measured) {
            progress.show(&format!("changes: {} {round}/{repeat}", event.name));
            // Each round makes a new testbed and a new node, so that no state of the former event
            // is left.
            let testbed = Testbed::routed()?;
            europa.setup(&testbed)?;
            arrangement.apply(&testbed)?;
            let followed = undisturbed(0.0, TRIES, || {
                let mut seconds = 0.0;
                let during = || {
                    interrupt::sleep(QUIET)?;
                    let start = Instant::now();
                    (event.what)(&europa)?;
                    seconds = start.elapsed().as_secs_f64();
                    interrupt::sleep(QUIET)
                };
                let stream = measure::follow(&testbed, arrangement.sink, &load, during)?;
                Ok((stream, seconds))
            });
            europa.teardown(&testbed)?;
            let ((stream, seconds), stolen) = followed?;
            results.streams.push(stream);
            results.seconds.push(seconds);
            results.stolen.push(stolen);
        }
    }

    let columns = [
        ("what happens", Align::Left),
        ("takes, ms", Align::Right),
        ("packets sent", Align::Right),
        ("lost, each time", Align::Right),
        ("stolen, ms", Align::Right),
        ("out of order", Align::Right),
        ("without packets, ms", Align::Right),
    ];
    let mut table = Table::new("A stream while something happens", &columns);
    for one in &measured {
        let gap = |stream: &Stamped| stream.lost as f64 / half.max(1.0) * 1e3;
        let gaps: Vec<f64> = one.streams.iter().map(gap).collect();
        let lost: Vec<String> = one.streams.iter().map(|stream| stream.lost.to_string()).collect();
        let times = one.stolen.iter().zip(&one.seconds);
        let stolen: Vec<String> = times
            .map(|(part, seconds)| {
                let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
                let whole = seconds + 2.0 * QUIET.as_secs_f64();
                format!("{:.0}", part * cores * whole * 1e3)
            })
            .collect();
        table.push([
            one.name.to_owned(),
            format!("{:.0}", Spread::of(&one.seconds).unwrap_or_default().median * 1e3),
            one.streams.iter().map(|stream| stream.sent).sum::<u64>().to_string(),
            lost.join(" "),
            stolen.join(" "),
            one.streams.iter().map(|stream| stream.out_of_order).sum::<u64>().to_string(),
            match one.interrupts {
                true => format!("{:.1}", Spread::of(&gaps).unwrap_or_default().median),
                false => "–".to_owned(),
            },
        ]);
    }
    let note = format!(
        "{} packets/s, half of what the router forwards when offered more; each carries its \
         number. Without packets: those lost, at this rate. Stolen: CPU time that the hypervisor \
         took away from all cores meanwhile; a stream from which it took any was sent again, up to \
         {} times, and the least disturbed one counts.",
        thousands(half * 1e3),
        TRIES - 1
    );
    let data = json!({ "packets_per_second": half, "events": measured });
    Ok(outcome(vec![table], note, data))
}

fn outcome(tables: Vec<Table>, note: String, data: serde_json::Value) -> Outcome {
    Outcome {
        name: "changes",
        title: "What a stream loses while something happens".into(),
        tables,
        charts: vec![],
        notes: vec![note],
        data,
    }
}
