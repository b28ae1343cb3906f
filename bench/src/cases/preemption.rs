//! `preemption`: how long a router waits for a core for which eight routers compete.
//!
//! Substitutes for routers poll the clock in control groups like those of slices. A gap between two
//! readings is the time that a packet would wait.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use europa_sandbox::SandboxError;
use europa_sandbox::cgroup::{Cgroups, Controller, CpuQuota, Limits};
use serde::Serialize;
use serde_json::json;

use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Chart, Dot, Dots, Outcome, Table};
use crate::statistics::percentile;

const INSTANCE: &str = "bench-preemption";
const ROUTERS: usize = 8;
/// Shorter gaps are interrupts.
const GAP: Duration = Duration::from_micros(50);
/// The node's period for slices that reserve CPU, and for others.
const PERIOD: Duration = Duration::from_millis(5);
const RESERVED: u64 = 10_000;
const ORDINARY: u64 = 100;

/// For each scene, how many of the routers have a reservation, and thousandths of a core for each.
const SCENES: [(&str, usize, u32); 3] = [
    ("eight without reservation", 0, 0),
    ("one with 0.25, seven without", 1, 250),
    ("four with 0.2, four without", 4, 200),
];

/// The results of routers of a kind.
#[derive(Serialize)]
struct Measured {
    scene: &'static str,
    reserved: bool,
    routers: usize,
    /// Share of a core for each process.
    cores: f64,
    gaps_ms: Vec<f64>,
}

/// Polls the clock for this time after a signal. Prints its CPU time in nanoseconds, and each gap.
pub(crate) fn poll(time: Duration) -> Result<()> {
    let cpu = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).context("CPUs")?;
    let first = (0..nix::sched::CpuSet::count()).find(|at| cpu.is_set(*at).unwrap_or(false));
    europa_sandbox::schedule(first.as_slice()).map_err(said)?;
    let _ = std::io::stdin().read(&mut [0]).context("waiting for a start")?;
    let start = Instant::now();
    let (mut last, mut gaps, mut used) = (start, Vec::with_capacity(1 << 16), Duration::ZERO);
    while last - start < time {
        let now = Instant::now();
        match now - last {
            gap if gap > GAP => gaps.push(gap),
            worked => used += worked,
        }
        last = now;
    }
    let mut text = used.as_nanos().to_string();
    gaps.iter().for_each(|gap| text += &format!(" {}", gap.as_nanos()));
    println!("{text}");
    Ok(())
}

fn said(error: SandboxError) -> Error {
    Error::System { system: "preemption", message: error.to_string() }
}

/// Control groups and processes, which are removed when this is dropped.
struct Stage {
    cgroups: Cgroups,
    routers: Vec<Child>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for router in &mut self.routers {
            let _ = router.kill();
            let _ = router.wait();
        }
        for name in self.cgroups.names(INSTANCE).unwrap_or_default() {
            let _ = self.cgroups.remove(INSTANCE, &name);
        }
        let _ = self.cgroups.remove_instance(INSTANCE);
    }
}

fn limits(thousandths: Option<u32>) -> Limits {
    let quota = thousandths.map(|cores| PERIOD * cores / 1000);
    Limits {
        cpu_weight: Some(if quota.is_some() { RESERVED } else { ORDINARY }),
        cpu_quota: Some(CpuQuota { quota, period: PERIOD }),
        ..Limits::default()
    }
}

/// Parses the result of one router: its fraction of the core, and gaps in milliseconds.
fn saw(text: &str, time: Duration) -> (f64, Vec<f64>) {
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let used = numbers.next().unwrap_or_default();
    (used / time.as_nanos() as f64, numbers.map(|ns| ns / 1e6).collect())
}

