//! `tcp`: one TCP stream, with default offloads and without.

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

/// Rates of one system, in bits per second.
#[derive(Serialize)]
struct Measured {
    system: &'static str,
    default_bps: Vec<f64>,
    off_bps: Vec<f64>,
    /// Part of the time that the hypervisor took away, each time.
    stolen: Vec<f64>,
}

impl Measured {
    fn gigabits(values: &[f64]) -> Spread {
        let gigabits: Vec<f64> = values.iter().map(|value| value / 1e9).collect();
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
    let mut measured: Vec<Measured> = systems
        .iter()
        .map(|system| Measured {
            system: system.name(),
            default_bps: vec![],
            off_bps: vec![],
            stolen: vec![],
        })
        .collect();
    for round in 1..=repeat {
        for (system, results) in systems.iter_mut().zip(&mut measured) {
            for offloads in [Offloads::Default, Offloads::Off] {
                let name = system.name();
                progress.show(&format!("tcp: {name}, offloads {offloads:?}, {round}/{repeat}"));
                let (rate, stolen) =
                    undisturbed(MAY_BE_STOLEN, 3, || stream(system.as_mut(), offloads, options))?;
                results.stolen.push(stolen);
                match offloads {
                    Offloads::Default => results.default_bps.push(rate),
                    Offloads::Off => results.off_bps.push(rate),
                }
            }
        }
    }

    let columns = [
        ("system", Align::Left),
        ("default offloads, Gb/s", Align::Right),
        ("offloads off, Gb/s", Align::Right),
    ];
    let mut table = Table::new("One TCP stream", &columns);
    let show = |spread: Spread| match spread.max < 0.001 {
        true => "0".to_owned(),
        false => format!("{:.2} ({:.2}–{:.2})", spread.median, spread.min, spread.max),
    };
    let mut bars = Vec::new();
    for one in &measured {
        let rates = [Measured::gigabits(&one.default_bps), Measured::gigabits(&one.off_bps)];
        table.push([one.system.to_owned(), show(rates[0]), show(rates[1])]);
        for (series, rate) in rates.into_iter().enumerate() {
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
    for one in &missing {
        table.push([one.system.to_owned(), "–".into(), "–".into()]);
    }
    let stolen = measured.iter().flat_map(|one| &one.stolen).copied().fold(0.0, f64::max);
    let mut notes = vec![
        format!(
            "The hypervisor took away up to {:.1} % of a run's time; runs that lost over {:.0} % \
             were made again, up to twice.",
            stolen * 100.0,
            MAY_BE_STOLEN * 100.0
        ),
        "iperf3, one stream for some seconds from generator to sink, every system in its plainest \
         arrangement, rate seen by the receiver. Default offloads are what a veth has by itself, \
         and GRO. The XDP references do not repair the partial checksums that come with them, so \
         that nothing gets through."
            .to_owned(),
    ];
    notes.extend(missing.iter().map(|missing| missing.note()));
    Ok(Outcome {
        name: "tcp",
        title: "One TCP stream".into(),
        tables: vec![table],
        charts: vec![(
            "tcp".into(),
            Chart::Bars(Bars {
                title: "One TCP stream through a router".into(),
                unit: "gigabits per second".into(),
                series: vec!["default offloads".into(), "offloads off".into()],
                bars,
            }),
        )],
        notes,
        data: json!({ "systems": measured }),
    })
}

/// Bits per second of one stream; 0 if nothing gets through.
fn stream(system: &mut dyn System, offloads: Offloads, options: &Options) -> Result<f64> {
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
            "timeout {} iperf3 -c 10.0.1.2 -t {seconds} -O 1 -J --connect-timeout 2000",
            seconds + 6
        );
        let output = testbed.generator.exec(&client);
        interrupt::check()?;
        // iperf3 gives up when nothing gets through: that is a result, not an error.
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
