//! `latency`: round trips through an idle system, and one-way delays through a system with half the
//! load that Linux can forward. A router that sleeps when idle is compared with one that never
//! sleeps (`poll: busy`).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use crate::cases::{plainest, present};
use crate::cli::Options;
use crate::error::{Context, Result};
use crate::generator::pin;
use crate::interrupt;
use crate::measure::{self, MAY_BE_STOLEN, Stamped, undisturbed};
use crate::progress::Progress;
use crate::report::{Align, Chart, Dot, Dots, Outcome, Table, thousands};
use crate::statistics::{Spread, percentile};
use crate::systems::System;
use crate::systems::europa::Europa;
use crate::testbed::{SENDER_CORE, Testbed};

/// The address at which requests are answered.
const DESTINATION: (&str, u16) = ("10.0.1.2", 7);
/// UDP payload of a request and its answer.
const REQUEST_BYTES: usize = 64;
/// A request without an answer after this time is lost.
const PATIENCE: Duration = Duration::from_millis(200);
/// Half the rate of the slowest system.
const LOADED_PPS: u64 = 400_000;
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Round trips of one system, in microseconds.
#[derive(Serialize, Default)]
struct Measured {
    /// Round trips at one request a second, of all runs together.
    now_and_then_us: Vec<f64>,
    /// Requests one after the other: percentiles of the round trips of each run.
    closed_loop_us: Vec<[f64; PERCENTILES.len()]>,
    lost: u64,
    /// One-way delays while packets arrive at a rate that every system can forward.
    loaded: Vec<Stamped>,
}

impl Measured {
    /// Adds another run's figures.
    fn add(&mut self, other: Self) {
        self.now_and_then_us.extend(other.now_and_then_us);
        self.closed_loop_us.extend(other.closed_loop_us);
        self.lost += other.lost;
        self.loaded.extend(other.loaded);
    }

    /// Median of a figure over the loaded runs.
    fn loaded(&self, figure: impl Fn(&Stamped) -> f64) -> f64 {
        let figures: Vec<f64> = self.loaded.iter().map(figure).collect();
        Spread::of(&figures).unwrap_or_default().median
    }

    /// Median over the runs of a percentile.
    fn closed_loop(&self, index: usize) -> f64 {
        let values: Vec<f64> =
            self.closed_loop_us.iter().filter_map(|run| run.get(index).copied()).collect();
        Spread::of(&values).unwrap_or_default().median
    }

    fn now_and_then(&self) -> Spread {
        Spread::of(&self.now_and_then_us).unwrap_or_default()
    }
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let (mut systems, missing) = present(options);
    let busy = Europa::busy(options.europa.clone());
    if options.wants(busy.name()) && busy.available().is_ok() {
        systems.push(Box::new(busy));
    }
    let repeat = options.repeat();
    let mut measured: BTreeMap<&'static str, Measured> = BTreeMap::new();
    for round in 1..=repeat {
        for system in &mut systems {
            let name = system.name();
            progress.show(&format!("latency: {name} {round}/{repeat}"));
            let once = || run_once(system.as_mut(), options);
            let (one, _) = undisturbed(MAY_BE_STOLEN, 3, once)?;
            measured.entry(name).or_default().add(one);
        }
    }
    let names: Vec<&'static str> = systems.iter().map(|system| system.name()).collect();

