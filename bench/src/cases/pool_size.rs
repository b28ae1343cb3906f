//! `pool-size`: the rate of a router with pools of 2 to 8192 slots, alone and with a second router,
//! for packets and TCP. Linux, which has no pool, is measured in the same run.

use serde::Serialize;
use serde_json::json;

use super::many::{Kind, documents, lay_streams};
use super::plainest;
use crate::cli::Options;
use crate::error::{Error, Result};
use crate::generator::Load;
use crate::interrupt;
use crate::measure::{self, Ends, Run, observe, until_steady};
use crate::progress::Progress;
use crate::report::{Align, Chart, Line, Lines, Outcome, Table, thousands};
use crate::sink::{Checks, Hook};
use crate::statistics::Spread;
use crate::streams::{self, Streams};
use crate::systems::System as _;
use crate::systems::europa::{Europa, on_testbed};
use crate::systems::linux::Linux;
use crate::testbed::{MAC, Testbed, format_mac};

/// The largest pool as a power of two: a router's default.
const LARGEST: u32 = 13;
const SIZES: std::ops::RangeInclusive<u32> = 1..=LARGEST;
const ROUTERS: [u32; 2] = [1, 2];

/// The result with one size of pool, or of Linux.
#[derive(Default, Serialize)]
struct Measured {
    /// Slots of each router's pool; `None` for Linux.
    slots: Option<u32>,
    routers: u32,
    packets: Vec<Run>,
    tcp_bps: Vec<f64>,
}

impl Measured {
    fn rate(&self) -> Spread {
        let rates: Vec<f64> = self.packets.iter().map(|run| run.delivered_pps).collect();
        Spread::of(&rates).unwrap_or_default()
    }

    fn gigabits(&self) -> Spread {
        let rates: Vec<f64> = self.tcp_bps.iter().map(|rate| rate / 1e9).collect();
        Spread::of(&rates).unwrap_or_default()
    }

    fn cpu_ns(&self, ends: &Ends) -> f64 {
        let costs: Vec<f64> = self.packets.iter().map(|run| run.cpu_ns_per_packet(ends)).collect();
        Spread::of(&costs).unwrap_or_default().median
    }
}

/// Pool sizes that a document may not have, and the reason.
struct Refused {
    slots: u32,
    why: String,
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    if let Err(reason) = Europa::new(options.europa.clone()).available() {
        return Err(Error::System { system: "europa", message: reason });
    }
    progress.show("pool-size: which sizes are allowed");
    let mut refused = Vec::new();
    let mut all = vec![Measured { routers: 1, ..Measured::default() }];
    for slots in SIZES.map(|power| 1 << power) {
        match refusal(slots, options)? {
            Some(why) => refused.push(Refused { slots, why }),
            // A quick run skips every second size, but not the largest.
            None if options.quick && (LARGEST - slots.ilog2()) % 2 == 1 => {}
            None => all.extend(ROUTERS.map(|routers| Measured {
                slots: Some(slots),
                routers,
                ..Measured::default()
            })),
        }
    }
    progress.show("pool-size: generator and sink alone");
    let ends = measure::calibrate(&options.load(), options.timing())?;
    for round in 1..=options.repeat() {
        for one in &mut all {
            let what = match one.slots {
                Some(slots) => format!("{slots} slots, {} routers", one.routers),
                None => "linux".to_owned(),
            };
            progress.show(&format!("pool-size: {what}, {round}/{}", options.repeat()));
            interrupt::check()?;
            once(one, options)?;
        }
    }
    Ok(report(&all, &refused, &ends, options))
}

