//! `flows`: delay and jitter through label switched paths, set-up of paths, and the cost of
//! refreshing them.
//!
//! | file      | concern                                                          |
//! |-----------|------------------------------------------------------------------|
//! | `network` | three routers in a row, by routes or along a path                |
//! | `refresh` | two signallers in virtual time                                   |

mod network;
mod refresh;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use europa_client::Client;
use serde::Serialize;
use serde_json::{Value, json};

use self::network::{FLOOD_PPS, Network};
use self::refresh::Refreshed;
use crate::cli::Options;
use crate::error::{Error, Result};
use crate::generator::{Generator, Load};
use crate::interrupt;
use crate::measure::{self, MAY_BE_STOLEN, Stamped, undisturbed};
use crate::progress::Progress;
use crate::report::{Align, Outcome, Table, thousands};
use crate::statistics::percentile;
use crate::systems::System;
use crate::systems::europa::SOCKET;
use crate::systems::linux::Linux;
use crate::testbed::Testbed;

use super::plainest;

/// Bytes of a frame, as in the paper about QuaSAR.
const FRAME_BYTES: u16 = 70;
/// Packets per second whose delays are measured.
const MEASURED_PPS: u64 = 100_000;
/// Paths that come up, one after the other.
const PATHS: usize = 100;
/// A path that needs more time is down.
const PATIENCE: Duration = Duration::from_secs(5);

/// The delays of one system, by run.
#[derive(Serialize, Default)]
struct Delays {
    quiet: Vec<Stamped>,
    /// Beside another flow of the same port that sends ten times its reservation.
    flooded: Vec<Stamped>,
}

/// All results.
#[derive(Serialize)]
struct Measured {
    delays: BTreeMap<&'static str, Delays>,
    /// Milliseconds from the request until the path is up, the request's own time included.
    set_up_ms: Vec<f64>,
    refreshed: Refreshed,
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut systems: Vec<Box<dyn System>> = vec![Box::new(Linux)];
    for network in Network::all(options) {
        network.available().map_err(Error::Other)?;
        systems.push(Box::new(network));
    }
    let names: Vec<&'static str> = systems.iter().map(|system| system.name()).collect();
    let mut delays: BTreeMap<&'static str, Delays> = BTreeMap::new();
    let repeat = options.repeat();
    for round in 1..=repeat {
        for system in &mut systems {
            let name = system.name();
            progress.show(&format!("flows: {name} {round}/{repeat}"));
            let into = delays.entry(name).or_default();
            let (quiet, _) = undisturbed(MAY_BE_STOLEN, 3, || once(&mut **system, options, false))?;
            into.quiet.push(quiet);
            let (flooded, _) =
                undisturbed(MAY_BE_STOLEN, 3, || once(&mut **system, options, true))?;
            into.flooded.push(flooded);
        }
    }
    progress.show("flows: set-up");
    let set_up_ms = set_up(options)?;
    progress.show("flows: refresh");
    let refreshed = refresh::run()?;
    Ok(report(&names, Measured { delays, set_up_ms, refreshed }))
}

/// Delays through a system, quiet or beside a flood.
fn once(system: &mut dyn System, options: &Options, is_flooded: bool) -> Result<Stamped> {
    let duration = if options.quick { Duration::from_secs(1) } else { Duration::from_secs(3) };
    let load = Load { frame_bytes: FRAME_BYTES, destinations: 1, ..options.load() };
    let arrangement = plainest(system)?;
    let testbed = Testbed::routed()?;
    measure::with(system, &testbed, arrangement, |_| {
        let flood = Load { destinations: 256, ..load.clone() }.at(FLOOD_PPS);
        let flood = is_flooded.then(|| Generator::start(&testbed, &flood)).transpose()?;
        let load = load.clone().at(MEASURED_PPS);
        let stamped =
            measure::follow(&testbed, arrangement.sink, &load, || interrupt::sleep(duration));
        if let Some(flood) = flood {
            flood.stop()?;
        }
        stamped
    })
}

/// Time until paths over three routers are up, one after the other.
fn set_up(options: &Options) -> Result<Vec<f64>> {
    let testbed = Testbed::routed()?;
    let mut network = Network::signalled(options);
    let failed = |error: europa_client::ClientError| Error::Other(error.to_string());
    let done = network.setup(&testbed).and_then(|()| {
        let client = Client::new(SOCKET);
        let mut times = Vec::new();
        for number in 0..PATHS {
            interrupt::check()?;
            let name = format!("path-{number}");
            let text = format!("kind: flow\nname: {name}\nslice: bench\nfrom: r1\nto: r3\n");
            let request = json!({ "sources": [{ "path": "bench", "text": text }] });
            let begun = Instant::now();
            client.post::<Value>("/v1/apply", &request).map_err(failed)?;
            let is_up = || -> Result<bool> {
                let found: Value = client.get(&format!("/v1/lsps/{name}")).map_err(failed)?;
                Ok(found["state"] == "up")
            };
            while !is_up()? {
                if begun.elapsed() > PATIENCE {
                    return Err(Error::Other(format!("flow {name} is not up after {PATIENCE:?}")));
                }
                interrupt::sleep(Duration::from_micros(500))?;
            }
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            client.delete::<Value>(&format!("/v1/flows/{name}")).map_err(failed)?;
        }
        Ok(times)
    });
    let torn_down = network.teardown(&testbed);
    done.and_then(|times| torn_down.map(|()| times))
}

