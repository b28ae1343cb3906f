//! `filters`: look-ups among 100,000 ternary rules like those of ClassBench, and changes meanwhile.
//!
//! An example of `europa-filter`, run as a separate program, measures look-ups; `filter_changes.rs`
//! measures changes while packets are forwarded.

use serde::Serialize;
use serde_json::json;

use super::example;
use crate::cli::Options;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Outcome, Table, thousands};
use crate::shell;
use crate::statistics::Spread;

/// The result of the example for one kind of rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Figure {
    /// Kind of the rules, and seed.
    what: String,
    rules: f64,
    tuples: f64,
    median_ns: f64,
    mean_ns: f64,
    cached_ns: f64,
    /// Nanoseconds of a linear scan, which compares every rule in order until one matches.
    scan_ns: f64,
    changes_a_second: f64,
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut notes = vec![
        "Rules of three kinds, made from the seeds beside their names: access lists, firewalls and \
         IP chains as ClassBench's models have them, ranges of ports as their prefixes. Packets fit \
         a random rule each. Uncached: single look-ups, and the mean of all one after the other. \
         Cached: 1000 flows, with counters. Scan: the same rules one by one until one fits. Changes \
         are removals and additions in batches of 256, while another thread looks up."
            .to_owned(),
    ];
    let mut runs: Vec<Vec<Figure>> = Vec::new();
    match example("europa-filter", "filtering") {
        Ok(example) => {
            for round in 1..=options.repeat() {
                progress.show(&format!("filters: {round}/{}", options.repeat()));
                interrupt::check()?;
                let output = shell::run_words(&[&example.to_string_lossy()])?;
                let figures = parse(&output);
                if figures.is_empty() {
                    let example = example.display();
                    return Err(Error::Other(format!(
                        "no figures in what {example} wrote:\n{output}"
                    )));
                }
                runs.push(figures);
            }
        }
        Err(reason) => notes.push(format!("Not available: {reason}")),
    }
    let beside = super::filter_changes::run(options, progress)?;
    notes.push(beside.note);
    let columns = [
        ("rules", Align::Left),
        ("entries", Align::Right),
        ("tuples", Align::Right),
        ("uncached: median ns", Align::Right),
        ("smallest–largest", Align::Right),
        ("mean ns", Align::Right),
        ("cached: ns", Align::Right),
        ("scan: ns", Align::Right),
        ("thousand changes/s", Align::Right),
    ];
    let mut table = Table::new("Look-ups among 100,000 filters", &columns);
    for kind in runs.first().into_iter().flatten() {
        let spread = |value: fn(&Figure) -> f64| {
            let all = runs.iter().flatten().filter(|figure| figure.what == kind.what);
            Spread::of(&all.map(value).collect::<Vec<_>>()).unwrap_or_default()
        };
        let (uncached, cached) = (spread(|f| f.median_ns), spread(|f| f.cached_ns));
        table.push([
            kind.what.clone(),
            format!("{:.0}", kind.rules),
            format!("{:.0}", kind.tuples),
            format!("{:.0}", uncached.median),
            format!("{:.0}–{:.0}", uncached.min, uncached.max),
            format!("{:.0}", spread(|f| f.mean_ns).median),
            format!("{:.1}", cached.median),
            format!("{:.0}", spread(|f| f.scan_ns).median),
            thousands(spread(|f| f.changes_a_second).median),
        ]);
    }
    if runs.is_empty() {
        table.push(vec!["–".to_owned(); columns.len()]);
    }
    Ok(Outcome {
        name: "filters",
        title: "Filters".into(),
        tables: vec![table, beside.table],
        charts: beside.chart.into_iter().collect(),
        notes,
        data: json!({ "runs": runs, "beside_packets": beside.data }),
    })
}

/// Parses the example's output: three lines for each kind.
fn parse(text: &str) -> Vec<Figure> {
    let numbers = |line: &str| -> Vec<f64> {
        let words = line.split(|c: char| !c.is_ascii_digit() && c != '.');
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let lines: Vec<&str> = text.lines().collect();
    let kind = |lines: &[&str]| {
        let [first, second, third] = lines else { return None };
        let (what, first) = first.split_once(": ")?;
        let first = numbers(first);
        let [median_ns, mean_ns, cached_ns, scan_ns] = numbers(second)[..] else { return None };
        Some(Figure {
            what: what.to_owned(),
            rules: *first.get(1)?,
            tuples: *first.get(2)?,
            median_ns,
            mean_ns,
            cached_ns,
            scan_ns,
            changes_a_second: *numbers(third).first()?,
        })
    };
    lines.chunks(3).filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_example_are_read() {
        let text = "Firewall, seed 2: 43522 filters, 100000 rules, 119 tuples, 16 MiB; adding 1405 ns a rule\n\
                    \x20 uncached: median 231, mean 989 ns; cached, with counters: mean 10.8 ns; scan: mean 51234 ns\n\
                    \x20 282985 changes/s, while 20.7 million look-ups/s\n";
        let figure = Figure {
            what: "Firewall, seed 2".into(),
            rules: 100_000.0,
            tuples: 119.0,
            median_ns: 231.0,
            mean_ns: 989.0,
            cached_ns: 10.8,
            scan_ns: 51_234.0,
            changes_a_second: 282_985.0,
        };
        assert_eq!(parse(text), [figure]);
        assert!(parse("error\n").is_empty());
    }
}
