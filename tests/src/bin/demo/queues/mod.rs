//! `make demo-queues`: five senders share a port of 1 Gb/s, drawn beside ideal fair queueing. First
//! they start one after another, each with a higher rate than the last ones leave free. Then the
//! overload moves: one sends twice its share, the next one nothing, the other three their shares.
//!
//! | file     | concern                                |
//! |----------|----------------------------------------|
//! | `ideal`  | the rates of an ideal port             |
//! | `screen` | the moving picture                     |

mod ideal;
mod screen;

use std::fmt::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_draw::chart::{Line, Lines, panels};
use europa_tests::{Lab, Namespace};
use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;

use self::screen::Screen;
use crate::node::Node;
use crate::report::{say, step};
use crate::{Failure, Outcome};

/// Slices and their shares in percent of the port. A share is also a rate in tens of Mb/s.
pub(crate) const SENDERS: [(&str, f64); 5] =
    [("red", 30.0), ("green", 25.0), ("blue", 20.0), ("cyan", 15.0), ("grey", 10.0)];
/// Rate of the port, in Mb/s.
const PORT: f64 = 1000.0;
/// Rate of a sender in the first part, in Mb/s.
const START: f64 = 400.0;
/// Bytes of a frame: the most that leave without a copy.
const FRAME_BYTES: usize = 3000;
const STEP: Duration = Duration::from_secs(3);
const SAMPLE: Duration = Duration::from_millis(200);
/// The file of the drawing.
const DRAWING: &str = "target/demo-queues.svg";

/// Rates in Mb/s and waiting packets at one time.
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    pub(crate) sent: Vec<f64>,
    pub(crate) got: Vec<f64>,
    pub(crate) ideal: Vec<f64>,
    pub(crate) waiting: Vec<f64>,
}

/// Runs the demo, as the guard's child.
pub(crate) fn run(instance: &str) -> Outcome<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    SigSet::all().thread_unblock()?;
    let node = Node::new(instance);
    say("Five slices send by one port of 1 Gb/s; they reserved 30, 25, 20, 15 and 10 % of it:");
    step("asking `europa doctor` whether this machine fits", || {
        node.doctor().map_err(Failure::from)
    })?;
    let mut lab = Lab::new()?;
    let (near, far) = (lab.namespace("near")?, lab.namespace("far")?);
    lab.veth((&near, "eth0"), (&far, "eth0"))?;
    near.mtu("eth0", 3200)?;
    far.mtu("eth0", 3200)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("queues.yaml");
    std::fs::write(&file, configuration(&near))?;
    step("europa up", || node.up(&near, &file.to_string_lossy()))?;

    let mut samples = Vec::new();
    let mut screen = Screen::new();
    let start = Instant::now();
    let mut last = look(&node, start)?;
    let mut sends = [0.0; SENDERS.len()];
    for (title, wanted) in scenes() {
        for (at, (name, _)) in SENDERS.iter().enumerate() {
            if wanted[at] != sends[at] {
                let packets = wanted[at] * 1e6 / 8.0 / FRAME_BYTES as f64;
                node.write(&format!("{name}/r"), "s.rate", &format!("{packets:.0}"))?;
            }
        }
        sends = wanted;
        let end = Instant::now() + STEP;
        while Instant::now() < end {
            sleep(SAMPLE);
            let now = look(&node, start)?;
            let sample = sample(&last, &now);
            screen.draw(title, &sample);
            samples.push(sample);
            last = now;
        }
    }
    summary(&samples);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DRAWING);
    std::fs::write(&path, drawing(&samples))?;
    say(&format!("  Drawn in {DRAWING}."));
    Ok(())
}

/// For each scene, its purpose and the rate of each sender in Mb/s.
fn scenes() -> Vec<(&'static str, [f64; SENDERS.len()])> {
    let mut scenes = Vec::new();
    for started in 1..=SENDERS.len() {
        let sends = std::array::from_fn(|at| if at < started { START } else { 0.0 });
        scenes.push(("One after another begins to send 400 Mb/s.", sends));
    }
    for turn in 0..SENDERS.len() {
        let sends = std::array::from_fn(|at| {
            let share = SENDERS[at].1 / 100.0 * PORT;
            match (at + SENDERS.len() - turn) % SENDERS.len() {
                0 => share * 2.0,
                1 => 0.0,
                _ => share,
            }
        });
        scenes.push(("In turn, one sends twice its share, and the next one nothing.", sends));
    }
    scenes
}