fn median(runs: &[Stamped], figure: impl Fn(&Stamped) -> f64) -> f64 {
    percentile(&runs.iter().map(figure).collect::<Vec<_>>(), 50.0).unwrap_or_default()
}

fn delay_table(title: &str, names: &[&'static str], of: impl Fn(&str) -> Vec<Stamped>) -> Table {
    let columns = [
        ("system", Align::Left),
        ("p50 µs", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("mean", Align::Right),
        ("jitter", Align::Right),
        ("p50 of routes", Align::Right),
        ("lost", Align::Right),
    ];
    let mut table = Table::new(title, &columns);
    for name in names {
        let runs = of(name);
        let routed = median(&of(Network::plain_of(name)), |run| run.delays_us[0]);
        let delay = |at: usize| median(&runs, |run| run.delays_us[at]);
        let sum = |figure: fn(&Stamped) -> u64| runs.iter().map(figure).sum::<u64>();
        table.push([
            (*name).to_owned(),
            format!("{:.1}", delay(0)),
            format!("{:.1}", delay(1)),
            format!("{:.1}", delay(2)),
            format!("{:.1}", median(&runs, |run| run.delay_us)),
            format!("{:.2}", median(&runs, |run| run.jitter_us)),
            format!("{:.2}", delay(0) / routed.max(0.1)),
            format!("{} of {}", sum(|run| run.lost), sum(|run| run.sent)),
        ]);
    }
    table
}

fn report(names: &[&'static str], measured: Measured) -> Outcome {
    let runs = |name: &str, flooded: bool| {
        let found = measured.delays.get(name);
        found
            .map_or(Vec::new(), |one| if flooded { one.flooded.clone() } else { one.quiet.clone() })
    };
    let quiet = delay_table("One way", names, |name| runs(name, false));
    let flooded =
        delay_table("One way beside a flood of the same port", names, |name| runs(name, true));
    let columns = [("", Align::Left), ("p50", Align::Right), ("p99", Align::Right)];
    let mut paths = Table::new("Milliseconds until a path over three routers is up", &columns);
    let of = |percent| percentile(&measured.set_up_ms, percent).unwrap_or_default();
    paths.push([
        format!("{PATHS} paths, one after the other"),
        format!("{:.1}", of(50.0)),
        format!("{:.1}", of(99.0)),
    ]);
    let refreshed = &measured.refreshed;
    let columns = [("", Align::Left), ("figure", Align::Right)];
    let mut state = Table::new("Two signallers in virtual time", &columns);
    for (what, figure) in [
        ("paths", refreshed.paths.to_string()),
        (
            "paths that come up in a second of CPU time, both ends",
            thousands(refreshed.per_second * 1e3),
        ),
        ("CPU time of both for refreshes, of a core", format!("{:.3} %", refreshed.load * 100.0)),
        ("messages a second", format!("{:.1}", refreshed.messages_per_second)),
    ] {
        state.push([what.to_owned(), figure]);
    }
    Outcome {
        name: "flows",
        title: "Flows along label switched paths".into(),
        tables: vec![quiet, flooded, paths, state],
        charts: Vec::new(),
        notes: vec![
            format!(
                "{} packets/s with frames of {FRAME_BYTES} bytes, that carry number and time of \
                 sending. Europa: three routers in a row, joined by links: by routes, or along a path \
                 with labels. Linux: one router. Jitter is the mean difference between the delays of \
                 successive packets.",
                thousands(MEASURED_PPS as f64 * 1e3)
            ),
            format!(
                "The flood: another flow of the same port, {} packets/s, ten times its reservation; \
                 without paths, the same packets by routes. The last router drops what arrives of it. \
                 Linux has no route for it.",
                thousands(FLOOD_PPS as f64 * 1e3)
            ),
            "Set-up: from the request over REST until the answer of the node shows the path up, asked \
             every 0.5 ms. Refreshes: R = 30 s, summary refreshes (RFC 2961), ten periods; CPU time of \
             the thread that runs both."
                .into(),
        ],
        data: json!({ "measured": measured }),
    }
}
