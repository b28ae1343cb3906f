//! `veth`: the rate of small packets, and the CPU time of a packet.

use serde::Serialize;
use serde_json::json;

use crate::cases::sweep::{self, Curve};
use crate::cases::{Missing, present};
use crate::cli::Options;
use crate::error::Result;
use crate::measure::{self, Ends, Run};
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table, thousands};
use crate::statistics::Spread;
use crate::systems::europa::Europa;
use crate::systems::{Arrangement, System};

/// Runs below this part of their median are called slow.
const SLOW: f64 = 0.8;

/// The runs of a system in one arrangement.
#[derive(Serialize)]
pub(super) struct Arranged {
    pub(super) arrangement: Arrangement,
    pub(super) runs: Vec<Run>,
}

impl Arranged {
    pub(super) fn rate(&self) -> Spread {
        self.spread(|run| run.delivered_pps)
    }

    fn cpu_ns(&self, ends: &Ends) -> Spread {
        self.spread(|run| run.cpu_ns_per_packet(ends))
    }

    /// Number of runs far below the others.
    fn slow(&self) -> usize {
        let limit = SLOW * self.rate().median;
        self.runs.iter().filter(|run| run.delivered_pps < limit).count()
    }

    fn spread(&self, figure: impl Fn(&Run) -> f64) -> Spread {
        let figures: Vec<f64> = self.runs.iter().map(figure).collect();
        Spread::of(&figures).unwrap_or_default()
    }
}

/// A system with all measurements of it.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) system: &'static str,
    pub(super) arrangements: Vec<Arranged>,
}

impl Measured {
    fn of(system: &dyn System) -> Self {
        let arrangements = system
            .arrangements()
            .into_iter()
            .map(|arrangement| Arranged { arrangement, runs: Vec::new() })
            .collect();
        Self { system: system.name(), arrangements }
    }