fn configuration(near: &Namespace) -> String {
    let mut text = format!(
        "kind: port\nname: out\ndevice: eth0\nnamespace: {}\nrate: {PORT}Mb/s\n",
        near.name()
    );
    for (at, (name, share)) in SENDERS.iter().enumerate() {
        let (mac, length) = (format!("02:00:00:00:01:{at:02x}"), FRAME_BYTES - 14);
        write!(
            text,
            "---\nkind: slice\nname: {name}\nreservation: {{ports: {{out: {{weight: {share}}}}}}}\n\
             ---\nkind: router\nname: r\nslice: {name}\n\
             interfaces: {{out: {{port: out, mac: \"{mac}\", queues: {{0: {{packets: 200}}}}}}}}\n\
             fast_path:\n  click: |\n    FromDevice(out) -> Discard;\n    \
             s :: RatedSource(LENGTH {length}, RATE 0)\n      \
             -> EtherEncap(0x0800, {mac}, 02:00:00:00:02:01) -> Queue -> ToDevice(out);\n"
        )
        .unwrap_or_default();
    }
    text
}

/// Counters of the senders' queues at one time.
struct Look {
    seconds: f64,
    /// For each sender: bytes that arrived, bytes that left, packets that wait.
    counters: Vec<[f64; 3]>,
}

fn look(node: &Node, start: Instant) -> Outcome<Look> {
    let stats = node.stats()?;
    let seconds = start.elapsed().as_secs_f64();
    let all = stats["queues"].as_array().cloned().unwrap_or_default();
    let of = |name: &str| {
        let queue = all.iter().find(|one| one["slice"] == name && one["queue"] == 0);
        let number = |what: &str| queue.and_then(|q| q[what].as_f64()).unwrap_or_default();
        let left = number("bytes");
        let came = left + number("dropped_bytes") + number("waiting_bytes");
        [came, left, number("waiting")]
    };
    let known = all.iter().any(|one: &Value| one["queue"] == 0);
    if !known {
        return Err("the node tells nothing of queues".into());
    }
    Ok(Look { seconds, counters: SENDERS.iter().map(|(name, _)| of(name)).collect() })
}

fn sample(from: &Look, to: &Look) -> Sample {
    let time = to.seconds - from.seconds;
    let rate = |what: usize| -> Vec<f64> {
        let both = from.counters.iter().zip(&to.counters);
        both.map(|(from, to)| (to[what] - from[what]).max(0.0) * 8.0 / 1e6 / time).collect()
    };
    let (sent, weights) = (rate(0), SENDERS.map(|(_, share)| share));
    Sample {
        seconds: to.seconds,
        ideal: ideal::fair(PORT, &sent, &weights),
        got: rate(1),
        waiting: to.counters.iter().map(|counters| counters[2]).collect(),
        sent,
    }
}

/// Prints how far each sender's rate was from the ideal rate, over all samples.
fn summary(samples: &[Sample]) {
    say("");
    for (at, (name, _)) in SENDERS.iter().enumerate() {
        let sum = |of: fn(&Sample) -> &[f64]| samples.iter().map(|s| of(s)[at]).sum::<f64>();
        let (got, ideal) = (sum(|s| &s.got), sum(|s| &s.ideal));
        let off = if ideal > 0.0 { (got / ideal - 1.0) * 100.0 } else { 0.0 };
        say(&format!("  {name:<6} {off:+.2} % off what an ideal port would have given it in all"));
    }
}

fn drawing(samples: &[Sample]) -> String {
    type Of = fn(&Sample) -> &[f64];
    let charts: [(&str, &str, Of); 4] = [
        ("Sent", "Mb/s", |sample| &sample.sent),
        ("Got of the port", "Mb/s", |sample| &sample.got),
        ("Ideal fair queueing of the same", "Mb/s", |sample| &sample.ideal),
        ("Waiting", "packets", |sample| &sample.waiting),
    ];
    let charts = charts.map(|(title, y, of)| {
        let line = |(at, (name, share)): (usize, &(&str, f64))| Line {
            name: format!("{name}, {share} %"),
            detail: String::new(),
            points: samples.iter().map(|sample| (sample.seconds, of(sample)[at])).collect(),
        };
        Lines {
            title: title.into(),
            x: "seconds".into(),
            factors: Vec::new(),
            y: y.into(),
            diagonal: None,
            lines: SENDERS.iter().enumerate().map(line).collect(),
        }
    });
    panels(
        "Five slices share a port of 1 Gb/s",
        &charts,
        "Weighted deficit round robin; queues of 200 packets; frames of 3000 bytes.",
    )
}
