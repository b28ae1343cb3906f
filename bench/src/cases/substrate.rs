//! `substrate`: the cost of Europa's receive and transmit programs, compared with programs that
//! only drop or only redirect.
//!
//! Receive: the kernel runs the program of `g0` many times over one frame (`BPF_PROG_TEST_RUN`) and
//! reports the mean time. The program copies the frame into a pool; the benchmark returns the slots
//! between runs. Transmit: kicks like the switch's, with frames that leave by `g0` and are dropped
//! at `s0`. The programs take turns with the minimal programs of `bpf/bare.bpf.c`.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::json;

use crate::cli::Options;
use crate::error::{Context, Error, Result};
use crate::generator::{Load, pin};
use crate::interrupt;
use crate::programs::{Bare, Europa, Pins};
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table};
use crate::sink::{Checks, Hook, Sink};
use crate::statistics::Spread;
use crate::testbed::{MAC, OTHER_CORE, Testbed};

const FRAME_BYTES: [u16; 4] = [64, 128, 512, 1500];
/// Slots of the pools.
const SLOTS: [u32; 2] = [8192, 256];

/// A way to receive frames.
#[derive(Clone, Copy, Serialize)]
struct Scene {
    #[serde(skip)]
    pool: usize,
    /// Frames of one run: as many as the pool has free slots.
    frames_of_a_run: u32,
    /// Whether the program has to check for partial checksums.
    partial_checksums: bool,
}

const SCENES: [Scene; 3] = [
    Scene { pool: 0, frames_of_a_run: 1024, partial_checksums: false },
    Scene { pool: 0, frames_of_a_run: 1024, partial_checksums: true },
    Scene { pool: 1, frames_of_a_run: 128, partial_checksums: false },
];
/// Frames of one kick.
const KICKS: [u32; 2] = [256, 1024];
/// Smallest share of sent frames that must arrive for valid figures.
const LEAST_ARRIVED: f64 = 0.99;

/// Nanoseconds for each frame in Europa's program and in the minimal program, one value of each a
/// round.
#[derive(Default, Serialize)]
struct Beside {
    europa: Vec<f64>,
    bare: Vec<f64>,
}

impl Beside {
    /// Adds the medians of one round.
    fn push(&mut self, europa: &[f64], bare: &[f64]) {
        self.europa.extend(Spread::of(europa).map(|spread| spread.median));
        self.bare.extend(Spread::of(bare).map(|spread| spread.median));
    }