    /// The fastest arrangement, whose figures are reported.
    pub(super) fn best(&self) -> Option<&Arranged> {
        let rate = |one: &&Arranged| one.rate().median;
        self.arrangements.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// CPU time for each packet in the arrangement that needs least.
    fn least_cpu_ns(&self, ends: &Ends) -> Spread {
        let costs = self.arrangements.iter().map(|one| one.cpu_ns(ends));
        costs.min_by(|a, b| a.median.total_cmp(&b.median)).unwrap_or_default()
    }
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let (mut systems, missing) = present(options);
    let chain = Europa::chain(options.europa.clone());
    if options.wants(chain.name()) && chain.available().is_ok() {
        systems.push(Box::new(chain));
    }
    progress.show("veth: generator and sink alone");
    let ends = measure::calibrate(&options.load(), options.timing())?;

    let mut measured: Vec<Measured> =
        systems.iter().map(|system| Measured::of(system.as_ref())).collect();
    let repeat = options.repeat();
    for round in 1..=repeat {
        for (system, results) in systems.iter_mut().zip(&mut measured) {
            for one in &mut results.arrangements {
                let name = system.name();
                progress.show(&format!("veth: {name}, {}, {round}/{repeat}", one.arrangement));
                let (load, timing) = (options.load(), options.timing());
                one.runs.push(measure::run(system.as_mut(), one.arrangement, &load, timing)?);
            }
        }
    }
    let curves = sweep::run(&mut systems, &measured, options, progress)?;
    let mut outcome = report(&measured, &missing, &curves, &ends);
    let (bytes, destinations) = (options.load().frame_bytes, options.load().destinations);
    outcome.notes.insert(0, format!("{bytes}-byte UDP frames to {destinations} destination(s)."));
    Ok(outcome)
}

/// Measures programs in kernel routers, and the same programs attached natively.
pub(super) fn run_xdp(options: &Options, progress: &Progress) -> Result<Outcome> {
    let systems = ["xdp-redirect", "europa-kernel", "xdp-router", "europa-kernel-router", "europa"];
    let mut outcome = run(&options.only(&systems), progress)?;
    outcome.name = "xdp";
    outcome.title = "XDP programs, natively and in kernel routers".into();
    Ok(outcome)
}

/// Writes the report.
fn report(measured: &[Measured], missing: &[Missing], curves: &[Curve], ends: &Ends) -> Outcome {
    let best: Vec<(&Measured, &Arranged)> =
        measured.iter().filter_map(|one| Some((one, one.best()?))).collect();
    let ratio = |rate: f64, name: &str| {
        let other = best.iter().find(|(one, _)| one.system == name);
        other.map_or("–".to_owned(), |(_, best)| format!("{:.2}", rate / best.rate().median))
    };

    let columns = [
        ("system", Align::Left),
        ("thousand packets/s", Align::Right),
        ("smallest–largest", Align::Right),
        ("of linux", Align::Right),
        ("of xdp-redirect", Align::Right),
        ("CPU ns/packet", Align::Right),
        ("least CPU ns", Align::Right),
        ("kept in overload", Align::Right),
        ("best arrangement", Align::Left),
    ];
    let mut rows = Table::new("Rate and cost", &columns);
    let (mut rate_bars, mut cost_bars) = (Vec::new(), Vec::new());
    for (one, best) in &best {
        let (rate, cost, least) = (best.rate(), best.cpu_ns(ends), one.least_cpu_ns(ends));
        rows.push([
            one.system.to_owned(),
            thousands(rate.median),
            format!("{}–{}", thousands(rate.min), thousands(rate.max)),
            ratio(rate.median, "linux"),
            ratio(rate.median, "xdp-redirect"),
            format!("{:.0}", cost.median),
            format!("{:.0}", least.median),
            sweep::kept(curves, one.system),
            best.arrangement.to_string(),
        ]);
        rate_bars.push(Bar {
            label: one.system.to_owned(),
            detail: best.arrangement.to_string(),
            value: rate.median / 1e6,
            range: Some((rate.min / 1e6, rate.max / 1e6)),
            note: format!("{:.2} · {} × linux", rate.median / 1e6, ratio(rate.median, "linux")),
            series: 0,
        });
        for (series, cost) in [cost, least].into_iter().enumerate() {
            cost_bars.push(Bar {
                label: if series == 0 { one.system.to_owned() } else { String::new() },
                detail: String::new(),
                value: cost.median,
                range: Some((cost.min, cost.max)),
                note: format!("{:.0}", cost.median),
                series,
            });
        }
    }
    for one in missing {
        let mut row = vec!["–".to_owned(); columns.len()];
        row[0] = one.system.to_owned();
        rows.push(row);
    }
    let charts = vec![
        (
            "veth-rate".to_owned(),
            Chart::Bars(Bars {
                title: "Forwarding between veth pairs".into(),
                unit: "million packets per second".into(),
                series: vec![],
                bars: rate_bars,
            }),
        ),
        (
            "veth-cost".to_owned(),
            Chart::Bars(Bars {
                title: "CPU time per packet at saturation, generator and sink subtracted".into(),
                unit: "nanoseconds, over all cores".into(),
                series: vec!["fastest arrangement".into(), "cheapest arrangement".into()],
                bars: cost_bars,
            }),
        ),
        ("veth-sweep".to_owned(), sweep::chart(curves)),
    ];
    Outcome {
        name: "veth",
        title: "Forwarding between veth pairs".into(),
        tables: vec![rows, arrangements(measured, ends), sweep::table(curves)],
        charts,
        notes: notes(measured, missing, curves, ends),
        data: json!({ "ends": ends, "systems": measured, "sweep": curves }),
    }
}

/// Lists every arrangement, the best and the others.
fn arrangements(measured: &[Measured], ends: &Ends) -> Table {
    let columns = [
        ("system", Align::Left),
        ("arrangement", Align::Left),
        ("thousand packets/s", Align::Right),
        ("smallest–largest", Align::Right),
        ("offered", Align::Right),
        ("CPU ns/packet", Align::Right),
    ];
    let mut table = Table::new("All arrangements", &columns);
    for one in measured {
        for arranged in &one.arrangements {
            let rate = arranged.rate();
            table.push([
                one.system.to_owned(),
                arranged.arrangement.to_string(),
                thousands(rate.median),
                format!("{}–{}", thousands(rate.min), thousands(rate.max)),
                thousands(arranged.spread(|run| run.offered_pps).median),
                format!("{:.0}", arranged.cpu_ns(ends).median),
            ]);
        }
    }
    table
}

fn notes(measured: &[Measured], missing: &[Missing], curves: &[Curve], ends: &Ends) -> Vec<String> {
    let mut notes = vec![
        "As fast as the generator can, counted at the sink. Runs of all systems and arrangements take turns; median, smallest and largest of them are \
         given. The fastest arrangement counts."
            .to_owned(),
        format!(
            "CPU time is the busy time of all cores per delivered packet, less {:.0} ns for each \
             packet sent and {:.0} ns for each one received, as generator and sink take on a wire \
             between them. Packets that a system receives and drops, or that are dropped before it, \
             are part of its cost per delivered packet; the least is that of its cheapest \
             arrangement.",
            ends.generator_ns, ends.sink_ns
        ),
    ];
    notes.extend(missing.iter().map(Missing::note));
    notes.extend(distrust(measured));
    notes.extend(sweep::notes(curves));
    notes
}

/// Lists the repeated runs, and the times that the hypervisor took away.
fn distrust(measured: &[Measured]) -> Vec<String> {
    let mut notes = Vec::new();
    for one in measured {
        let runs: Vec<&Run> = one.arrangements.iter().flat_map(|one| &one.runs).collect();
        let (system, count) = (one.system, runs.len());
        let repeated: u32 = runs.iter().map(|run| run.repeated).sum();
        if repeated > 0 {
            let unsteady = runs.iter().filter(|run| run.unsteady).count();
            notes.push(format!(
                "{system}: {count} runs needed {repeated} repetitions, because their halves \
                 differed by more than 10 %; {unsteady} of them stayed so."
            ));
        }
        let slow = one.arrangements.iter().map(Arranged::slow).sum::<usize>();
        if slow > 0 {
            notes.push(format!(
                "{system}: {slow} of {count} runs were more than 20 % below the median of their \
                 arrangement: a slow state of the machine, or other work on it."
            ));
        }
        let stolen = runs.iter().map(|run| run.stolen).fold(0.0, f64::max);
        if stolen > 0.02 {
            let percent = stolen * 100.0;
            notes.push(format!("{system}: the hypervisor took {percent:.0} % of a run."));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Hook;
    use crate::systems::Placement;

    fn arranged(placement: Placement, rates_pps: &[f64], busy_ns_per_s: f64) -> Arranged {
        let run = |delivered_pps: &f64| Run {
            delivered_pps: *delivered_pps,
            offered_pps: *delivered_pps,
            busy_ns_per_s,
            stolen: 0.0,
            repeated: 0,
            unsteady: false,
        };
        Arranged {
            arrangement: Arrangement { placement, sink: Hook::Xdp },
            runs: rates_pps.iter().map(run).collect(),
        }
    }

    #[test]
    fn the_fastest_median_counts_and_the_cheapest_is_told() {
        let measured = Measured {
            system: "linux",
            arrangements: vec![
                arranged(Placement::Sender, &[0.9e6, 0.9e6, 3e6], 0.9e9),
                arranged(Placement::RouterThread, &[1e6, 0.1e6, 1e6], 2e9),
            ],
        };
        let best = measured.best().expect("there are two");
        assert_eq!(best.arrangement.placement, Placement::RouterThread);
        assert_eq!(best.slow(), 1);
        assert!((best.cpu_ns(&Ends::default()).median - 2000.0).abs() < 1e-6);
        assert!((measured.least_cpu_ns(&Ends::default()).median - 1000.0).abs() < 1e-6);
    }
}
