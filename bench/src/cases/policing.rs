//! `policing`: the cost of a frame that the receive program drops because its slice has used up its
//! rate. It is compared with an XDP program that only counts and drops, and with frames that pass.
//!
//! The case measures twice under full load: by the busy time of all cores, then by the kernel's own
//! clock around the program (`kernel.bpf_stats_enabled`).

use std::fs;
use std::time::Duration;

use libbpf_rs::query::ProgInfoIter;
use serde::Serialize;
use serde_json::json;

use crate::cli::Options;
use crate::cpu::Sample;
use crate::error::{Context, Error, Result};
use crate::generator::{Generator, Load};
use crate::interrupt;
use crate::measure::MAY_BE_STOLEN;
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table, thousands};
use crate::sink::{Checks, Hook, Sink};
use crate::statistics::Spread;
use crate::systems::System as _;
use crate::systems::europa::{DOCUMENTS, Europa, on_testbed};
use crate::testbed::Testbed;

/// The file that makes the kernel read the clock before and after each program.
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Largest valid difference between the halves of a run.
const HALVES_MAY_DIFFER: f64 = 0.10;
const TRIES: u32 = 4;

/// The receiver of the frames.
struct Scene {
    name: &'static str,
    /// The kernel's name of the program at the device.
    program: &'static str,
    /// The slice's reservation; `None` if a plain program drops the frames, without Europa.
    reservation: Option<&'static str>,
}

const SCENES: [Scene; 4] = [
    Scene { name: "XDP program that drops", program: "sink_xdp", reservation: None },
    Scene {
        name: "slice far over its rate",
        program: "europa_receive",
        reservation: Some("reservation: {ports: {left: {rate_in: 1Mb/s}}}\n"),
    },
    Scene {
        name: "slice within its rate",
        program: "europa_receive",
        reservation: Some("reservation: {ports: {left: {rate_in: 100Gb/s}}}\n"),
    },
    Scene { name: "slice without a rate", program: "europa_receive", reservation: Some("") },
];

#[derive(Serialize)]
struct Measured {
    scene: &'static str,
    program: &'static str,
    /// Time in the program for each frame.
    program_ns: Vec<f64>,
    /// CPU time of all cores for each frame at the highest rate, including that of sending.
    cpu_ns: Vec<f64>,
    offered_pps: Vec<f64>,
    /// Share of packets that reached the sink at the highest rate.
    delivered: Vec<f64>,
    repeated: u32,
}

/// Enables the kernel's statistics until it is dropped.
struct Counting(String);