    /// The additional cost of Europa's program in each round.
    fn more(&self) -> Spread {
        let differences: Vec<f64> =
            self.europa.iter().zip(&self.bare).map(|(one, other)| one - other).collect();
        Spread::of(&differences).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Receive {
    slots: u32,
    #[serde(flatten)]
    scene: Scene,
    frame_bytes: u16,
    /// Time by the kernel's clock.
    ns: Beside,
}

#[derive(Serialize)]
struct Transmit {
    frames_of_a_kick: u32,
    frame_bytes: u16,
    /// Time from call to return.
    ns: Beside,
    /// CPU time of the thread.
    cpu_ns: Beside,
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let testbed = Testbed::direct()?;
    // A port's device is in the network namespace of the process that runs its program.
    testbed.generator.within(|| {
        pin(OTHER_CORE)?;
        measure(&testbed, options, progress)
    })
}

fn measure(testbed: &Testbed, options: &Options, progress: &Progress) -> Result<Outcome> {
    let _pins = Pins;
    let bare = Bare::load(testbed)?;
    let mut europa = Europa::new(testbed, &SLOTS)?;
    let sink = Sink::attach(testbed, Hook::Xdp, Checks::default())?;
    let mut received: Vec<Receive> = SCENES
        .iter()
        .flat_map(|scene| {
            FRAME_BYTES.map(|frame_bytes| Receive {
                slots: SLOTS[scene.pool],
                scene: *scene,
                frame_bytes,
                ns: Beside::default(),
            })
        })
        .collect();
    let kicks = KICKS.iter().flat_map(|frames_of_a_kick| {
        FRAME_BYTES.map(|frame_bytes| Transmit {
            frames_of_a_kick: *frames_of_a_kick,
            frame_bytes,
            ns: Beside::default(),
            cpu_ns: Beside::default(),
        })
    });
    let mut sent: Vec<Transmit> = kicks.collect();
    let turns = if options.quick { 50 } else { 200 };
    let mut frames = 0;
    for round in 1..=options.repeat() {
        progress.show(&format!("substrate: {round}/{}", options.repeat()));
        for one in &mut received {
            interrupt::check()?;
            receive(&mut europa, &bare, turns, options, one)?;
        }
        for one in &mut sent {
            interrupt::check()?;
            frames += transmit(&mut europa, &bare, turns, options, one)?;
        }
    }
    let arrived = sink.counters()?.packets;
    if (arrived as f64) < LEAST_ARRIVED * frames as f64 {
        let message = format!("of {frames} frames sent {arrived} arrived");
        return Err(Error::System { system: "substrate", message });
    }
    let mut outcome = report(&received, &sent, turns, options);
    if arrived != frames {
        outcome.notes.push(format!("Of {frames} frames sent {arrived} arrived."));
    }
    Ok(outcome)
}

/// One round of one kind of run.
fn receive(
    europa: &mut Europa,
    bare: &Bare,
    turns: u32,
    options: &Options,
    one: &mut Receive,
) -> Result<()> {
    let (pool, count) = (one.scene.pool, one.scene.frames_of_a_run);
    let frame = frame(one.frame_bytes, europa.mac(pool), MAC[3], options);
    europa.set_partial(one.scene.partial_checksums);
    let (mut ns, mut bare_ns) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        bare_ns.push(bare.receive(count, &frame)?);
        ns.push(europa.receive(pool, count, &frame)?);
    }
    one.ns.push(&ns, &bare_ns);
    Ok(())
}

/// One round of one kind of kick. Returns the number of sent frames.
fn transmit(
    europa: &mut Europa,
    bare: &Bare,
    turns: u32,
    options: &Options,
    one: &mut Transmit,
) -> Result<u64> {
    let frame = frame(one.frame_bytes, MAC[3], europa.mac(0), options);
    let count = one.frames_of_a_kick;
    let (mut ns, mut bare_ns) = (Vec::new(), Vec::new());
    let (mut cpu_ns, mut bare_cpu_ns) = (Vec::new(), Vec::new());
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(count);
    for _ in 0..turns {
        let (wall, cpu) = timed(|| bare.kick(count, &frame))?;
        bare_ns.push(each(wall));
        bare_cpu_ns.push(each(cpu));
        europa.list(count, &frame)?;
        let (wall, cpu) = timed(|| europa.kick(count, one.frame_bytes))?;
        ns.push(each(wall));
        cpu_ns.push(each(cpu));
    }
    one.ns.push(&ns, &bare_ns);
    one.cpu_ns.push(&cpu_ns, &bare_cpu_ns);
    Ok(2 * u64::from(turns) * u64::from(count))
}

/// Elapsed time, and CPU time of this thread.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<(Duration, Duration)> {
    let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("a thread's clock");
    let (began, before) = (Instant::now(), cpu()?);
    work()?;
    let (after, elapsed) = (cpu()?, began.elapsed());
    Ok((elapsed, Duration::from(after) - Duration::from(before)))
}

/// A UDP frame to the sink's port, of `frame_bytes`.
fn frame(frame_bytes: u16, to: [u8; 6], from: [u8; 6], options: &Options) -> Vec<u8> {
    let mut frame = Load { frame_bytes, ..options.load() }.header(to).to_vec();
    frame.resize(frame_bytes.into(), 0);
    frame[6..12].copy_from_slice(&from);
    frame
}

