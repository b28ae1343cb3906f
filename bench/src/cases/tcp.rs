//! `tcp`: one TCP stream and eight, with default offloads and without.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::cases::present;
use crate::cli::Options;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::measure::{self, MAY_BE_STOLEN, undisturbed};
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table};
use crate::shell;
use crate::sink::OpenDoors;
use crate::statistics::Spread;
use crate::systems::System;
use crate::testbed::{Offloads, Testbed};

/// The measured cases: number of streams, and offloads of hosts and ports.
const KINDS: [(u32, Offloads); 4] =
    [(1, Offloads::Default), (1, Offloads::Off), (8, Offloads::Default), (8, Offloads::Off)];

/// Rates of one system.
#[derive(Serialize)]
struct Measured {
    system: &'static str,
    rates: Vec<Rates>,
    /// Fraction of the time that the hypervisor took away, in each run.
    stolen: Vec<f64>,
}

/// Rates of one kind, in bits per second, of all streams together.
#[derive(Serialize)]
struct Rates {
    streams: u32,
    offloads: Offloads,
    bps: Vec<f64>,
}

impl Rates {
    fn gigabits(&self) -> Spread {
        let gigabits: Vec<f64> = self.bps.iter().map(|value| value / 1e9).collect();
        Spread::of(&gigabits).unwrap_or_default()
    }
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    if !shell::exists("iperf3") {
        return Err(Error::Other("tcp needs iperf3".into()));
    }
    let (mut systems, missing) = present(options);
    let repeat = if options.quick { 1 } else { options.repeat() };
    let none = |&(streams, offloads): &(u32, Offloads)| Rates { streams, offloads, bps: vec![] };
    let mut measured: Vec<Measured> = systems
        .iter()
        .map(|system| Measured {
            system: system.name(),
            rates: KINDS.iter().map(none).collect(),
            stolen: vec![],
        })
        .collect();
    for round in 1..=repeat {
        for (system, results) in systems.iter_mut().zip(&mut measured) {
            for Rates { streams, offloads, bps } in &mut results.rates {
                let name = system.name();
                progress.show(&format!(
                    "tcp: {name}, {streams} at once, offloads {offloads:?}, {round}/{repeat}"
                ));
                let (rate, stolen) = undisturbed(MAY_BE_STOLEN, 3, || {
                    stream(system.as_mut(), *streams, *offloads, options)
                })?;
                results.stolen.push(stolen);
                bps.push(rate);
            }
        }
    }

    let columns = [
        ("system", Align::Left),
        ("1 stream, default offloads, Gb/s", Align::Right),
        ("1, offloads off", Align::Right),
        ("8 streams, default offloads", Align::Right),
        ("8, offloads off", Align::Right),
    ];
    let mut table = Table::new("TCP", &columns);
    let show = |spread: Spread| match spread.max < 0.001 {
        true => "0".to_owned(),
        false => format!("{:.2} ({:.2}–{:.2})", spread.median, spread.min, spread.max),
    };
    for one in &measured {
        let rates = one.rates.iter().map(|rates| show(rates.gigabits()));
        table.push(std::iter::once(one.system.to_owned()).chain(rates).collect::<Vec<_>>());
    }
    for one in &missing {
        table.push([one.system, "–", "–", "–", "–"].map(str::to_owned));
    }
    let stolen = measured.iter().flat_map(|one| &one.stolen).copied().fold(0.0, f64::max);
    let mut notes = vec![
        format!(
            "The hypervisor took away up to {:.1} % of a run's time; runs that lost over {:.0} % \
             were made again, up to twice.",
            stolen * 100.0,
            MAY_BE_STOLEN * 100.0
        ),
        "iperf3, for some seconds from generator to sink, every system in its plainest \
         arrangement, rate seen by the receiver. Default offloads are what a veth has by itself, \
         and GRO; off, hosts and ports have none. The XDP references do not repair the partial \
         checksums that come with them, so that nothing gets through."
            .to_owned(),
    ];
    notes.extend(missing.iter().map(|missing| missing.note()));
    Ok(Outcome {
        name: "tcp",
        title: "TCP".into(),
        tables: vec![table],
        charts: vec![
            ("tcp".into(), chart(&measured, 1, "One TCP stream through a router")),
            ("tcp-8".into(), chart(&measured, 8, "Eight TCP streams through a router")),
        ],
        notes,
        data: json!({ "systems": measured }),
    })
}

/// A chart of all systems with this number of streams.
fn chart(measured: &[Measured], streams: u32, title: &str) -> Chart {
    let mut bars = Vec::new();
    for one in measured {
        let rates = one.rates.iter().filter(|rates| rates.streams == streams);
        for (series, rate) in rates.map(Rates::gigabits).enumerate() {
            bars.push(Bar {
                label: if series == 0 { one.system.to_owned() } else { String::new() },
                detail: String::new(),
                value: rate.median,
                range: (rate.max > 0.0).then_some((rate.min, rate.max)),
                note: match rate.max < 0.001 {
                    true => "nothing gets through".to_owned(),
                    false => format!("{:.1}", rate.median),
                },
                series,
            });
        }
    }
    Chart::Bars(Bars {
        title: title.into(),
        unit: "gigabits per second".into(),
        series: vec!["default offloads".into(), "offloads off".into()],
        bars,
    })
}

/// Bits per second of all streams together; 0 if no packet gets through.
fn stream(
    system: &mut dyn System,
    streams: u32,
    offloads: Offloads,
    options: &Options,
) -> Result<f64> {
    let seconds = if options.quick { 2 } else { 4 };
    let arrangement = system.arrangements().into_iter().next().ok_or_else(|| Error::System {
        system: system.name(),
        message: "knows no arrangement".into(),
    })?;
    let testbed = Testbed::routed()?;
    testbed.set_offloads(offloads)?;
    let _doors = match offloads == Offloads::Off && system.sends_frames() {
        true => Some(OpenDoors::attach(&testbed)?),
        false => None,
    };
    measure::with(system, &testbed, arrangement, |_| {
        let sink = testbed.sink.name();
        let _server = shell::start(&format!("ip netns exec {sink} iperf3 -s -1"))?;
        interrupt::sleep(Duration::from_millis(300))?;
        let client = format!(
            "timeout {} iperf3 -c 10.0.1.2 -P {streams} -t {seconds} -O 1 -J --connect-timeout 2000",
            seconds + 6
        );
        let output = testbed.generator.exec(&client);
        interrupt::check()?;
        // iperf3 gives up if no packet gets through: that is a result, not an error.
        Ok(output.ok().and_then(|text| received_bps(&text)).unwrap_or(0.0))
    })
}

fn received_bps(output: &str) -> Option<f64> {
    let report: serde_json::Value = serde_json::from_str(output).ok()?;
    report.pointer("/end/sum_received/bits_per_second")?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_rate_counts() {
        let output = r#"{"end":{"sum_sent":{"bits_per_second":9.0},"sum_received":{"bits_per_second":5e9}}}"#;
        assert_eq!(received_bps(output), Some(5e9));
        assert_eq!(received_bps(r#"{"error":"unable to connect"}"#), None);
    }
}
