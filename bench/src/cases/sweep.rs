//! The sweep: offered load from a tenth of a system's own peak to twice the peak.

use serde::Serialize;

use crate::cases::veth::{Arranged, Measured};
use crate::cli::Options;
use crate::error::Result;
use crate::measure::{self, Run};
use crate::progress::Progress;
use crate::report::{Align, Chart, Line, Lines, Table, thousands};
use crate::statistics::Spread;
use crate::systems::{Arrangement, System};

const FRACTIONS: [f64; 11] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0];
const FRACTIONS_QUICK: [f64; 5] = [0.25, 0.75, 1.0, 1.5, 2.0];

/// A load above this multiple of the peak counts as twice the peak: the peaks of two runs differ
/// slightly.
const TWICE: f64 = 1.8;

/// Delivered rate over offered load, of one system in one arrangement.
#[derive(Serialize)]
pub(super) struct Curve {
    system: &'static str,
    arrangement: Arrangement,
    points: Vec<Point>,
}

#[derive(Serialize, Default)]
struct Point {
    offered_pps: Vec<f64>,
    delivered_pps: Vec<f64>,
}

impl Point {
    fn add(&mut self, run: &Run) {
        self.offered_pps.push(run.offered_pps);
        self.delivered_pps.push(run.delivered_pps);
    }

    fn offered(&self) -> f64 {
        Spread::of(&self.offered_pps).unwrap_or_default().median
    }

    fn delivered(&self) -> f64 {
        Spread::of(&self.delivered_pps).unwrap_or_default().median
    }
}

impl Curve {
    fn peak(&self) -> f64 {
        self.points.iter().map(Point::delivered).fold(0.0, f64::max)
    }

    /// The point at the lowest load that is twice the peak, or at the highest load if none is. Its
    /// values are the offered load as a multiple of the peak, and the delivered rate as a fraction
    /// of the peak.
    fn overload(&self) -> Option<(f64, f64)> {
        let peak = self.peak();
        let by_load = |a: &&Point, b: &&Point| a.offered().total_cmp(&b.offered());
        let twice = |point: &&Point| point.offered() >= TWICE * peak;
        let point = self.points.iter().filter(twice).min_by(by_load);
        let point = point.or_else(|| self.points.iter().max_by(by_load))?;
        (peak > 0.0).then(|| (point.offered() / peak, point.delivered() / peak))
    }
}

/// Sweeps every system in the best arrangement in which its sender can overload it. A system
/// without such an arrangement is swept in its best one.
pub(super) fn run(
    systems: &mut [Box<dyn System>],
    measured: &[Measured],
    options: &Options,
    progress: &Progress,
) -> Result<Vec<Curve>> {
    let (fractions, repeat) =
        if options.quick { (&FRACTIONS_QUICK[..], 1) } else { (&FRACTIONS[..], 3) };
    let chosen: Vec<&Arranged> = measured.iter().filter_map(overloadable).collect();
    let mut curves: Vec<Curve> = measured
        .iter()
        .zip(&chosen)
        .map(|(one, chosen)| Curve {
            system: one.system,
            arrangement: chosen.arrangement,
            points: fractions.iter().map(|_| Point::default()).collect(),
        })
        .collect();
    for round in 1..=repeat {
        for (index, fraction) in fractions.iter().enumerate() {
            for ((system, curve), chosen) in systems.iter_mut().zip(&mut curves).zip(&chosen) {
                let name = system.name();
                progress.show(&format!("veth: {name} at {fraction} of its peak, {round}/{repeat}"));
                let load = options.load().at((chosen.rate().median * fraction) as u64);
                let timing = options.timing();
                let timing = measure::Timing { run: timing.run / 2, ..timing };
                let run = measure::run(system.as_mut(), curve.arrangement, &load, timing)?;
                if let Some(point) = curve.points.get_mut(index) {
                    point.add(&run);
                }
            }
        }
    }
    // The last point is the generator's rate without a limit.
    for (curve, chosen) in curves.iter_mut().zip(&chosen) {
        let mut point = Point::default();
        chosen.runs.iter().for_each(|run| point.add(run));
        curve.points.push(point);
        curve.points.sort_by(|a, b| a.offered().total_cmp(&b.offered()));
    }
    Ok(curves)
}

fn overloadable(one: &Measured) -> Option<&Arranged> {
    one.arrangements
        .iter()
        .filter(|arranged| arranged.arrangement.can_overload())
        .max_by(|a, b| a.rate().median.total_cmp(&b.rate().median))
        .or_else(|| one.best())
}

/// A text like `0.97 at 2.0 ×`, or a dash.
pub(super) fn kept(curves: &[Curve], system: &str) -> String {
    curves
        .iter()
        .find(|curve| curve.system == system)
        .and_then(Curve::overload)
        .map_or("–".to_owned(), |(times, kept)| format!("{kept:.2} at {times:.1} ×"))
}

/// Explains the sweep's figures.
pub(super) fn notes(curves: &[Curve]) -> Vec<String> {
    let arrangements: Vec<String> =
        curves.iter().map(|curve| format!("{} ({})", curve.system, curve.arrangement)).collect();
    vec![format!(
        "Kept in overload: the part of its peak that a system still delivers when about twice that is \
         offered, or as much as the generator can, in the arrangement in which its sender can \
         outrun it: {}.",
        arrangements.join("; ")
    )]
}

/// A table of every point.
pub(super) fn table(curves: &[Curve]) -> Table {
    let columns = [
        ("system", Align::Left),
        ("offered, thousand packets/s", Align::Right),
        ("delivered", Align::Right),
        ("of peak", Align::Right),
    ];
    let mut table = Table::new("Offered and delivered load", &columns);
    for curve in curves {
        for point in &curve.points {
            table.push([
                curve.system.to_owned(),
                thousands(point.offered()),
                thousands(point.delivered()),
                format!("{:.2}", point.delivered() / curve.peak().max(1.0)),
            ]);
        }
    }
    table
}

/// A chart of the delivered rate over the offered load.
pub(super) fn chart(curves: &[Curve]) -> Chart {
    let lines = curves
        .iter()
        .map(|curve| Line {
            name: curve.system.to_owned(),
            detail: curve.arrangement.to_string(),
            points: curve
                .points
                .iter()
                .map(|point| (point.offered() / 1e6, point.delivered() / 1e6))
                .collect(),
        })
        .collect();
    Chart::Lines(Lines {
        title: "Delivered over offered load".into(),
        x: "offered, million packets per second".into(),
        factors: Vec::new(),
        y: "delivered, million packets per second".into(),
        diagonal: Some("no loss".into()),
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Hook;
    use crate::systems::Placement;

    #[test]
    fn overload_is_judged_at_twice_the_peak_or_as_near_as_possible() {
        let point = |offered: f64, delivered: f64| Point {
            offered_pps: vec![offered],
            delivered_pps: vec![delivered],
        };
        let curve = Curve {
            system: "linux",
            arrangement: Arrangement { placement: Placement::Own, sink: Hook::Xdp },
            points: vec![point(1.0, 1.0), point(9.0, 1.5), point(4.0, 1.0), point(3.0, 2.0)],
        };
        assert_eq!(curve.overload(), Some((2.0, 0.5)));
        assert_eq!(kept(std::slice::from_ref(&curve), "linux"), "0.50 at 2.0 ×");
        let short = Curve { points: vec![point(3.0, 1.8), point(2.0, 2.0)], ..curve };
        assert_eq!(short.overload(), Some((1.5, 0.9)));
    }
}
