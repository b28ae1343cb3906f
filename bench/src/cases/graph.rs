//! `graph`: the element graph of the IPv4 router, without devices, on one core.
//!
//! The graph is an example of `europa-elements`, run as a separate program.

use std::io::Write;

use serde::Serialize;
use serde_json::json;
use tempfile::NamedTempFile;

use super::{clicks, example};
use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table};
use crate::shell;
use crate::statistics::Spread;

const ROUTES: usize = 170_000;
/// A number above that of any table's routes.
const ALL: usize = 2_000_000;
/// The routes of the small table, as in the example.
const TWO: [&str; 2] = ["10.1.0.0/16", "10.2.0.0/16"];

/// A line of the example's output.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Figure {
    batch: u32,
    routes: u32,
    /// The whole time for each packet.
    ns_per_packet: f64,
    /// The same in the quickest tenth of a run: the speed of an undisturbed core.
    least_ns: f64,
    /// The part of the time that source and sink take.
    ends_ns: f64,
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut notes = vec![
        "64-byte packets through the 13 elements of Click's standard IPv4 router, from a source \
         that copies them to a sink that drops them, in one thread; medians. Source and sink are \
         part of the figures and are also given alone. Least: the quickest tenth of a run. Click \
         and FastClick have the same elements, source and sink, in one thread; FastClick replays the \
         frames in batches of 32, Click draws destinations."
            .to_owned(),
    ];
    let example = match example("europa-elements", "graph") {
        Ok(path) => Some(path),
        Err(reason) => {
            notes.push(format!("Not available: {reason}"));
            None
        }
    };
    let mut runs: Vec<Vec<Figure>> = Vec::new();
    let mut references: Vec<Reference> = Vec::new();
    if let Some(example) = example {
        let (file, prefixes) = routes_of(options, &mut notes)?;
        let mut counts = vec![2, ROUTES.min(prefixes.len())];
        counts.extend((prefixes.len() > 2 * ROUTES).then_some(prefixes.len()));
        let (clicks, missing) = clicks::present(options)?;
        notes.extend(missing);
        for click in &clicks {
            let name = click.name();
            let of = |routes| Reference { name, routes, ns_per_packet: Vec::new() };
            references.extend(counts.iter().copied().map(of));
        }
        for round in 1..=options.repeat() {
            progress.show(&format!("graph: {round}/{}", options.repeat()));
            interrupt::check()?;
            let (example, file) = (example.to_string_lossy(), file.path().to_string_lossy());
            let (some, all) = (ROUTES.to_string(), ALL.to_string());
            let mut words = vec!["taskset", "-c", "1", &example, &file, &some];
            words.extend((counts.len() > 2).then_some(all.as_str()));
            let output = shell::run_words(&words)?;
            let figures: Vec<Figure> = output.lines().filter_map(parse).collect();
            if figures.is_empty() {
                return Err(Error::Other(format!("no figures in what {example} wrote:\n{output}")));
            }
            runs.push(figures);
            for reference in &mut references {
                progress.show(&format!(
                    "graph: {}, {} routes, {round}/{}",
                    reference.name,
                    reference.routes,
                    options.repeat()
                ));
                interrupt::check()?;
                let two = TWO.map(String::from);
                let routes = if reference.routes == 2 { &two[..] } else { &prefixes };
                let routes = routes.get(..reference.routes).unwrap_or(routes);
                if let Some(click) = clicks.iter().find(|click| click.name() == reference.name) {
                    reference.ns_per_packet.push(click.measure(routes)?);
                }
            }
        }
    }

    let columns = [
        ("routes", Align::Right),
        ("packets a batch", Align::Right),
        ("ns/packet", Align::Right),
        ("least", Align::Right),
        ("source and sink alone", Align::Right),
    ];
    let mut table = Table::new("The 13 elements of an IPv4 router", &columns);
    let mut bars = Vec::new();
    let mut figures: Vec<Figure> = runs.first().cloned().unwrap_or_default();
    figures.sort_by_key(|figure| (figure.routes, figure.batch));
    for figure in &figures {
        let same = |other: &&Figure| (other.routes, other.batch) == (figure.routes, figure.batch);
        let of = |what: fn(&Figure) -> f64| {
            let values: Vec<f64> = runs.iter().flatten().filter(same).map(what).collect();
            Spread::of(&values).unwrap_or_default()
        };
        let (all, ends) = (of(|figure| figure.ns_per_packet), of(|figure| figure.ends_ns));
        let least = of(|figure| figure.least_ns).min;
        table.push([
            figure.routes.to_string(),
            figure.batch.to_string(),
            format!("{:.1}", all.median),
            format!("{least:.1}"),
            format!("{:.1}", ends.median),
        ]);
        bars.push(Bar {
            label: format!("{} routes", figure.routes),
            detail: format!("batches of {}", figure.batch),
            value: all.median,
            range: Some((all.min, all.max)),
            note: format!("{:.1} ns", all.median),
            series: 0,
        });
    }
    if figures.is_empty() {
        table.push(vec!["–".to_owned(); columns.len()]);
    }
    let beside = beside(&runs, &references);
    for reference in &references {
        let Some(ns) = Spread::of(&reference.ns_per_packet) else { continue };
        bars.push(Bar {
            label: format!("{} routes", reference.routes),
            detail: reference.name.into(),
            value: ns.median,
            range: Some((ns.min, ns.max)),
            note: format!("{:.1} ns", ns.median),
            series: 0,
        });
    }
    let chart = Chart::Bars(Bars {
        title: "IPv4 router as an element graph, one core, no devices".into(),
        unit: "nanoseconds per packet, source and sink included".into(),
        series: vec![],
        bars,
    });
    Ok(Outcome {
        name: "graph",
        title: "Element graph without devices".into(),
        tables: [Some(table), beside].into_iter().flatten().collect(),
        charts: if figures.is_empty() { vec![] } else { vec![("graph".into(), chart)] },
        notes,
        data: json!({ "runs": runs, "references": references }),
    })
}