/// The reason why a router may not have a pool of this size; `None` if it may.
fn refusal(slots: u32, options: &Options) -> Result<Option<String>> {
    let documents = documents(Kind::Isolated, 1, slots);
    match on_testbed(options, |_, europa| europa.up_with(&documents)) {
        Ok(()) => Ok(None),
        Err(Error::System { message, .. }) if message.contains("number of slots") => {
            let line = message.lines().find_map(|line| line.trim().strip_prefix("× "));
            Ok(Some(line.unwrap_or(&message).to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Brings up one configuration and measures packets and TCP.
fn once(one: &mut Measured, options: &Options) -> Result<()> {
    let Some(slots) = one.slots else {
        let testbed = Testbed::routed()?;
        let mut linux = Linux;
        let arrangement = plainest(&linux)?;
        return measure::with(&mut linux, &testbed, arrangement, |_| {
            testbed.router.ip("route add 10.2.0.0/16 via 10.0.0.2")?;
            forward(one, options, &testbed, (arrangement.sink, 0))?;
            testbed.sink.exec("ethtool -K s0 gro on")?;
            streams::lay(&testbed, 1, |_| [MAC[1], MAC[2]].map(|mac| format_mac(&mac)))?;
            tcp(one, options, &testbed)
        });
    };
    on_testbed(options, |testbed, europa| {
        europa.up_with(&documents(Kind::Isolated, one.routers, slots))?;
        forward(one, options, testbed, (Hook::Xdp, one.routers))?;
        lay_streams(testbed, one.routers)?;
        tcp(one, options, testbed)
    })
}

fn forward(
    one: &mut Measured,
    options: &Options,
    testbed: &Testbed,
    (hook, routers): (Hook, u32),
) -> Result<()> {
    let load = Load { routers, ..options.load() };
    let checks = Checks { hops: 1, ..Checks::default() };
    let run = || observe(testbed, hook, checks, &load, options.timing()).map(|(run, _)| run);
    one.packets.push(until_steady(run)?);
    Ok(())
}

fn tcp(one: &mut Measured, options: &Options, testbed: &Testbed) -> Result<()> {
    let (warm_up, run) = (options.timing().warm_up, options.timing().run);
    one.tcp_bps.push(Streams::received(testbed, one.routers, warm_up, run)?.bps);
    Ok(())
}

fn report(all: &[Measured], refused: &[Refused], ends: &Ends, options: &Options) -> Outcome {
    let columns = [
        ("slots", Align::Right),
        ("routers", Align::Right),
        ("thousand packets/s, all", Align::Right),
        ("smallest–largest", Align::Right),
        ("of the largest pool's", Align::Right),
        ("CPU ns/packet", Align::Right),
        ("TCP, Gb/s, all", Align::Right),
        ("smallest–largest", Align::Right),
    ];
    let mut table = Table::new("Rate by the size of packet pools", &columns);
    for one in refused {
        let mut row = vec!["–".to_owned(); columns.len()];
        row[0] = one.slots.to_string();
        table.push(row);
    }
    for one in all {
        let largest = all.iter().rfind(|other| other.routers == one.routers);
        let largest = largest.map_or(0.0, |largest| largest.rate().median).max(1.0);
        let (rate, tcp) = (one.rate(), one.gigabits());
        table.push([
            one.slots.map_or("Linux".into(), |slots| slots.to_string()),
            one.routers.to_string(),
            thousands(rate.median),
            format!("{}–{}", thousands(rate.min), thousands(rate.max)),
            format!("{:.2}", rate.median / largest),
            format!("{:.0}", one.cpu_ns(ends)),
            format!("{:.2}", tcp.median),
            format!("{:.2}–{:.2}", tcp.min, tcp.max),
        ]);
    }
    let repeated: u32 = all.iter().flat_map(|one| &one.packets).map(|run| run.repeated).sum();
    let mut notes = vec![format!(
        "Isolated routers with `builtin: ipv4` on the same two ports. {}-byte UDP frames, in random \
         order to both routers where there are two, as fast as the generator can; TCP: one stream \
         through each router, default offloads. Linux forwards with soft interrupts on the sender's \
         core. All sizes take turns, medians of {} runs; {repeated} runs were made again because \
         their halves differed by more than 10 % or the hypervisor took too much of them. CPU time \
         without generator and sink.",
        options.load().frame_bytes,
        options.repeat(),
    )];
    notes.extend(refused.iter().map(|one| format!("{} slots: refused, {}.", one.slots, one.why)));
    Outcome {
        name: "pool-size",
        title: "Sizes of packet pools".into(),
        tables: vec![table],
        charts: vec![
            chart(
                all,
                "pool-size",
                "Rate by the size of each router's packet pool",
                "million packets per second, of all routers",
                |one| one.rate().median / 1e6,
            ),
            chart(
                all,
                "pool-size-tcp",
                "TCP by the size of each router's packet pool",
                "gigabits per second, of all streams",
                |one| one.gigabits().median,
            ),
        ],
        notes,
        data: json!({ "ends": ends, "measured": all }),
    }
}

/// A curve for each number of routers, and one for Linux.
fn chart(
    all: &[Measured],
    name: &str,
    title: &str,
    unit: &str,
    figure: fn(&Measured) -> f64,
) -> (String, Chart) {
    let sizes: Vec<f64> = all.iter().filter_map(|one| one.slots).map(f64::from).collect();
    let ends = [sizes.first(), sizes.last()].into_iter().flatten();
    let mut lines: Vec<Line> = ROUTERS
        .iter()
        .map(|routers| {
            let of = all.iter().filter(|one| one.routers == *routers);
            Line {
                name: if *routers == 1 {
                    "one router".into()
                } else {
                    format!("{routers} routers")
                },
                detail: "isolated, builtin: ipv4".into(),
                points: of.filter_map(|one| Some((one.slots?.into(), figure(one)))).collect(),
            }
        })
        .collect();
    lines.extend(all.iter().filter(|one| one.slots.is_none()).map(|linux| Line {
        name: "Linux".into(),
        detail: "forwards without a pool".into(),
        points: ends.clone().map(|slots| (*slots, figure(linux))).collect(),
    }));
    let mut factors = sizes.clone();
    factors.dedup();
    let chart = Chart::Lines(Lines {
        title: title.to_owned(),
        x: "slots of each router's pool".into(),
        factors,
        y: unit.to_owned(),
        diagonal: None,
        lines,
    });
    (name.to_owned(), chart)
}
