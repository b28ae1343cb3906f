//! `plot`: charts of a recording.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use europa_api::stats::NodeStats;
use europa_draw::chart::{Line, Lines, panels};

use crate::exit::Failure;
use crate::rates::{Interval, Unit, View};

/// Most curves in one chart: more could not be distinguished.
const MOST_CURVES: usize = 6;

/// Arguments of `plot`.
#[derive(Args, Debug)]
pub(crate) struct PlotArgs {
    /// A recording of `europa record`.
    file: PathBuf,
    /// The objects that have a curve each.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// The figures to draw, each in a chart of its own. Default: `in`, `out`, `drops` and
    /// `waiting`, if the objects have them.
    #[arg(long, value_enum, value_delimiter = ',')]
    figure: Vec<Figure>,
    /// Draw only objects with these names, and their parts: `red`, `red/r1`, `red/r1.in`.
    #[arg(long, value_delimiter = ',')]
    of: Vec<String>,
    /// The file to write. Default: standard output.
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum By {
    Slice,
    #[default]
    Router,
    Interface,
    Port,
    Queue,
}

impl By {
    fn view(self) -> View {
        match self {
            Self::Slice => View::Slices,
            Self::Router => View::Routers,
            Self::Interface => View::Interfaces,
            Self::Port => View::Ports,
            Self::Queue => View::Queues,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Figure {
    /// Mb/s received.
    In,
    /// Mb/s sent.
    Out,
    /// Thousands of packets received a second.
    PacketsIn,
    /// Thousands of packets sent a second.
    PacketsOut,
    /// Thousands of packets lost a second.
    Drops,
    /// Percent of a core.
    Cpu,
    /// MB, without packet pools.
    Memory,
    /// Packets waiting at a port or in a queue.
    Waiting,
    /// The 99th percentile of the waiting time, in microseconds.
    Wait,
}

/// The figures that are drawn without --figure.
const BY_DEFAULT: [Figure; 4] = [Figure::In, Figure::Out, Figure::Drops, Figure::Waiting];

impl Figure {
    /// Heading, unit, factor of that unit, and the column of a view.
    fn drawn(self) -> (&'static str, &'static str, f64, (&'static str, Unit)) {
        match self {
            Self::In => ("received", "Mb/s", 1e6, ("in", Unit::Bits)),
            Self::Out => ("sent", "Mb/s", 1e6, ("out", Unit::Bits)),
            Self::PacketsIn => ("received", "kp/s", 1e3, ("in", Unit::Packets)),
            Self::PacketsOut => ("sent", "kp/s", 1e3, ("out", Unit::Packets)),
            Self::Drops => ("lost", "kp/s", 1e3, ("dropped", Unit::Packets)),
            Self::Cpu => ("CPU time of fast paths", "% of a core", 1.0, ("CPU", Unit::Percent)),
            Self::Memory => ("memory of fast paths", "MB", 1e6, ("memory", Unit::Bytes)),
            Self::Waiting => ("waiting", "packets", 1.0, ("waiting", Unit::Count)),
            Self::Wait => ("p99 waiting time", "us", 1e3, ("p99 wait", Unit::Time)),
        }
    }
}

pub(crate) fn plot(args: &PlotArgs) -> Result<ExitCode, Failure> {
    let text = fs::read_to_string(&args.file)
        .map_err(|error| format!("{}: {error}", args.file.display()))?;
    let svg = draw(args, &readings(&args.file, &text)?)?;
    match &args.output {
        Some(path) => {
            fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        // An error is ignored: the reader of the pipe may have ended.
        None => drop(std::io::stdout().write_all(svg.as_bytes())),
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses readings, one on each line. The last line may be incomplete.
fn readings(path: &Path, text: &str) -> Result<Vec<NodeStats>, Failure> {
    let mut readings = Vec::new();
    let mut lines = text.lines().zip(1_usize..).peekable();
    while let Some((line, number)) = lines.next() {
        match serde_json::from_str(line) {
            Ok(reading) => readings.push(reading),
            Err(_) if lines.peek().is_none() && !readings.is_empty() => break,
            Err(error) => {
                let wanted = "a document of `europa record` is wanted";
                return Err(format!("{}:{number}: {wanted}: {error}", path.display()).into());
            }
        }
    }
    match readings.len() {
        0 | 1 => Err(format!("{}: two readings make a rate", path.display()).into()),
        _ => Ok(readings),
    }
}

/// A name, and the columns of its view at each time in seconds.
type Curve = (String, Vec<(f64, Vec<f64>)>);

/// Whether `name` is `of`, or a part of it.
fn belongs(name: &str, of: &str) -> bool {
    name.strip_prefix(of).is_some_and(|rest| {
        rest.is_empty() || [" ", "/", "."].iter().any(|mark| rest.starts_with(mark))
    })
}

fn draw(args: &PlotArgs, readings: &[NodeStats]) -> Result<String, Failure> {
    let view = args.by.view();
    let start = readings.first().map_or(0, |first| first.at_ns);
    let mut curves: Vec<Curve> = Vec::new();
    for pair in readings.windows(2) {
        let [before, after] = pair else { continue };
        let at = after.at_ns.saturating_sub(start) as f64 / 1e9;
        for row in Interval::new(before, after).rows(view) {
            if !args.of.is_empty() && !args.of.iter().any(|of| belongs(&row.name, of)) {
                continue;
            }
            match curves.iter_mut().find(|(name, _)| *name == row.name) {
                Some((_, points)) => points.push((at, row.values)),
                None => curves.push((row.name, vec![(at, row.values)])),
            }
        }
    }
    if curves.is_empty() {
        return Err(
            format!("the recording has none of these {}", view.title().to_lowercase()).into()
        );
    }
    let place_of = |figure: &Figure| {
        let (.., column) = figure.drawn();
        view.columns().iter().position(|found| *found == column)
    };
    let mut figures = args.figure.clone();
    if figures.is_empty() {
        figures.extend(BY_DEFAULT.into_iter().filter(|figure| place_of(figure).is_some()));
    }
    let all = curves.len();
    keep_the_largest(&mut curves, figures.first().and_then(place_of).unwrap_or(0));
    let charts: Result<Vec<Lines>, Failure> = figures
        .iter()
        .map(|figure| {
            let (title, unit, one, _) = figure.drawn();
            let place = place_of(figure);
            let place = place.ok_or_else(|| {
                let what = view.title().to_lowercase();
                format!("{what} have no {title}: choose another --figure, or another --by")
            })?;
            let line = |(name, points): &Curve| {
                let value = |values: &Vec<f64>| values.get(place).copied().unwrap_or(0.0) / one;
                let points = points.iter().map(|(at, values)| (*at, value(values))).collect();
                Line { name: name.clone(), detail: String::new(), points }
            };
            Ok(Lines {
                title: title.to_owned(),
                x: "seconds".into(),
                factors: Vec::new(),
                y: unit.into(),
                diagonal: None,
                lines: curves.iter().map(line).collect(),
            })
        })
        .collect();
    let mut footer = format!("{}: {} readings", args.file.display(), readings.len());
    if all > curves.len() {
        let what = view.title().to_lowercase();
        footer += &format!("; the largest {} of {all} {what}, see --of", curves.len());
    }
    Ok(panels(view.title(), &charts?, &footer))
}

/// Keeps the curves with the largest sums of a column, in their order.
fn keep_the_largest(curves: &mut Vec<Curve>, column: usize) {
    let sum = |(_, points): &Curve| {
        points.iter().filter_map(|(_, values)| values.get(column)).sum::<f64>()
    };
    let mut sums: Vec<f64> = curves.iter().map(sum).collect();
    sums.sort_by(|a, b| b.total_cmp(a));
    let Some(least) = sums.get(MOST_CURVES - 1).copied() else { return };
    curves.retain(|curve| sum(curve) >= least);
    curves.truncate(MOST_CURVES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;
    use clap::Parser;

    fn args(by: By, of: &[&str], figure: Vec<Figure>) -> PlotArgs {
        let of = of.iter().map(|of| (*of).to_owned()).collect();
        PlotArgs { file: "run.jsonl".into(), by, figure, of, output: None }
    }

    fn recorded() -> Vec<NodeStats> {
        (0..10).map(|n| reading(n * 200_000_000, n * n * 1000)).collect()
    }

    #[test]
    fn a_curve_for_each() {
        let drawn = |by, of| draw(&args(by, of, vec![Figure::In, Figure::Drops]), &recorded());
        for (by, of, curves) in [
            (By::Slice, &[][..], 2),
            (By::Router, &[], 3),
            (By::Router, &["red"], 2),
            (By::Interface, &["red/a.out", "blue"], 2),
        ] {
            let svg = drawn(by, of).expect("drawn");
            assert_eq!(svg.matches("<polyline").count(), 2 * curves, "{by:?} {of:?}");
        }
        for by in [By::Slice, By::Router, By::Interface, By::Port, By::Queue] {
            assert!(draw(&args(by, &[], Vec::new()), &recorded()).is_ok(), "{by:?}");
        }
        assert!(drawn(By::Router, &["green"]).is_err());
        assert!(draw(&args(By::Port, &[], vec![Figure::In]), &recorded()).is_err());
        assert!(draw(&args(By::Port, &["left"], vec![Figure::Waiting]), &recorded()).is_ok());
    }

    #[test]
    fn of_many_curves_the_largest_are_drawn() {
        let mut readings = recorded();
        for (at, reading) in readings.iter_mut().enumerate() {
            let router = reading.routers[0].clone();
            reading.routers = (0..10)
                .map(|number| {
                    let mut router = router.clone();
                    router.name = format!("red/r{number}");
                    router.interfaces.iter_mut().for_each(|one| one.rx_bytes = number * at as u64);
                    router
                })
                .collect();
        }
        let svg = draw(&args(By::Router, &[], vec![Figure::In]), &readings).expect("drawn");
        assert_eq!(svg.matches("<polyline").count(), MOST_CURVES);
        assert!(svg.contains("red/r9") && !svg.contains("red/r3"), "the largest");
        assert!(svg.contains("the largest 6 of 10 routers"), "{svg}");
    }

    #[derive(Parser)]
    struct Plot {
        #[command(flatten)]
        args: PlotArgs,
    }

    #[test]
    fn every_plot_of_the_guide_draws() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let page = fs::read_to_string(page).expect("the page");
        // The names of the guide.
        let text = serde_json::to_string(&recorded()).expect("JSON");
        let text = text.replace("red/a", "red/r1").replace("left", "right");
        let readings: Vec<NodeStats> = serde_json::from_str(&text).expect("readings");
        let lines = page.lines().filter_map(|line| line.strip_prefix("europa plot "));
        let mut drawn = 0;
        for line in lines {
            let words = line.split('#').next().unwrap_or(line).split_whitespace();
            let plot = Plot::try_parse_from(["plot"].into_iter().chain(words));
            let plot = plot.unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(draw(&plot.args, &readings).is_ok(), "{line}");
            drawn += 1;
        }
        assert!(drawn >= 3, "{drawn}");
    }

    #[test]
    fn files_that_end_early_are_drawn_and_others_refused() {
        let path = Path::new("run.jsonl");
        let lines: Vec<String> = recorded()
            .iter()
            .map(|reading| serde_json::to_string(reading).expect("JSON"))
            .collect();
        let text = lines.join("\n");
        assert_eq!(readings(path, &text).expect("whole").len(), 10);
        assert_eq!(readings(path, &text[..text.len() - 7]).expect("cut").len(), 9);
        for wrong in ["", "{", &lines[0], "nonsense\n{}\n"] {
            assert!(readings(path, wrong).is_err(), "{wrong:?}");
        }
    }
}