/// `batches of  32,      2 routes:  25.1 ns a packet, of which  4.1 source and sink`
fn parse(line: &str) -> Option<Figure> {
    let numbers: Vec<f64> = line
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers.as_slice() {
        [batch, routes, ns_per_packet, least_ns, ends_ns] if line.starts_with("batches of") => {
            Some(Figure {
                batch: *batch as u32,
                routes: *routes as u32,
                ns_per_packet: *ns_per_packet,
                least_ns: *least_ns,
                ends_ns: *ends_ns,
            })
        }
        _ => None,
    }
}

/// The time of Click or FastClick with this number of routes.
#[derive(Serialize)]
struct Reference {
    name: &'static str,
    routes: usize,
    ns_per_packet: Vec<f64>,
}

/// Compares Europa in batches of 256 with the references: the same elements, including source and
/// sink.
fn beside(runs: &[Vec<Figure>], references: &[Reference]) -> Option<Table> {
    let columns = [
        ("system", Align::Left),
        ("routes", Align::Right),
        ("ns/packet", Align::Right),
        ("smallest–largest", Align::Right),
        ("times europa", Align::Right),
    ];
    let mut table = Table::new("Beside Click and FastClick", &columns);
    let ours = |routes: usize| {
        let same = |figure: &&Figure| figure.routes as usize == routes && figure.batch == 256;
        let all = runs.iter().flatten().filter(same).map(|figure| figure.ns_per_packet);
        Spread::of(&all.collect::<Vec<f64>>())
    };
    for reference in references {
        let Some(ns) = Spread::of(&reference.ns_per_packet) else { continue };
        let Some(own) = ours(reference.routes) else { continue };
        table.push([
            reference.name.to_owned(),
            reference.routes.to_string(),
            format!("{:.1}", ns.median),
            format!("{:.1}–{:.1}", ns.min, ns.max),
            format!("{:.2}", ns.median / own.median),
        ]);
    }
    (!references.is_empty()).then_some(table)
}

/// The given IPv4 routes, or synthetic ones, as a file and as a list.
fn routes_of(options: &Options, notes: &mut Vec<String>) -> Result<(NamedTempFile, Vec<String>)> {
    let text = match &options.routes {
        // `zcat -f` also accepts uncompressed files.
        Some(path) => shell::run_words(&["zcat", "-f", &path.to_string_lossy()])?,
        None => {
            notes.push(format!("{ROUTES} synthetic routes, half of them /24."));
            synthetic_routes()
        }
    };
    let four = text.lines().filter_map(|line| line.split_whitespace().next());
    let four: Vec<String> = four.filter(|word| !word.contains(':')).map(String::from).collect();
    let mut file = NamedTempFile::new().context("making a file for routes")?;
    file.write_all(four.join("\n").as_bytes()).context("writing routes")?;
    Ok((file, four))
}

/// Distinct prefixes whose lengths are distributed roughly as in the Internet.
fn synthetic_routes() -> String {
    let mut text = String::new();
    for (network, length) in prefixes(ROUTES) {
        let [a, b, c, d] = network.to_be_bytes();
        text.push_str(&format!("{a}.{b}.{c}.{d}/{length}\n"));
    }
    text
}

pub(super) fn prefixes(count: usize) -> Vec<(u32, u32)> {
    let mut seen = std::collections::HashSet::new();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut prefixes = Vec::with_capacity(count);
    while prefixes.len() < count {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let length = match random % 100 {
            0..=49 => 24,
            50..=61 => 22,
            62..=72 => 23,
            73..=84 => [20, 21, 19][(random >> 8) as usize % 3],
            85..=98 => [16, 17, 18][(random >> 8) as usize % 3],
            _ => 12,
        };
        // 1.0.0.0 to 223.255.255.255, the addresses that may be routed.
        let address = 0x0100_0000 + (random >> 32) as u32 % (223 << 24);
        let prefix = (address & (u32::MAX << (32 - length)), length);
        if seen.insert(prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_example_are_read() {
        let line = "batches of  32, 170000 routes:  25.1 ns a packet (least  23.2), of which  4.5 \
                    source and sink";
        let (ns_per_packet, least_ns, ends_ns) = (25.1, 23.2, 4.5);
        let figure = Figure { batch: 32, routes: 170_000, ns_per_packet, least_ns, ends_ns };
        assert_eq!(parse(line), Some(figure));
        assert_eq!(parse("RadixIPLookup  30.1 +5.1"), None);
    }

    #[test]
    fn synthetic_prefixes_are_distinct_and_aligned() {
        let prefixes = prefixes(10_000);
        let distinct: std::collections::HashSet<_> = prefixes.iter().collect();
        assert_eq!(distinct.len(), 10_000);
        for (network, length) in prefixes {
            assert_eq!(network << length, 0, "{network:#x}/{length}");
            assert!((1..=223).contains(&(network >> 24)) || length < 8, "{network:#x}");
        }
    }
}
