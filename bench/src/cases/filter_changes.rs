//! Part of `filters`: rules change over the REST interface while packets pass. It measures changes
//! a second, the losses of a stream meanwhile, and the highest rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use europa_client::Client;
use serde::Serialize;
use serde_json::{Value, json};

use super::plainest;
use crate::cli::Options;
use crate::error::{Error, Result};
use crate::generator::Load;
use crate::interrupt;
use crate::measure::{self, Ends, Run, Stamped, observe, until_steady};
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Table, thousands};
use crate::sink::Checks;
use crate::statistics::Spread;
use crate::systems::System as _;
use crate::systems::europa::{DOCUMENTS, Europa, SOCKET, on_testbed};

/// Rules that are installed all the time.
const STANDING: u32 = 100_000;
/// Number of rules that a request removes; it adds the same number.
const BATCH: u32 = 5000;
/// Changes a second in the scene with a fixed rate: rules added and removed.
const PACED: f64 = 100_000.0;
/// Destination addresses of the packets, so that packets match different rules.
const DESTINATIONS: u32 = 1024;

/// The changes of the rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    /// There are no rules.
    NoRules,
    /// The rules do not change.
    None,
    /// This many changes a second.
    Paced,
    /// As many changes as possible.
    Most,
}

const SCENES: [(&str, Changes); 4] = [
    ("no rules", Changes::NoRules),
    ("100,000 rules", Changes::None),
    ("100,000 changes/s wanted", Changes::Paced),
    ("as many changes as possible", Changes::Most),
];

/// The result of one scene.
#[derive(Serialize)]
pub(super) struct Measured {
    scene: &'static str,
    /// Changes a second during a stream at half the highest rate.
    changes_a_second: Vec<f64>,
    /// Changes a second while packets arrive at the highest rate.
    changes_in_flood: Vec<f64>,
    /// Time from the request for a change of `BATCH` rules to its answer.
    answer_ms: Vec<f64>,
    streams: Vec<Stamped>,
    highest: Vec<Run>,
}

/// The results of all scenes.
pub(super) struct Beside {
    pub(super) table: Table,
    pub(super) chart: Option<(String, Chart)>,
    pub(super) note: String,
    pub(super) data: Value,
}

/// Runs all scenes in turns.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Beside> {
    let europa = Europa::new(options.europa.clone());
    if let Err(reason) = europa.available() {
        return Ok(report(&[], &Ends::default(), format!("europa: not available, {reason}.")));
    }
    progress.show("filters: generator and sink alone");
    let load = Load { destinations: DESTINATIONS, ..options.load() };
    let ends = measure::calibrate(&load, options.timing())?;
    let new = |(scene, _)| Measured {
        scene,
        changes_a_second: vec![],
        changes_in_flood: vec![],
        answer_ms: vec![],
        streams: vec![],
        highest: vec![],
    };
    let mut all = SCENES.map(new);
    let mut half = None;
    for round in 1..=options.repeat() {
        for ((name, changes), one) in SCENES.into_iter().zip(&mut all) {
            progress.show(&format!("filters: {name}, {round}/{}", options.repeat()));
            interrupt::check()?;
            scene(changes, &load, options, &mut half, one)?;
        }
    }
    let half = thousands(half.unwrap_or(0.0));
    Ok(report(
        &all,
        &ends,
        format!(
            "Changes beside packets: a router's slice has {STANDING} rules like ClassBench's access \
             lists, of which none fits the packets, which go to {DESTINATIONS} addresses. Each \
             request takes {BATCH} rules away and adds {BATCH}: {} changes. Lost: of a stream of {half} \
             thousand packets a second, half of what the router forwards without rules, each with its \
             number; changes a second are those beside it. Highest rate: as fast as the generator can, which has a core of its own; switch, \
             router, node and who asks it share the other one, and CPU time has all of them.",
            2 * BATCH
        ),
    ))
}