fn report(received: &[Receive], sent: &[Transmit], turns: u32, options: &Options) -> Outcome {
    let columns = |what, group| {
        [
            ("frame, bytes", Align::Right),
            (group, Align::Right),
            (what, Align::Right),
            ("bare", Align::Right),
            ("more", Align::Right),
            ("smallest–largest", Align::Right),
        ]
    };
    let row = |frame_bytes: u16, group: String, ns: &Beside| {
        let median = |values: &[f64]| Spread::of(values).unwrap_or_default().median;
        let more = ns.more();
        [
            frame_bytes.to_string(),
            group,
            format!("{:.0}", median(&ns.europa)),
            format!("{:.0}", median(&ns.bare)),
            format!("{:+.0}", more.median),
            format!("{:+.0} to {:+.0}", more.min, more.max),
        ]
    };
    let bar = |label: &str, detail: String, ns: &Beside| {
        let more = ns.more();
        Bar {
            label: label.to_owned(),
            detail,
            value: more.median,
            range: Some((more.min, more.max)),
            note: format!("{:.0}", more.median),
            series: 0,
        }
    };
    let mut bars = Vec::new();
    let title = "Receive program, ns a frame beside a program that drops";
    let mut receive = Table::new(title, &columns("receive program", "slots"));
    for one in received {
        let from = if one.scene.partial_checksums { "a veth" } else { "a card" };
        receive.push(row(one.frame_bytes, format!("{} behind {from}", one.slots), &one.ns));
        let detail = format!("{} slots behind {from}, {} bytes", one.slots, one.frame_bytes);
        bars.push(bar("receive program", detail, &one.ns));
    }
    let title = "Transmit program, ns a frame of a kick beside a program that redirects";
    let mut transmit = Table::new(title, &columns("transmit program", "frames of a kick"));
    let title = "The same by the thread's clock";
    let mut thread = Table::new(title, &columns("transmit program", "frames of a kick"));
    for one in sent {
        let group = one.frames_of_a_kick.to_string();
        transmit.push(row(one.frame_bytes, group.clone(), &one.ns));
        thread.push(row(one.frame_bytes, group, &one.cpu_ns));
        let detail = format!("{} frames, {} bytes", one.frames_of_a_kick, one.frame_bytes);
        bars.push(bar("transmit program", detail, &one.ns));
    }
    let notes = vec![
        format!(
            "Each figure is the median of {} rounds, each the median of {turns} runs or kicks, which take \
             turns with those of the bare program; the difference is that of each round. One core does \
             everything.",
            options.repeat()
        ),
        format!(
            "Receive: the kernel runs the program over one frame, {} times for the pool of {} slots and {} \
             times for the one of {}, and says how long a run took in the mean, its loop included. The \
             frame lies in the same buffer each time, so it and the tables are warm. Slots are taken in \
             turn, so those of the large pool are colder than a router's that forwards, which keeps few in use. The frame matches \
             by its MAC address. Behind a veth checksums may be partial: the program looks whether one is, \
             and none is here.",
            SCENES[0].frames_of_a_run, SLOTS[0], SCENES[2].frames_of_a_run, SLOTS[1]
        ),
        "Transmit: from call to return, with what the kernel does for a kick (pages, the flush) and for \
         a live frame, and with the sink that counts and drops at the other end of the veth pair; both \
         programs have that. Frames were written into their slots on the same core just before. The \
         bare program sends the buffer as it is."
            .to_owned(),
    ];
    let chart = Chart::Bars(Bars {
        title: "What Europa's programs take more than bare ones".into(),
        unit: "nanoseconds a frame".into(),
        series: vec![],
        bars,
    });
    Outcome {
        name: "substrate",
        title: "Receive and transmit programs".into(),
        tables: vec![receive, transmit, thread],
        charts: vec![("substrate".into(), chart)],
        notes,
        data: json!({ "receive": received, "transmit": sent }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_compared_round_by_round() {
        let mut ns = Beside::default();
        ns.push(&[9.0, 1.0, 30.0], &[4.0, 3.0, 5.0]);
        ns.push(&[18.0], &[8.0]);
        ns.push(&[10.0], &[4.0]);
        assert_eq!(ns.more(), Spread { median: 6.0, min: 5.0, max: 10.0 });
    }

    #[test]
    fn every_scene_has_a_pool_with_slots_enough() {
        for scene in SCENES {
            let slots = SLOTS[scene.pool];
            assert!(scene.frames_of_a_run <= slots - europa_pool::stock(slots));
        }
        let slots = SLOTS[0];
        assert!(KICKS.iter().all(|frames| *frames <= slots - europa_pool::stock(slots)));
    }
}
