//! `shares`: the measured and expected shares of slices that compete for a port. The case also
//! measures a slice with a guarantee beside the flood of another slice, which comes from another
//! port.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::Options;
use crate::error::{Error, Result};
use crate::generator::Generator;
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table, thousands};
use crate::sink::{Checks, Hook, Sink};
use crate::statistics::Spread;
use crate::systems::System as _;
use crate::systems::europa::{DOCUMENTS, Europa, on_testbed};

/// The port's rate while four slices share it.
const RATE_MBITS: f64 = 200.0;
/// A slice, its reservation, and its expected rate in Mb/s. Of 200 Mb/s, 100 are guaranteed and 20
/// go to the capped slice. The remaining 80 are divided into five parts; one of them also goes to
/// the guaranteed slice.
const SLICES: [(&str, &str, f64); 4] = [
    ("red", "weight: 3", 48.0),
    ("green", "weight: 1", 16.0),
    ("blue", "guarantee: 100Mb/s", 116.0),
    ("grey", "weight: 100, cap: 20Mb/s", 20.0),
];
/// Frames of 64 to 9,000 bytes, more than any slice may send.
const MIXED: &str = "s :: RoundRobinSched -> FRAME -> ToDevice(out);
    RatedSource(LENGTH 50, RATE 20000) -> Queue(50) -> [0]s;
    RatedSource(LENGTH 8980, RATE 4000) -> Queue(50) -> [1]s;
    RatedSource(LENGTH 1400, RATE 20000) -> Queue(50) -> [2]s;";
/// 2,000 frames a second: 3.4 Mb/s of a guarantee of 10 Mb/s.
const VOICE: &str = "RatedSource(LENGTH 200, RATE 2000) -> Queue -> FRAME -> ToDevice(out);";
/// Time between two readings of the slices' bytes.
const SECOND: Duration = Duration::from_secs(1);

/// One round of both measurements.
#[derive(Serialize)]
struct Round {
    /// Rate of each of [`SLICES`] in bits a second.
    got: Vec<f64>,
    voice: Voice,
}

#[derive(Serialize)]
struct Voice {
    sent: u64,
    dropped: u64,
    /// Time below which 99 of 100 packets waited: a power of two.
    waited_p99_ns: u64,
    /// Frames a second of the flood: sent by the generator, and forwarded by the port.
    offered_pps: f64,
    flood_pps: f64,
}

/// A slice with a router that sends by a port of the testbed.
fn sender(index: usize, slice: &str, part: &str, click: &str) -> String {
    let mac = format!("02:00:00:00:01:{index:02x}");
    let click = click.replace("FRAME", &format!("EtherEncap(0x0800, {mac}, 02:00:00:00:00:04)"));
    format!(
        "---\nkind: slice\nname: {slice}\nreservation: {{ports: {{right: {{{part}}}}}}}\n---\n\
         kind: router\nname: r\nslice: {slice}\n\
         interfaces:\n  out: {{port: right, mac: \"{mac}\"}}\n\
         fast_path:\n  click: |\n    FromDevice(out) -> Discard;\n    {click}\n"
    )
}

fn shared() -> String {
    let port = "kind: port\nname: right\ndevice: r1\nnamespace: eub-rtr\nrate: 200Mb/s\n";
    let slices = SLICES.iter().enumerate();
    port.to_owned()
        + &slices
            .map(|(index, (slice, part, _))| sender(index, slice, part, MIXED))
            .collect::<String>()
}

/// Two routers: that of the other cases, which gets the flood, and a router with a guarantee.
fn flooded() -> String {
    let port = "device: r1\nnamespace: eub-rtr\n";
    DOCUMENTS.replace(port, &format!("{port}rate: 1Gb/s\n"))
        + &sender(1, "voice", "guarantee: 10Mb/s", VOICE)
}

fn strange(what: &str) -> Error {
    Error::System { system: "europa", message: format!("statistics do not say {what}") }
}