    let columns = [
        ("system", Align::Left),
        ("one a second: median µs", Align::Right),
        ("largest", Align::Right),
        ("one after the other: p50 µs", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("p50 of linux", Align::Right),
        ("lost", Align::Right),
    ];
    let mut table = Table::new("Round trips", &columns);
    let loaded_columns = [
        ("system", Align::Left),
        ("p50 µs", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("p99 of linux", Align::Right),
        ("mean", Align::Right),
        ("jitter", Align::Right),
        ("lost", Align::Right),
        ("out of order", Align::Right),
    ];
    let mut loaded = Table::new("One way at half load", &loaded_columns);
    let sum =
        |one: &Measured, figure: fn(&Stamped) -> u64| one.loaded.iter().map(figure).sum::<u64>();
    let linux = measured.get("linux").map_or(0.0, |linux| linux.closed_loop(0));
    let late = |one: &Measured| one.loaded(|loaded| loaded.delays_us[1]);
    let linux_late = measured.get("linux").map_or(0.0, late);
    let mut dots = Vec::new();
    for name in &names {
        let Some(one) = measured.get(name) else { continue };
        table.push([
            (*name).to_owned(),
            format!("{:.0}", one.now_and_then().median),
            format!("{:.0}", one.now_and_then().max),
            format!("{:.1}", one.closed_loop(0)),
            format!("{:.1}", one.closed_loop(1)),
            format!("{:.1}", one.closed_loop(2)),
            format!("{:.2}", one.closed_loop(0) / linux),
            one.lost.to_string(),
        ]);
        let delay = |index: usize| format!("{:.1}", one.loaded(|run| run.delays_us[index]));
        loaded.push([
            (*name).to_owned(),
            delay(0),
            delay(1),
            delay(2),
            format!("{:.2}", late(one) / linux_late),
            format!("{:.1}", one.loaded(|run| run.delay_us)),
            format!("{:.2}", one.loaded(|run| run.jitter_us)),
            format!("{} of {}", sum(one, |run| run.lost), sum(one, |run| run.sent)),
            sum(one, |run| run.out_of_order).to_string(),
        ]);
        dots.push(Dot {
            label: (*name).to_owned(),
            values: (0..PERCENTILES.len())
                .map(|index| one.closed_loop(index))
                .chain([one.now_and_then().median])
                .collect(),
        });
    }
    for one in &missing {
        let mut row = vec!["–".to_owned(); columns.len()];
        row[0] = one.system.to_owned();
        table.push(row);
    }
    let mut notes = vec![
        format!(
            "UDP, {REQUEST_BYTES} bytes, from a program beside the generator, answered by one beside the \
             sink; both share a core. One after the other: the next request leaves when the answer is \
             there; medians of the runs' percentiles. Every system in its plainest arrangement."
        ),
        format!(
            "One way at half load: {} packets/s, in batches of 64 at most, that carry number and time \
             of sending. Percentiles are exact to an eighth; jitter is what the delay of a packet \
             differs by from that of the one before, in the mean (RFC 3550, without smoothing).",
            thousands(LOADED_PPS as f64 * 1e3)
        ),
        "europa-busy: `poll: busy`, neither router nor switch sleep.".to_owned(),
    ];
    notes.extend(missing.iter().map(|missing| missing.note()));
    Ok(Outcome {
        name: "latency",
        title: "Round trips through an idle router".into(),
        tables: vec![table, loaded],
        charts: vec![(
            "latency".into(),
            Chart::Dots(Dots {
                title: "Round-trip time through an idle router".into(),
                unit: "microseconds".into(),
                series: ["p50", "p99", "p99.9", "one a second, median"].map(String::from).to_vec(),
                dots,
            }),
        )],
        notes,
        data: json!({ "systems": measured }),
    })
}

fn run_once(system: &mut dyn System, options: &Options) -> Result<Measured> {
    let (requests, closed_loop) =
        if options.quick { (3, Duration::from_millis(500)) } else { (10, Duration::from_secs(2)) };
    let second = Duration::from_secs(1);
    let arrangement = plainest(system)?;
    let testbed = Testbed::routed()?;
    measure::with(system, &testbed, arrangement, |_| {
        let mut into = Measured::default();
        let (times, lost) = round_trips(&testbed, second * requests - second / 2, second)?;
        // The first round trip is slow: it wakes processes and fills caches.
        into.now_and_then_us.extend(times.into_iter().skip(1));
        into.lost += lost;
        let (times, lost) = round_trips(&testbed, closed_loop, Duration::ZERO)?;
        into.lost += lost;
        into.closed_loop_us
            .push(PERCENTILES.map(|percent| percentile(&times, percent).unwrap_or(0.0)));
        let load = options.load().at(LOADED_PPS);
        let during = || interrupt::sleep(closed_loop);
        into.loaded.push(measure::follow(&testbed, arrangement.sink, &load, during)?);
        Ok(into)
    })
}

/// Sends requests for some time, with a pause between an answer and the next request. Returns the
/// round trips in microseconds, and the number of requests without an answer.
fn round_trips(testbed: &Testbed, duration: Duration, pause: Duration) -> Result<(Vec<f64>, u64)> {
    let answers = testbed.sink.within(|| socket(DESTINATION))?;
    let asks = testbed.generator.within(|| {
        let asks = socket(("0.0.0.0", 0))?;
        asks.connect(DESTINATION).context("connecting a UDP socket")?;
        Ok(asks)
    })?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&answers, &ended));
        let asking = scope.spawn(|| ask(&asks, duration, pause));
        let asked = asking.join();
        ended.store(true, Ordering::Relaxed);
        let answered = answering.join();
        match (asked, answered) {
            (Ok(asked), Ok(answered)) => answered.and(asked),
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

/// A UDP socket in the calling thread's namespace.
fn socket(at: (&str, u16)) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(at).context("binding a UDP socket")?;
    socket.set_read_timeout(Some(PATIENCE)).context("a UDP socket's patience")?;
    Ok(socket)
}

/// Sends received packets back.
fn answer(socket: &UdpSocket, ended: &AtomicBool) -> Result<()> {
    pin(SENDER_CORE)?;
    let mut buffer = [0_u8; 2 * REQUEST_BYTES];
    while !ended.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let answer = buffer.get(..length).unwrap_or_default();
                socket.send_to(answer, from).context("answering")?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("waiting for requests"),
        }
    }
    Ok(())
}