/// Runs one scene in a new testbed; the first scene measures half the highest rate.
fn scene(
    changes: Changes,
    load: &Load,
    options: &Options,
    half: &mut Option<f64>,
    one: &mut Measured,
) -> Result<()> {
    on_testbed(options, |testbed, europa| {
        let arrangement = plainest(&*europa)?;
        europa.up_with(DOCUMENTS)?;
        arrangement.apply(testbed)?;
        let mut rules = Rules::new(changes)?;
        let checks = Checks { hops: 1, ..Checks::default() };
        let timing = options.timing();
        let highest = rules.meanwhile(|| {
            until_steady(|| {
                let (run, _) = observe(testbed, arrangement.sink, checks, load, timing)?;
                Ok(run)
            })
        })?;
        let half = *half.get_or_insert(highest.delivered_pps / 2.0);
        one.highest.push(highest);
        one.changes_in_flood.extend(rules.a_second());
        // The remaining packets of the flood drain during this time.
        interrupt::sleep(Duration::from_millis(200))?;
        let paced = load.clone().at(half as u64);
        let stream = rules.meanwhile(|| {
            measure::follow(testbed, arrangement.sink, &paced, || {
                interrupt::sleep(timing.run.max(Duration::from_secs(1)))
            })
        })?;
        one.streams.push(stream);
        one.changes_a_second.extend(rules.a_second());
        one.answer_ms.extend(Spread::of(&rules.answers_ms).map(|spread| spread.median));
        Ok(())
    })
}

/// The slice's rules, and their writer.
struct Rules {
    changes: Changes,
    client: Client,
    /// Numbers of the rules that the next change removes.
    last: Vec<u32>,
    /// Seed that makes each change different from the former one.
    seed: u32,
    made: f64,
    seconds: f64,
    answers_ms: Vec<f64>,
}

impl Rules {
    fn new(changes: Changes) -> Result<Self> {
        let client = Client::new(SOCKET);
        let mut rules = Self {
            changes,
            client,
            last: Vec::new(),
            seed: 1,
            made: 0.0,
            seconds: 0.0,
            answers_ms: Vec::new(),
        };
        if changes != Changes::NoRules {
            rules.change(&[], STANDING - BATCH)?;
            rules.last = rules.change(&[], BATCH)?;
        }
        Ok(rules)
    }

    /// Removes and adds rules in one step. Returns the numbers of the new rules.
    fn change(&mut self, remove: &[u32], add: u32) -> Result<Vec<u32>> {
        let mut text = String::with_capacity(add as usize * 80);
        for _ in 0..add {
            text.push_str(&rule(&mut self.seed));
        }
        let request = json!({
            "remove": remove,
            "classbench": { "file": "bench.txt", "text": text, "action": "count" },
        });
        let answer: Result<Value, _> = self.client.post("/v1/slices/bench/filters", &request);
        let answer = answer
            .map_err(|error| Error::System { system: "europa", message: error.to_string() })?;
        let numbers = answer.get("added").and_then(Value::as_array).into_iter().flatten();
        Ok(numbers.filter_map(|number| u32::try_from(number.as_u64()?).ok()).collect())
    }

    /// Changes a second since the last call; `None` if there were none.
    fn a_second(&mut self) -> Option<f64> {
        let (made, seconds) = (std::mem::take(&mut self.made), std::mem::take(&mut self.seconds));
        (seconds > 0.0).then(|| made / seconds)
    }

    /// Runs `work` while rules change.
    fn meanwhile<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if matches!(self.changes, Changes::NoRules | Changes::None) {
            return work();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| self.go_on(&stop));
            let done = work();
            stop.store(true, Ordering::Relaxed);
            let changed = changing
                .join()
                .unwrap_or_else(|_| Err(Error::Other("changing rules panicked".into())));
            done.and_then(|value| changed.map(|()| value))
        })
    }

    fn go_on(&mut self, stop: &AtomicBool) -> Result<()> {
        let (begun, mut made) = (Instant::now(), 0.0);
        while !stop.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let remove = std::mem::take(&mut self.last);
            self.last = self.change(&remove, BATCH)?;
            self.answers_ms.push(asked.elapsed().as_secs_f64() * 1e3);
            made += (remove.len() + self.last.len()) as f64;
            if self.changes == Changes::Paced {
                let due = Duration::from_secs_f64(made / PACED);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
        self.made += made;
        self.seconds += begun.elapsed().as_secs_f64();
        Ok(())
    }
}