fn scene(
    (scene, reserved, cores): (&'static str, usize, u32),
    time: Duration,
) -> Result<Vec<Measured>> {
    let mut stage = Stage { cgroups: Cgroups::detect().map_err(said)?, routers: Vec::new() };
    let program = std::env::current_exe().context("finding this program")?;
    for index in 0..ROUTERS {
        let of_slice = format!("slice_{index}");
        let router = stage.cgroups.group(INSTANCE, &format!("{of_slice}/r")).map_err(said)?;
        let slice = stage.cgroups.group(INSTANCE, &of_slice).map_err(said)?;
        slice.set(&limits((index < reserved).then_some(cores))).map_err(said)?;
        let child = Command::new(&program)
            .args(["--poll-clock-ms", &time.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a stand-in for a router")?;
        let pid = child.id();
        stage.routers.push(child);
        router.add(pid).map_err(said)?;
    }
    for router in &mut stage.routers {
        if let Some(mut stdin) = router.stdin.take() {
            stdin.write_all(b"\n").context("starting a stand-in for a router")?;
        }
    }
    let mut found = Vec::new();
    for router in &mut stage.routers {
        let mut text = String::new();
        if let Some(stdout) = &mut router.stdout {
            stdout.read_to_string(&mut text).context("hearing a stand-in for a router")?;
        }
        found.push(saw(&text, time));
    }
    let (with, without) = found.split_at(reserved);
    let kinds = [(true, with), (false, without)].into_iter().filter(|(_, all)| !all.is_empty());
    let measured = |(reserved, all): (bool, &[(f64, Vec<f64>)])| Measured {
        scene,
        reserved,
        routers: all.len(),
        cores: all.iter().map(|(cores, _)| cores).sum::<f64>() / all.len() as f64,
        gaps_ms: all.iter().flat_map(|(_, gaps)| gaps).copied().collect(),
    };
    Ok(kinds.map(measured).collect())
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let time = Duration::from_secs(if options.quick { 2 } else { 10 });
    let mut all = Vec::new();
    let has_groups = Cgroups::detect().map_err(said)?.hierarchy(Controller::Cpu).is_some();
    for one in SCENES.into_iter().filter(|(_, reserved, _)| has_groups || *reserved == 0) {
        interrupt::check()?;
        progress.show(&format!("preemption: {}", one.0));
        all.extend(scene(one, time)?);
    }
    Ok(report(&all, time))
}

fn report(all: &[Measured], time: Duration) -> Outcome {
    let columns = [
        ("eight routers on a core", Align::Left),
        ("of these", Align::Left),
        ("cores each", Align::Right),
        ("waits a second each", Align::Right),
        ("p50 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("longest ms", Align::Right),
    ];
    let mut table = Table::new("How long a router that wants to work waits", &columns);
    let mut dots = Vec::new();
    for one in all {
        let of = |percent| percentile(&one.gaps_ms, percent).unwrap_or_default();
        let values = [50.0, 99.0, 100.0].map(of);
        let kind = if one.reserved { "reserved" } else { "ordinary" };
        let rate = one.gaps_ms.len() as f64 / one.routers as f64 / time.as_secs_f64();
        let [p50, p99, longest] = values.map(|value| format!("{value:.2}"));
        let cores = format!("{:.3}", one.cores);
        let rate = format!("{rate:.0}");
        table.push([one.scene.to_owned(), kind.to_owned(), cores, rate, p50, p99, longest]);
        let scene = SCENES.iter().position(|(scene, ..)| *scene == one.scene).unwrap_or_default();
        dots.push(Dot { label: format!("{}: {kind}", scene + 1), values: values.to_vec() });
    }
    let names: Vec<_> =
        SCENES.iter().enumerate().map(|(at, (scene, ..))| format!("{}: {scene}", at + 1)).collect();
    Outcome {
        name: "preemption",
        title: "Routers that compete for a core".into(),
        tables: vec![table],
        charts: vec![(
            "preemption".into(),
            Chart::Dots(Dots {
                title: "How long one of eight routers waits for their core".into(),
                unit: "milliseconds".into(),
                series: ["p50", "p99", "longest"].map(String::from).to_vec(),
                dots,
            }),
        )],
        notes: vec![format!(
            "Eight processes that always poll, each in the control groups of a slice and of its \
             router, on one core for {} s; a wait is more than {} µs between two looks at the \
             clock. What is reserved is a quota for every 5 ms. {}.",
            time.as_secs(),
            GAP.as_micros(),
            names.join("; "),
        )],
        data: json!({ "kinds": all }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_router_saw() {
        let (cores, gaps) = saw("500000000 1000000 2500000\n", Duration::from_secs(1));
        assert_eq!((cores, gaps), (0.5, vec![1.0, 2.5]));
        assert_eq!(saw("", Duration::from_secs(1)), (0.0, vec![]));
    }
}