fn ask(socket: &UdpSocket, duration: Duration, pause: Duration) -> Result<(Vec<f64>, u64)> {
    pin(SENDER_CORE)?;
    let end = Instant::now() + duration;
    let (mut times, mut lost, mut number) = (Vec::new(), 0, 0_u64);
    let (mut request, mut buffer) = ([0_u8; REQUEST_BYTES], [0_u8; 2 * REQUEST_BYTES]);
    while Instant::now() < end {
        interrupt::check()?;
        number += 1;
        request[..8].copy_from_slice(&number.to_be_bytes());
        let sent = Instant::now();
        socket.send(&request).context("sending a request")?;
        loop {
            match socket.recv(&mut buffer) {
                Ok(length) if buffer.get(..length) == Some(&request) => {
                    times.push(sent.elapsed().as_secs_f64() * 1e6);
                    break;
                }
                // This is a late answer to another request.
                Ok(_) => {}
                Err(_) => {
                    lost += 1;
                    break;
                }
            }
        }
        interrupt::sleep(pause)?;
    }
    Ok((times, lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_awaited_and_lost_ones_counted() {
        let answers = socket(("127.0.0.1", 0)).unwrap();
        let asks = socket(("127.0.0.1", 0)).unwrap();
        asks.connect(answers.local_addr().unwrap()).unwrap();
        let asked = thread::scope(|scope| {
            // The second request gets a wrong answer.
            scope.spawn(|| {
                let mut buffer = [0; REQUEST_BYTES];
                for number in 1..=2 {
                    let (_, from) = answers.recv_from(&mut buffer).unwrap();
                    buffer[7] += number - 1;
                    answers.send_to(&buffer, from).unwrap();
                }
            });
            ask(&asks, PATIENCE / 2, Duration::from_millis(1)).unwrap()
        });
        assert_eq!((asked.0.len(), asked.1), (1, 1));
    }
}
