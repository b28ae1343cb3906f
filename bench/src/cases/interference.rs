//! `interference`: how long a tenant waits for its changes while another tenant attacks.
//!
//! The other tenant's programs continuously change rules, send requests, print, fork and ignore
//! signals. They run in its slow path. The case alternates between both scenes.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use crate::cli::Options;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{Align, Outcome, Table};
use crate::statistics::percentile;
use crate::systems::System as _;
use crate::systems::europa::{Europa, on_testbed};

/// Measurements of each kind in each scene, in all rounds together.
const TIMES: usize = 200;
/// Rules that a request of the other tenant replaces.
const RULES: u32 = 20_000;
/// Time for the other tenant's programs to start.
const WARM_UP: Duration = Duration::from_secs(3);

/// The tenant's requests.
const KINDS: [&str; 3] = ["apply", "restart", "crash recovery"];
/// The activity of the other tenant.
const SCENES: [&str; 2] = ["quiet", "disturbed"];

/// Milliseconds of each kind of change in one scene.
#[derive(Default, Serialize)]
struct Waits {
    apply_ms: Vec<f64>,
    restart_ms: Vec<f64>,
    recovery_ms: Vec<f64>,
}

impl Waits {
    fn all(&self) -> [&[f64]; 3] {
        [&self.apply_ms, &self.restart_ms, &self.recovery_ms]
    }
}

/// The documents of the measured tenant, with or without an additional route, and of the other
/// tenant.
fn documents(program: &str, disturbed: bool, route: bool) -> String {
    let more = if route { ", {to: 10.9.0.0/16, via: 10.1.0.2}" } else { "" };
    let mut text = format!(
        "kind: slice\nname: good\n---\nkind: slice\nname: bad\nreservation: {{filters: {}}}\n---\n\
         kind: router\nname: r\nslice: good\n\
         interfaces: {{a: {{link: g, addresses: [10.1.0.1/24]}}}}\n\
         fast_path: {{builtin: ipv4, routes: [{{to: 10.8.0.0/16, via: 10.1.0.2}}{more}]}}\n---\n\
         kind: host\nname: g\ninterfaces: {{eth0: {{link: g, addresses: [10.1.0.2/24]}}}}\n---\n\
         kind: host\nname: b\ninterfaces: {{eth0: {{link: b, addresses: [10.2.0.2/24]}}}}\n---\n\
         kind: router\nname: r\nslice: bad\n\
         interfaces: {{a: {{link: b, addresses: [10.2.0.1/24]}}}}\nfast_path: {{builtin: ipv4}}\n\
         slow_path:\n  run:{}\n",
        2 * RULES,
        if disturbed { "" } else { " []" }
    );
    if !disturbed {
        return text;
    }
    let rule = "destination: 10.\" int(i / 256) % 256 \".\" i % 256 \".0/24, action: drop";
    let rules = format!(
        "awk 'BEGIN {{ for (i = 0; i < {RULES}; i++) print \"{rule}\" }}' > /run/rules; \
         while :; do {program} filter load bad /run/rules --replace > /run/said 2>&1; done"
    );
    let asks = format!("while :; do {program} filter list bad > /run/list 2>&1; done");
    let forks =
        "trap '' TERM HUP; while :; do for i in 1 2 3 4 5 6 7 8; do sleep 0.1 & done; wait; done";
    let prints = "trap '' TERM; while :; do head -c 100000 /dev/zero | tr '\\\\0' x; echo; done";
    for (name, script) in [
        ("rules", &*rules),
        ("asks1", &*asks),
        ("asks2", &*asks),
        ("asks3", &*asks),
        ("forks", forks),
        ("prints", prints),
    ] {
        let script = script.replace('"', "\\\"");
        text += &format!("    - {{name: {name}, command: [/bin/sh, -c, \"{script}\"]}}\n");
    }
    text
}

/// Runs both scenes in turns.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut scenes = SCENES.map(|_| Waits::default());
    let times = TIMES.div_ceil(options.repeat() as usize);
    for round in 1..=options.repeat() {
        for (scene, (name, waits)) in SCENES.into_iter().zip(&mut scenes).enumerate() {
            progress.show(&format!("interference: {name}, {round}/{}", options.repeat()));
            on_testbed(options, |_, europa| {
                europa.available().map_err(Error::Other)?;
                measure(europa, scene == 1, times, waits)
            })?;
        }
    }
    Ok(report(&scenes))
}

fn measure(europa: &mut Europa, disturbed: bool, times: usize, waits: &mut Waits) -> Result<()> {
    let program = europa.program();
    let with = |route| documents(&program, disturbed, route);
    europa.up_with(&with(false))?;
    interrupt::sleep(WARM_UP)?;
    for number in 0..times {
        interrupt::check()?;
        let timed = |work: &dyn Fn() -> Result<()>| -> Result<f64> {
            let begun = Instant::now();
            work()?;
            Ok(begun.elapsed().as_secs_f64() * 1000.0)
        };
        waits.apply_ms.push(timed(&|| europa.with_file("apply", &with(number % 2 == 0)))?);
        waits.restart_ms.push(timed(&|| europa.call(&["restart", "good/r"]))?);
        waits.recovery_ms.push(timed(&|| europa.kill_router("good/r"))?);
        // A router that is killed repeatedly is restarted with growing delays; `restart` resets the
        // delay.
        europa.call(&["restart", "good/r"])?;
    }
    Ok(())
}

fn report(scenes: &[Waits; 2]) -> Outcome {
    let columns = [
        ("", Align::Left),
        ("quiet p50", Align::Right),
        ("p99", Align::Right),
        ("disturbed p50", Align::Right),
        ("p99", Align::Right),
        ("p99 later by", Align::Right),
    ];
    let mut table = Table::new("Milliseconds until it is done", &columns);
    let [quiet, disturbed] = scenes;
    for ((kind, quiet), disturbed) in KINDS.into_iter().zip(quiet.all()).zip(disturbed.all()) {
        let of = |values, percent| percentile(values, percent).unwrap_or_default();
        let later = of(disturbed, 99.0) - of(quiet, 99.0);
        let ms = |value: f64| format!("{value:.1}");
        table.push([
            kind.to_owned(),
            ms(of(quiet, 50.0)),
            ms(of(quiet, 99.0)),
            ms(of(disturbed, 50.0)),
            ms(of(disturbed, 99.0)),
            ms(later),
        ]);
    }
    Outcome {
        name: "interference",
        title: "A tenant's changes beside a tenant that does its worst".into(),
        tables: vec![table],
        charts: Vec::new(),
        notes: vec![format!(
            "{TIMES} of each kind in each scene, in turns. apply: one route of an isolated router more \
             or less. restart: `europa restart`. crash recovery: its process is killed, until `stats` \
             shows the next one. All with the time of the command `europa` itself. The other tenant's \
             programs replace {RULES} rules without pause by its door, three ask for all rules, one \
             forks, one prints; two of them ignore SIGTERM. Goal: at most 100 ms later."
        )],
        data: json!({ "quiet": scenes[0], "disturbed": scenes[1] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_valid() {
        for (disturbed, route) in [(false, false), (true, true)] {
            let text = documents("/usr/bin/europa", disturbed, route);
            let source = europa_api::Source { path: "x.yaml".into(), text };
            europa_api::parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        }
    }
}