impl Counting {
    fn begin() -> Result<Self> {
        let before = fs::read_to_string(SWITCH).context(SWITCH)?;
        fs::write(SWITCH, "1").context(SWITCH)?;
        Ok(Self(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // No caller can receive this error, and a kernel that continues to count does no harm.
        let _ = fs::write(SWITCH, self.0.trim());
    }
}

/// Nanoseconds and number of runs of all programs with this name.
fn spent(name: &str) -> (u64, u64) {
    let all = ProgInfoIter::default().filter(|program| program.name == *name);
    all.fold((0, 0), |sum, one| (sum.0 + one.run_time_ns, sum.1 + one.run_cnt))
}

fn scene(scene: &Scene, options: &Options, one: &mut Measured) -> Result<()> {
    on_testbed(options, |testbed, europa| {
        let Some(reservation) = scene.reservation else {
            let (router, none) = (&testbed.router, Checks::default());
            let _dropping = Sink::attach_to(router, "r0", Hook::Xdp, none)?;
            return both(scene, options, testbed, false, one);
        };
        europa.up_with(
            &DOCUMENTS.replace("name: bench\n---", &format!("name: bench\n{reservation}---")),
        )?;
        both(scene, options, testbed, true, one)
    })
}

fn both(
    scene: &Scene,
    options: &Options,
    testbed: &Testbed,
    ends: bool,
    one: &mut Measured,
) -> Result<()> {
    let sink = ends.then(|| Sink::attach(testbed, Hook::Xdp, Checks::default())).transpose()?;
    for attempt in 0..TRIES {
        if flood(&options.load(), options.timing().run, testbed, sink.as_ref(), one)?
            || attempt + 1 == TRIES
        {
            break;
        }
        one.repeated += 1;
        one.cpu_ns.pop();
        one.offered_pps.pop();
        one.delivered.pop();
    }
    // The sink is also an XDP program, and might have the same name.
    drop(sink);
    one.program_ns.push(in_program(scene.program, options, testbed)?);
    Ok(())
}

/// Measures the nanoseconds of a run of a program by the kernel's statistics, at the highest rate.
fn in_program(program: &'static str, options: &Options, testbed: &Testbed) -> Result<f64> {
    let generator = Generator::start(testbed, &options.load())?;
    let counting = Counting::begin()?;
    interrupt::sleep(options.timing().warm_up)?;
    let before = spent(program);
    interrupt::sleep(options.timing().run)?;
    let after = spent(program);
    drop(counting);
    generator.stop()?;
    let runs = after.1.saturating_sub(before.1);
    if runs < 1000 {
        let message = format!("{program} ran {runs} times, which says nothing");
        return Err(Error::System { system: "policing", message });
    }
    Ok(after.0.saturating_sub(before.0) as f64 / runs as f64)
}

/// Sends as fast as possible. Returns whether the rate was steady.
fn flood(
    load: &Load,
    time: Duration,
    testbed: &Testbed,
    sink: Option<&Sink>,
    one: &mut Measured,
) -> Result<bool> {
    let arrived = || sink.map_or(Ok(0), |sink| sink.counters().map(|counters| counters.packets));
    let generator = Generator::start(testbed, load)?;
    interrupt::sleep(time / 4)?;
    let (begun, first) = (Sample::take()?, (generator.sent()?, arrived()?));
    interrupt::sleep(time / 2)?;
    let middle = generator.sent()?;
    interrupt::sleep(time / 2)?;
    let (last, busy) = ((generator.sent()?, arrived()?), Sample::take()?.since(&begun)?);
    generator.stop()?;
    let sent = last.0.saturating_sub(first.0).max(1) as f64;
    one.cpu_ns.push(busy.total_ns() / sent);
    one.offered_pps.push(sent / busy.elapsed.as_secs_f64());
    one.delivered.push(last.1.saturating_sub(first.1) as f64 / sent);
    let half = middle.saturating_sub(first.0) as f64;
    let differ = (2.0 * half - sent).abs() > HALVES_MAY_DIFFER * sent;
    Ok(!differ && busy.stolen() <= MAY_BE_STOLEN)
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let europa = Europa::new(options.europa.clone()).available();
    let missing = europa.err().map(|reason| format!("europa: not available, {reason}."));
    let scenes = SCENES.iter().filter(|scene| missing.is_none() || scene.reservation.is_none());
    let scenes: Vec<&Scene> = scenes.collect();
    let new = |scene: &&Scene| Measured {
        scene: scene.name,
        program: scene.program,
        program_ns: vec![],
        cpu_ns: vec![],
        offered_pps: vec![],
        delivered: vec![],
        repeated: 0,
    };
    let mut all: Vec<Measured> = scenes.iter().map(new).collect();
    for round in 1..=options.repeat() {
        for (which, one) in scenes.iter().zip(&mut all) {
            progress.show(&format!("policing: {}, {round}/{}", which.name, options.repeat()));
            interrupt::check()?;
            scene(which, options, one)?;
        }
    }
    Ok(report(&all, missing, options))
}

fn report(all: &[Measured], missing: Option<String>, options: &Options) -> Outcome {
    let columns = [
        ("frames come to", Align::Left),
        ("in the program, ns/frame", Align::Right),
        ("smallest–largest", Align::Right),
        ("all cores, ns/frame sent", Align::Right),
        ("smallest–largest", Align::Right),
        ("over a program that drops", Align::Right),
        ("thousand frames/s sent", Align::Right),
        ("came through", Align::Right),
    ];
    let mut table = Table::new("What a frame costs", &columns);
    let of = |values: &[f64]| Spread::of(values).unwrap_or_default();
    let least = all.first().map_or(0.0, |first| of(&first.cpu_ns).median);
    let mut bars = Vec::new();
    for one in all {
        let (program, cpu) = (of(&one.program_ns), of(&one.cpu_ns));
        table.push([
            one.scene.to_owned(),
            format!("{:.0}", program.median),
            format!("{:.0}–{:.0}", program.min, program.max),
            format!("{:.0}", cpu.median),
            format!("{:.0}–{:.0}", cpu.min, cpu.max),
            format!("{:+.0}", cpu.median - least),
            thousands(of(&one.offered_pps).median),
            format!("{:.1} %", of(&one.delivered).median * 100.0),
        ]);
        for (series, cost) in [program, cpu].into_iter().enumerate() {
            bars.push(Bar {
                label: if series == 0 { one.scene.to_owned() } else { String::new() },
                detail: if series == 0 { one.program.to_owned() } else { String::new() },
                value: cost.median,
                range: Some((cost.min, cost.max)),
                note: format!("{:.0}", cost.median),
                series,
            });
        }
    }
    let repeated: u32 = all.iter().map(|one| one.repeated).sum();
    let mut notes = vec![format!(
        "{}-byte frames for one slice, as fast as the generator can. All cores: busy time by frames \
         sent, what it costs to send one included, so the differences count. In the program: by the \
         kernel's own clock in a run of its own, with what looking at it twice costs. Medians of {} \
         rounds in turns; {repeated} runs were made again because their halves differed by more than \
         10 % or the hypervisor took too much of them.",
        options.load().frame_bytes,
        options.repeat(),
    )];
    notes.extend(missing);
    let chart = Chart::Bars(Bars {
        title: "What a frame costs that is dropped, and one that is not".into(),
        unit: "nanoseconds".into(),
        series: vec!["in the program".into(), "all cores".into()],
        bars,
    });
    Outcome {
        name: "policing",
        title: "Policing".into(),
        tables: vec![table],
        charts: vec![("policing".into(), chart)],
        notes,
        data: json!({ "scenes": all }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_with_reservations_are_valid() {
        for reservation in SCENES.iter().filter_map(|scene| scene.reservation) {
            let wanted = format!("name: bench\n{reservation}---");
            let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a temporary file");
            let text = DOCUMENTS.replace("name: bench\n---", &wanted);
            assert!(text.contains(&wanted));
            fs::write(file.path(), text).expect("written");
            europa_api::load(&[file.path()]).expect("valid documents");
        }
    }
}
