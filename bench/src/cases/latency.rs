//! `latency`: round trips through a system that has nothing else to do, and the way through one that
//! has half of what Linux can forward. Beside the router that sleeps when there is nothing to do
//! stands one that never does (`poll: busy`).

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
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

const DESTINATION: &str = "10.0.1.2";
/// Half of what the slowest system can forward.
const LOADED_PPS: u64 = 400_000;
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// Round trips of one system, in microseconds.
#[derive(Serialize, Default)]
struct Measured {
    /// `ping` once a second, all runs together.
    pings_us: Vec<f64>,
    /// Echo requests one after the other: per run, the percentiles.
    closed_loop_us: Vec<[f64; PERCENTILES.len()]>,
    lost: u64,
    /// One way, while packets come at a rate that every system can forward.
    loaded: Vec<Stamped>,
}

impl Measured {
    /// Adds another run's figures.
    fn add(&mut self, other: Self) {
        self.pings_us.extend(other.pings_us);
        self.closed_loop_us.extend(other.closed_loop_us);
        self.lost += other.lost;
        self.loaded.extend(other.loaded);
    }

    /// Median over the runs of a figure of loaded ones.
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

    fn ping(&self) -> Spread {
        Spread::of(&self.pings_us).unwrap_or_default()
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
        ("one ping a second: median µs", Align::Right),
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
            format!("{:.0}", one.ping().median),
            format!("{:.0}", one.ping().max),
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
                .chain([one.ping().median])
                .collect(),
        });
    }
    for one in &missing {
        let mut row = vec!["–".to_owned(); columns.len()];
        row[0] = one.system.to_owned();
        table.push(row);
    }
    let mut notes = vec![
        "ICMP echo from the generator's namespace, answered by the sink's kernel. One after the \
         other: the next request leaves when the reply is there; medians of the runs' percentiles. \
         Every system in its plainest arrangement."
            .to_owned(),
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
    let (pings, closed_loop) =
        if options.quick { (3, Duration::from_millis(500)) } else { (10, Duration::from_secs(2)) };
    let arrangement = plainest(system)?;
    let testbed = Testbed::routed()?;
    measure::with(system, &testbed, arrangement, |_| {
        let mut into = Measured::default();
        let output = testbed.generator.exec(&format!("ping -n -c {pings} -i 1 {DESTINATION}"))?;
        // The first one wakes everything up, caches included.
        into.pings_us.extend(round_trips_us(&output).into_iter().skip(1));
        interrupt::check()?;
        let (times, lost) = testbed.generator.within(|| echo_loop(closed_loop))?;
        into.lost += lost;
        into.closed_loop_us
            .push(PERCENTILES.map(|percent| percentile(&times, percent).unwrap_or(0.0)));
        let load = options.load().at(LOADED_PPS);
        let during = || interrupt::sleep(closed_loop);
        into.loaded.push(measure::follow(&testbed, arrangement.sink, &load, during)?);
        Ok(into)
    })
}

/// The figures behind `time=` in the lines of `ping`.
fn round_trips_us(output: &str) -> Vec<f64> {
    output
        .lines()
        .filter_map(|line| {
            let (_, time) = line.split_once("time=")?;
            let milliseconds: f64 = time.split_whitespace().next()?.parse().ok()?;
            Some(milliseconds * 1000.0)
        })
        .collect()
}

/// Sends an echo request, waits for its reply, and so on; round trips in microseconds
/// and the number of requests without reply. Must run in the generator's namespace.
fn echo_loop(duration: Duration) -> Result<(Vec<f64>, u64)> {
    pin(SENDER_CORE)?;
    let raw = socket(
        AddressFamily::Inet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        Some(SockProtocol::Icmp),
    )
    .context("opening an ICMP socket")?;
    // The standard library's socket type does everything else that a raw socket needs.
    let socket = UdpSocket::from(raw);
    socket.set_read_timeout(Some(Duration::from_millis(200))).context("ICMP socket")?;
    let end = Instant::now() + duration;
    let (mut times, mut lost, mut sequence) = (Vec::new(), 0, 0_u16);
    let mut buffer = [0_u8; 256];
    while Instant::now() < end {
        interrupt::check()?;
        sequence = sequence.wrapping_add(1);
        let request = echo_request(sequence);
        let sent = Instant::now();
        socket.send_to(&request, (DESTINATION, 0)).context("sending an echo request")?;
        loop {
            match socket.recv(&mut buffer) {
                Ok(length) if is_reply(buffer.get(..length).unwrap_or_default(), sequence) => {
                    times.push(sent.elapsed().as_secs_f64() * 1e6);
                    break;
                }
                Ok(_) => {}
                Err(_) => {
                    lost += 1;
                    break;
                }
            }
        }
    }
    Ok((times, lost))
}

const IDENTIFIER: u16 = 0x4542;

/// RFC 792: type 8, with 56 bytes of zeros, as `ping` sends by default.
fn echo_request(sequence: u16) -> [u8; 64] {
    let mut request = [0; 64];
    request[0] = 8;
    request[4..6].copy_from_slice(&IDENTIFIER.to_be_bytes());
    request[6..8].copy_from_slice(&sequence.to_be_bytes());
    let checksum = crate::generator::internet_checksum(&request);
    request[2..4].copy_from_slice(&checksum.to_be_bytes());
    request
}

/// Whether an IPv4 packet is the reply to our request of that number.
fn is_reply(packet: &[u8], sequence: u16) -> bool {
    let Some(first) = packet.first() else { return false };
    let icmp = packet.get(usize::from(first & 15) * 4..).unwrap_or_default();
    let word = |at: usize| icmp.get(at..at + 2).map(|pair| [pair[0], pair[1]]);
    icmp.first() == Some(&0)
        && word(4) == Some(IDENTIFIER.to_be_bytes())
        && word(6) == Some(sequence.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_ping_are_read() {
        let output = "64 bytes from 10.0.1.2: icmp_seq=1 ttl=63 time=0.085 ms\n\
                      64 bytes from 10.0.1.2: icmp_seq=2 ttl=63 time=1.5 ms\n\nrtt min 1\n";
        assert_eq!(round_trips_us(output), [85.0, 1500.0]);
    }

    #[test]
    fn only_our_own_replies_count() {
        let reply = |kind: u8, sequence: u16| {
            let mut packet = vec![0x45; 20];
            packet.extend(echo_request(sequence));
            packet[20] = kind;
            packet
        };
        for (packet, ours) in
            [(reply(0, 7), true), (reply(8, 7), false), (reply(0, 6), false), (vec![0x45], false)]
        {
            assert_eq!(is_reply(&packet, 7), ours, "{packet:?}");
        }
    }
}
