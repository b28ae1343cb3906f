//! `veth`: the rate of 64-byte packets, and what a packet costs.

use serde::Serialize;
use serde_json::json;

use crate::cases::{present, sweep};
use crate::cli::Options;
use crate::error::Result;
use crate::generator::Load;
use crate::measure::{self, Ends, Run};
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table, thousands};
use crate::statistics::Spread;
use crate::systems::{Arrangement, System};

/// One arrangement of a system, tried once.
#[derive(Serialize)]
pub(super) struct Tried {
    pub(super) arrangement: Arrangement,
    pub(super) run: Run,
}

/// A system with everything that was measured of it.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) system: &'static str,
    /// The best arrangement.
    pub(super) arrangement: Arrangement,
    pub(super) tried: Vec<Tried>,
    pub(super) runs: Vec<Run>,
}

impl Measured {
    pub(super) fn rate(&self) -> Spread {
        let rates: Vec<f64> = self.runs.iter().map(|run| run.delivered_pps).collect();
        Spread::of(&rates).unwrap_or_default()
    }

    fn cpu_ns(&self, ends: &Ends) -> Spread {
        let costs: Vec<f64> = self.runs.iter().map(|run| run.cpu_ns_per_packet(ends)).collect();
        Spread::of(&costs).unwrap_or_default()
    }
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let (mut systems, missing) = present(options);
    progress.show("veth: generator and sink alone");
    let ends = measure::calibrate(options.timing())?;

    let mut measured = Vec::new();
    for system in &mut systems {
        measured.push(try_arrangements(system.as_mut(), options, progress)?);
    }
    let repeat = options.repeat();
    for round in 1..=repeat {
        for (system, results) in systems.iter_mut().zip(&mut measured) {
            progress.show(&format!("veth: {} {round}/{repeat}", system.name()));
            let load = Load::saturation();
            let timing = options.timing();
            results.runs.push(measure::run(system.as_mut(), results.arrangement, &load, timing)?);
        }
    }
    let curves = sweep::run(&mut systems, &measured, options, progress)?;

    let mut notes = vec![
        "64-byte UDP frames to one destination, as fast as the generator can, counted at the sink. \
         Runs of all systems take turns; median, smallest and largest of them are given."
            .to_owned(),
        format!(
            "CPU time is the busy time of all cores per delivered packet, less {:.0} ns for each \
             packet sent and {:.0} ns for each one received, as generator and sink take on a wire \
             between them.",
            ends.generator_ns, ends.sink_ns
        ),
    ];
    notes.extend(missing.iter().map(|missing| missing.note()));
    notes.extend(distrust(&measured));
    notes.extend(sweep::notes(&curves));

    let mut rows = Table::new(
        "Rate and cost",
        &[
            ("system", Align::Left),
            ("thousand packets/s", Align::Right),
            ("smallest–largest", Align::Right),
            ("of linux", Align::Right),
            ("of xdp-redirect", Align::Right),
            ("CPU ns/packet", Align::Right),
            ("kept in overload", Align::Right),
            ("best arrangement", Align::Left),
        ],
    );
    let median_of =
        |name: &str| measured.iter().find(|one| one.system == name).map(|one| one.rate().median);
    let ratio = |rate: f64, name: &str| {
        median_of(name).map_or("–".to_owned(), |other| format!("{:.2}", rate / other))
    };
    for one in &measured {
        let rate = one.rate();
        rows.push([
            one.system.to_owned(),
            thousands(rate.median),
            format!("{}–{}", thousands(rate.min), thousands(rate.max)),
            ratio(rate.median, "linux"),
            ratio(rate.median, "xdp-redirect"),
            format!("{:.0}", one.cpu_ns(&ends).median),
            sweep::kept(&curves, one.system),
            one.arrangement.to_string(),
        ]);
    }
    for one in &missing {
        let mut row = vec!["–".to_owned(); 8];
        row[0] = one.system.to_owned();
        rows.push(row);
    }