/// A rule as in an access list: TCP from a host to a network, with one port. No rule has private
/// addresses, because packets have these as destinations.
fn rule(seed: &mut u32) -> String {
    let mut next = || {
        // xorshift32
        *seed ^= *seed << 13;
        *seed ^= *seed >> 17;
        *seed ^= *seed << 5;
        *seed
    };
    let [_, a, b, c] = next().to_be_bytes();
    let ([_, d, e, f], port) = (next().to_be_bytes(), next() % 60_000);
    let bits = 24 + u32::from(f % 9);
    let network = u32::from_be_bytes([20 + d % 100, d, e, f]) & (u32::MAX << (32 - bits));
    let [w, x, y, z] = network.to_be_bytes();
    format!(
        "@{}.{a}.{b}.{c}/32\t{w}.{x}.{y}.{z}/{bits}\t0 : 65535\t{port} : {port}\t0x06/0xFF\t\
         0x0000/0x0000\n",
        130 + a % 80
    )
}

fn report(all: &[Measured], ends: &Ends, note: String) -> Beside {
    let columns = [
        ("rules", Align::Left),
        ("thousand changes/s", Align::Right),
        ("smallest–largest", Align::Right),
        ("in a flood", Align::Right),
        ("answer, ms", Align::Right),
        ("lost, each time", Align::Right),
        ("of packets", Align::Right),
        ("highest rate, thousand packets/s", Align::Right),
        ("smallest–largest", Align::Right),
        ("CPU ns/packet", Align::Right),
    ];
    let mut table = Table::new("Changes beside packets that are forwarded", &columns);
    let mut bars = Vec::new();
    for one in all {
        let rates: Vec<f64> = one.highest.iter().map(|run| run.delivered_pps).collect();
        let costs: Vec<f64> = one.highest.iter().map(|run| run.cpu_ns_per_packet(ends)).collect();
        let (rate, cost) = (spread(&rates), spread(&costs));
        let lost: Vec<String> = one.streams.iter().map(|stream| stream.lost.to_string()).collect();
        let changes = Spread::of(&one.changes_a_second);
        let dash = || "–".to_owned();
        table.push([
            one.scene.to_owned(),
            changes.map_or_else(dash, |changes| thousands(changes.median)),
            changes.map_or_else(dash, |changes| {
                format!("{}–{}", thousands(changes.min), thousands(changes.max))
            }),
            Spread::of(&one.changes_in_flood)
                .map_or_else(dash, |changes| thousands(changes.median)),
            Spread::of(&one.answer_ms).map_or_else(dash, |ms| format!("{:.1}", ms.median)),
            lost.join(" "),
            one.streams.iter().map(|stream| stream.sent).sum::<u64>().to_string(),
            thousands(rate.median),
            format!("{}–{}", thousands(rate.min), thousands(rate.max)),
            format!("{:.0}", cost.median),
        ]);
        bars.push(Bar {
            label: String::from(one.scene),
            detail: Spread::of(&one.changes_in_flood).map_or_else(
                || "no changes".to_owned(),
                |changes| format!("{} thousand changes/s", thousands(changes.median)),
            ),
            value: rate.median / 1e6,
            range: Some((rate.min / 1e6, rate.max / 1e6)),
            note: format!("{:.2}", rate.median / 1e6),
            series: 0,
        });
    }
    let chart = (!bars.is_empty()).then(|| {
        let chart = Bars {
            title: "Highest rate while filters change".into(),
            unit: "million packets per second".into(),
            series: vec![],
            bars,
        };
        ("filters-changes".to_owned(), Chart::Bars(chart))
    });
    Beside { table, chart, note, data: json!({ "ends": ends, "scenes": all }) }
}

fn spread(values: &[f64]) -> Spread {
    Spread::of(values).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_differ_and_fit_no_packet_of_the_generator() {
        let mut seed = 1;
        let rules: std::collections::BTreeSet<String> =
            (0..1000).map(|_| rule(&mut seed)).collect();
        assert!(rules.len() > 990);
        assert!(rules.iter().all(|rule| rule.starts_with("@1") || rule.starts_with("@2")));
        assert!(rules.iter().all(|rule| !rule.contains("@10.") && rule.contains("0x06/0xFF")));
    }
}