fn statistics(europa: &Europa) -> Result<Value> {
    serde_json::from_str(&europa.ask(&["stats", "--json"])?).map_err(|_| strange("anything"))
}

/// Time of the statistics in nanoseconds, and the packets sent by a router's interface on the right
/// port.
fn sent(stats: &Value, router: &str, interface: &str, what: &str) -> Result<(u64, u64)> {
    let routers = stats["routers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = routers.iter().find(|one| one["name"] == router).unwrap_or(&Value::Null);
    let interfaces = of["interfaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = interfaces.iter().find(|one| one["name"] == interface).unwrap_or(&Value::Null);
    let at_ns = stats["at_ns"].as_u64();
    at_ns.zip(found[what].as_u64()).ok_or_else(|| strange(&format!("what {router} has sent")))
}

fn share(options: &Options) -> Result<Vec<f64>> {
    on_testbed(options, |testbed, europa| {
        testbed.router.ip("link set r1 mtu 9000")?;
        testbed.sink.ip("link set s0 mtu 9000")?;
        europa.up_with(&shared())?;
        let look = |europa: &Europa| -> Result<Vec<(u64, u64)>> {
            let stats = statistics(europa)?;
            let of = |slice| sent(&stats, &format!("{slice}/r"), "out", "tx_bytes");
            SLICES.iter().map(|(slice, ..)| of(slice)).collect()
        };
        interrupt::sleep(SECOND)?;
        let before = look(europa)?;
        interrupt::sleep(SECOND)?;
        let after = look(europa)?;
        let bits = after.iter().zip(&before).map(|((now_ns, now), (then_ns, then))| {
            let seconds = now_ns.saturating_sub(*then_ns).max(1) as f64 / 1e9;
            now.saturating_sub(*then) as f64 * 8.0 / seconds
        });
        Ok(bits.collect())
    })
}

fn flood(options: &Options) -> Result<Voice> {
    on_testbed(options, |testbed, europa| {
        europa.up_with(&flooded())?;
        let sink = Sink::attach(testbed, Hook::Xdp, Checks::default())?;
        let generator = Generator::start(testbed, &options.load())?;
        interrupt::sleep(options.timing().warm_up)?;
        let look = |europa: &Europa| -> Result<_> {
            let stats = statistics(europa)?;
            let voice = sent(&stats, "voice/r", "out", "tx_packets")?.1;
            let flood = sent(&stats, "bench/r1", "out", "tx_packets")?.1;
            Ok((stats, voice, flood))
        };
        let begun = (Instant::now(), generator.sent()?, look(europa)?);
        interrupt::sleep(options.timing().run + SECOND)?;
        let (stats, voice, flood) = look(europa)?;
        let (seconds, offered) = (begun.0.elapsed().as_secs_f64(), generator.sent()? - begun.1);
        generator.stop()?;
        drop(sink);
        let queues = stats["queues"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is = |one: &&Value| one["slice"] == "voice" && one["queue"] == 0;
        let queue = queues.iter().find(is).ok_or_else(|| strange("how long voice waited"))?;
        let drops = queue["drops"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Voice {
            sent: voice.saturating_sub(begun.2.1),
            dropped: drops.iter().filter_map(|drop| drop[1].as_u64()).sum(),
            waited_p99_ns: queue["waited_p99_ns"].as_u64().ok_or_else(|| strange("a wait"))?,
            offered_pps: offered as f64 / seconds,
            flood_pps: flood.saturating_sub(begun.2.2) as f64 / seconds,
        })
    })
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let europa = Europa::new(options.europa.clone()).available();
    let missing = europa.err().map(|reason| format!("europa: not available, {reason}."));
    let mut rounds = Vec::new();
    let count = if missing.is_some() { 0 } else { options.repeat() };
    for round in 1..=count {
        progress.show(&format!("shares: four slices, {round}/{count}"));
        let got = share(options)?;
        progress.show(&format!("shares: a flood, {round}/{count}"));
        rounds.push(Round { got, voice: flood(options)? });
    }
    Ok(report(&rounds, missing))
}

fn report(rounds: &[Round], missing: Option<String>) -> Outcome {
    let columns = [
        ("slice", Align::Left),
        ("reserves", Align::Left),
        ("should get, Mb/s", Align::Right),
        ("got", Align::Right),
        ("smallest–largest", Align::Right),
        ("off, %", Align::Right),
    ];
    let mut shares = Table::new("Four slices at a port of 200 Mb/s", &columns);
    let mut bars = Vec::new();
    for (index, (slice, part, wanted)) in SLICES.iter().enumerate() {
        let all = rounds.iter().filter_map(|round| round.got.get(index)).map(|bits| bits / 1e6);
        let got = Spread::of(&all.collect::<Vec<f64>>()).unwrap_or_default();
        shares.push([
            (*slice).to_owned(),
            (*part).to_owned(),
            format!("{wanted:.0}"),
            format!("{:.2}", got.median),
            format!("{:.2}–{:.2}", got.min, got.max),
            format!("{:+.2}", (got.median / wanted - 1.0) * 100.0),
        ]);
        for (series, value) in [*wanted, got.median].into_iter().enumerate() {
            bars.push(Bar {
                label: if series == 0 { (*slice).to_owned() } else { String::new() },
                detail: if series == 0 { (*part).to_owned() } else { String::new() },
                value,
                range: (series == 1).then_some((got.min, got.max)),
                note: format!("{value:.1}"),
                series,
            });
        }
    }
    let columns = [
        ("round", Align::Right),
        ("packets with a guarantee", Align::Right),
        ("lost", Align::Right),
        ("99 of 100 waited less than, µs", Align::Right),
        ("flood offered, thousand/s", Align::Right),
        ("let through", Align::Right),
    ];
    let mut waits = Table::new("A slice with a guarantee beside a flood", &columns);
    for (round, Round { voice, .. }) in (1..).zip(rounds) {
        waits.push([
            format!("{round}"),
            voice.sent.to_string(),
            voice.dropped.to_string(),
            format!("{:.0}", voice.waited_p99_ns as f64 / 1e3),
            thousands(voice.offered_pps),
            thousands(voice.flood_pps),
        ]);
    }
    let mut notes = vec![format!(
        "Frames of 64, 1414 and 8994 bytes by turns from each slice, more than it gets; bytes in one \
         second, medians of {} rounds. {RATE_MBITS:.0} Mb/s less the guarantee of 100 and the cap of 20 \
         are five parts, of which red has three, green and blue one each.",
        rounds.len()
    )];
    notes.push(
        "Beside a flood: 2000 packets/s of a slice with a guarantee of 10 Mb/s leave by a port of \
         1 Gb/s that another slice's router wants for what comes in by another port, as fast as the \
         generator can. Waits are counted by powers of two."
            .into(),
    );
    notes.extend(missing);
    let chart = Chart::Bars(Bars {
        title: "What four slices get of a port".into(),
        unit: "Mb/s".into(),
        series: vec!["should get".into(), "got".into()],
        bars,
    });
    Outcome {
        name: "shares",
        title: "Shares of a port".into(),
        tables: vec![shares, waits],
        charts: vec![("shares".into(), chart)],
        notes,
        data: json!({ "rounds": rounds }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_valid_and_parts_are_the_whole() {
        for (text, routers) in [(shared(), SLICES.len()), (flooded(), 2)] {
            let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a temporary file");
            std::fs::write(file.path(), &text).expect("written");
            let documents = europa_api::load(&[file.path()]).expect("valid documents");
            assert_eq!(documents.routers.len(), routers);
            assert!(text.contains("rate: "));
        }
        let sum: f64 = SLICES.iter().map(|(.., wanted)| wanted).sum();
        assert!((sum - RATE_MBITS).abs() < 1e-9, "{sum}");
    }
}