    let mut tried = Table::new(
        "Arrangements, one run each",
        &[
            ("system", Align::Left),
            ("arrangement", Align::Left),
            ("thousand packets/s", Align::Right),
            ("offered", Align::Right),
            ("CPU ns/packet", Align::Right),
        ],
    );
    for one in &measured {
        for Tried { arrangement, run } in &one.tried {
            tried.push([
                one.system.to_owned(),
                arrangement.to_string(),
                thousands(run.delivered_pps),
                thousands(run.offered_pps),
                format!("{:.0}", run.cpu_ns_per_packet(&ends)),
            ]);
        }
    }

    let rate_bars = measured
        .iter()
        .map(|one| {
            let rate = one.rate();
            Bar {
                label: one.system.to_owned(),
                detail: one.arrangement.to_string(),
                value: rate.median / 1e6,
                range: Some((rate.min / 1e6, rate.max / 1e6)),
                note: format!("{:.2} · {} × linux", rate.median / 1e6, ratio(rate.median, "linux")),
                series: 0,
            }
        })
        .collect();
    let cost_bars = measured
        .iter()
        .map(|one| {
            let cost = one.cpu_ns(&ends);
            Bar {
                label: one.system.to_owned(),
                detail: String::new(),
                value: cost.median,
                range: Some((cost.min, cost.max)),
                note: format!("{:.0} ns", cost.median),
                series: 0,
            }
        })
        .collect();
    let charts = vec![
        (
            "veth-rate".to_owned(),
            Chart::Bars(Bars {
                title: "Forwarding 64-byte packets between veth pairs".into(),
                unit: "million packets per second".into(),
                series: vec![],
                bars: rate_bars,
            }),
        ),
        (
            "veth-cost".to_owned(),
            Chart::Bars(Bars {
                title: "CPU time per packet, generator and sink subtracted".into(),
                unit: "nanoseconds, over all cores".into(),
                series: vec![],
                bars: cost_bars,
            }),
        ),
        ("veth-sweep".to_owned(), sweep::chart(&curves)),
    ];
    Ok(Outcome {
        name: "veth",
        title: "Forwarding between veth pairs".into(),
        tables: vec![rows, tried, sweep::table(&curves)],
        charts,
        notes,
        data: json!({ "ends": ends, "systems": measured, "sweep": curves }),
    })
}

/// Tries every arrangement once; the best one is measured.
fn try_arrangements(
    system: &mut dyn System,
    options: &Options,
    progress: &Progress,
) -> Result<Measured> {
    let mut tried = Vec::new();
    for arrangement in system.arrangements() {
        progress.show(&format!("veth: trying {}, {arrangement}", system.name()));
        let run = measure::run(system, arrangement, &Load::saturation(), options.timing())?;
        tried.push(Tried { arrangement, run });
    }
    let best = tried
        .iter()
        .max_by(|a, b| a.run.delivered_pps.total_cmp(&b.run.delivered_pps))
        .map(|best| best.arrangement);
    let arrangement = best.ok_or_else(|| crate::error::Error::System {
        system: system.name(),
        message: "knows no arrangement".into(),
    })?;
    Ok(Measured { system: system.name(), arrangement, tried, runs: Vec::new() })
}

/// Says which runs had to be repeated, and when the hypervisor was busy elsewhere.
fn distrust(measured: &[Measured]) -> Vec<String> {
    let mut notes = Vec::new();
    for one in measured {
        let repeated: u32 = one.runs.iter().map(|run| run.repeated).sum();
        if repeated > 0 {
            notes.push(format!(
                "{}: {repeated} runs were repeated because their halves differed by more than 10 %.",
                one.system
            ));
        }
        if one.runs.iter().any(|run| run.unsteady) {
            notes.push(format!("{}: some runs stayed unsteady.", one.system));
        }
        let stolen = one.runs.iter().map(|run| run.stolen).fold(0.0, f64::max);
        if stolen > 0.02 {
            let percent = stolen * 100.0;
            notes.push(format!("{}: the hypervisor took {percent:.0} % of a run.", one.system));
        }
    }
    notes
}
