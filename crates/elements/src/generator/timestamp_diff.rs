//! # TimestampDiff
//!
//! ## Synopsis
//! `TimestampDiff(RECORDER [, OFFSET, N, MAXDELAY, NANO, SAMPLE, ...])`
//!
//! ## Ports
//! One push input, one or two push outputs: packets whose time was not recorded leave by output 1.
//!
//! ## Description
//! Measures the time since packets passed a `RecordTimestamp`. It finds a packet's record by the
//! number in the packet.
//!
//! ## Arguments
//! - RECORDER: the `RecordTimestamp`.
//! - OFFSET (keyword): where packets have their number, default 40.
//! - N (keyword): most delays that are kept; default 0, for a million.
//! - MAXDELAY (keyword): longer delays, in milliseconds, are not kept; default 1000.
//! - NANO (keyword): delays are in nanoseconds, instead of microseconds; default false.
//! - SAMPLE (keyword): measure one packet of this many, default 1.
//! - TC_OFFSET (keyword): where packets have the number of their traffic class; default -1:
//!   nowhere. TC_MASK (keyword): the bits of that number, default 255.
//! - VERBOSE (keyword): report long delays; default false.
//!
//! ## Handlers
//! The parameter of a handler is the number of the first delay that counts.
//! - `average`, `avg`, `min`, `max`, `stddev`, `median`, `perc00`, `perc01`, `perc05`, `perc10`,
//!   `perc25`, `perc75`, `perc90`, `perc95`, `perc99`, `perc100` (read with parameter): this figure
//!   of the delays.
//! - `perc` (read with parameter): percentile; its number comes first.
//! - `avg_tc` (read with parameter): average of a traffic class, whose number comes first.
//! - `index` (read): number of the last delay, from 0; -1 if there is none.
//! - `last` (read): the last delay.
//! - `dump`, `dump_list` (read): all delays, a line each, with and without their number.
//!
//! ## See also
//! `RecordTimestamp`, `NumberPacket`

use std::any::Any;

use super::number;
use super::record_timestamp::{RecordTimestamp, Times};
use crate::prelude::*;

/// Number of stored delays, by default and at most.
const KEPT: usize = 1_000_000;
const MOST: usize = 1 << 26;

/// Measures delays.
#[derive(Default)]
pub(crate) struct TimestampDiff {
    recorder: String,
    times: Times,
    network_order: bool,
    offset: usize,
    limit: usize,
    most_ns: u64,
    nano: bool,
    sample: u64,
    class_offset: Option<usize>,
    class_mask: u8,
    verbose: bool,
    /// Delay and traffic class.
    delays: Vec<(u32, u8)>,
}

impl Class for TimestampDiff {
    const INFO: ClassInfo = ClassInfo::new("TimestampDiff", "1/1-2").processing("h/h");
}

impl TimestampDiff {
    /// A figure of the delays, counted from the delay that the parameter names. The first word of
    /// the parameter may be a percentage or a class.
    fn statistic(&self, name: &str, parameter: &str) -> Result<String, HandlerError> {
        let mut words = parameter.split_whitespace();
        let mut first = || -> Result<f64, HandlerError> {
            let word = words.next().unwrap_or_default();
            word.parse().map_err(|_| HandlerError::value(name, word, "number"))
        };
        let (percent, class) = match name {
            "perc" => (first()?, None),
            "avg_tc" => (0.0, Some(first()? as u8)),
            other => (percent_of(other).unwrap_or(0.0), None),
        };
        let begin = words.next().map_or(Ok(0), |word| parse(name, word))?;
        let delays = self.from(begin, class);
        Ok(match name {
            "average" | "avg" | "avg_tc" => mean(&delays).to_string(),
            "stddev" => deviation(&delays).to_string(),
            _ => percentile(delays, percent).to_string(),
        })
    }

    /// Measures a packet. `false` if its time was not recorded.
    fn measure(&mut self, packet: &Packet, context: &mut Context<'_>) -> bool {
        let Some(number) = number(packet, self.offset, self.network_order) else { return false };
        if !number.is_multiple_of(self.sample) {
            return true;
        }
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let noted = self.times.borrow().get(index).copied().filter(|time_ns| *time_ns > 0);
        let Some(noted) = noted else { return false };
        let delay_ns = context.now_ns().saturating_sub(noted);
        if delay_ns > self.most_ns {
            if self.verbose {
                let (delay, most) = (delay_ns / 1_000_000, self.most_ns / 1_000_000);
                context.log(&format!("Packet {number} experienced delay {delay} ms > {most} ms"));
            }
            return true;
        }
        let delay = u32::try_from(delay_ns / if self.nano { 1 } else { 1000 });
        let class = self.class_offset.and_then(|at| packet.data().get(at)).copied().unwrap_or(0);
        if self.delays.len() < self.limit {
            self.delays.push((delay.unwrap_or(u32::MAX), class & self.class_mask));
        }
        true
    }

    fn from(&self, begin: usize, class: Option<u8>) -> Vec<u32> {
        let delays = self.delays.iter().skip(begin);
        let fits = delays.filter(|(_, of)| class.is_none_or(|class| class == *of));
        fits.map(|(delay, _)| *delay).collect()
    }
}

fn mean(delays: &[u32]) -> f64 {
    let sum: f64 = delays.iter().map(|delay| f64::from(*delay)).sum();
    if delays.is_empty() { 0.0 } else { sum / delays.len() as f64 }
}

fn deviation(delays: &[u32]) -> f64 {
    let mean = mean(delays);
    let squares: f64 = delays.iter().map(|delay| (f64::from(*delay) - mean).powi(2)).sum();
    if delays.is_empty() { 0.0 } else { (squares / delays.len() as f64).sqrt() }
}

/// The delay that `percent` of the delays do not exceed.
fn percentile(mut delays: Vec<u32>, percent: f64) -> u32 {
    delays.sort_unstable();
    let rank = (percent * delays.len() as f64 / 100.0).floor() as usize;
    delays.get(rank.min(delays.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// The percentile that a handler's name says.
fn percent_of(handler: &str) -> Option<f64> {
    match handler {
        "min" => Some(0.0),
        "max" => Some(100.0),
        "median" => Some(50.0),
        other => other.strip_prefix("perc")?.parse().ok(),
    }
}

impl Element for TimestampDiff {
    arguments! { this, given;
        mandatory "RECORDER": String => this.recorder;
        keyword "OFFSET": usize = 40 => this.offset;
        let limit = keyword "N": usize = KEPT;
        let most_ms = keyword "MAXDELAY": u32 = 1000;
        keyword "NANO": bool = false => this.nano;
        keyword "SAMPLE": u64 = 1, with |sample| sample.max(1) => this.sample;
        keyword "VERBOSE": bool = false => this.verbose;
        keyword "TC_OFFSET": i64 = -1, with |offset| usize::try_from(offset).ok() => this.class_offset;
        keyword "TC_MASK": u8 = 255 => this.class_mask;
        then {
            this.limit = if limit == 0 { KEPT } else { limit.min(MOST) };
            this.most_ns = u64::from(most_ms) * 1_000_000;
            this.delays.reserve(this.limit);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let element = context.find(&self.recorder).and_then(|index| context.element(index));
        let found = element.and_then(|e| (e as &mut dyn Any).downcast_mut::<RecordTimestamp>());
        let Some(recorder) = found else {
            return Err(ConfigError::other("RECORDER must be a valid RecordTimestamp element"));
        };
        self.times = recorder.times.clone();
        self.network_order = recorder.network_order;
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        own.append(batch);
        for packet in own.drain() {
            let port = usize::from(!self.measure(&packet, context));
            context.push(port, packet);
        }
        context.give_batch(own);
    }

    handlers! { this, context, value;
        read "average" [PARAMETER] => this.statistic("average", value)?;
        read "avg" [PARAMETER] => this.statistic("avg", value)?;
        read "avg_tc" [PARAMETER] => this.statistic("avg_tc", value)?;
        read "min" [PARAMETER] => this.statistic("min", value)?;
        read "max" [PARAMETER] => this.statistic("max", value)?;
        read "stddev" [PARAMETER] => this.statistic("stddev", value)?;
        read "perc00" [PARAMETER] => this.statistic("perc00", value)?;
        read "perc01" [PARAMETER] => this.statistic("perc01", value)?;
        read "perc05" [PARAMETER] => this.statistic("perc05", value)?;
        read "perc10" [PARAMETER] => this.statistic("perc10", value)?;
        read "perc25" [PARAMETER] => this.statistic("perc25", value)?;
        read "median" [PARAMETER] => this.statistic("median", value)?;
        read "perc75" [PARAMETER] => this.statistic("perc75", value)?;
        read "perc90" [PARAMETER] => this.statistic("perc90", value)?;
        read "perc95" [PARAMETER] => this.statistic("perc95", value)?;
        read "perc99" [PARAMETER] => this.statistic("perc99", value)?;
        read "perc100" [PARAMETER] => this.statistic("perc100", value)?;
        read "perc" [PARAMETER] => this.statistic("perc", value)?;
        read "index" => this.delays.len() as i64 - 1;
        read "last" => this.delays.last().map_or(0, |(delay, _)| *delay);
        read "dump" [EXPENSIVE] => {
            let line = |(at, (delay, _)): (usize, &(u32, u8))| format!("{at}: {delay}\n");
            this.delays.iter().enumerate().map(line).collect::<String>()
        };
        read "dump_list" [EXPENSIVE] => {
            this.delays.iter().map(|(delay, _)| format!("{delay}\n")).collect::<String>()
        };
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, part};

    /// Numbered packets that pass a recorder, wait, and are measured.
    fn router() -> (Router, Arena) {
        let mut graph = Graph::default();
        let chain = [
            ("source0", "TestSource", &[][..]),
            ("n", "NumberPacket", &["0"]),
            ("r", "RecordTimestamp", &["N 10", "OFFSET 0", "COUNTER n"]),
            ("q", "Queue", &[]),
            ("u", "Unqueue", &["ACTIVE false"]),
            ("d", "TimestampDiff", &["r", "OFFSET 0"]),
            ("sink", "TestSink", &[]),
        ];
        for (index, (name, class, arguments)) in chain.iter().enumerate() {
            graph.add(name, class, arguments);
            if index > 0 {
                graph.connect(index - 1, 0, index, 0);
            }
        }
        graph.connect(5, 1, 6, 1);
        let (registry, arena) = (Bench::registry(), Arena::heap(64, 2048));
        let graph = graph.resolved(&registry);
        (Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap(), arena)
    }

    #[test]
    fn delays_are_measured_and_what_was_not_noted_leaves_by_output_1() {
        let (mut router, arena) = router();
        for step in 0..11u64 {
            part::source(&mut router, 0, arena.packet(&[0; 8]));
            router.run_once(step * 1_000_000, &mut NoDevices);
        }
        router.write("u.active", "true").unwrap();
        while router.run_once(11_000_000, &mut NoDevices) {}
        let out = part::sink(&mut router);
        assert_eq!(out.iter().filter(|(port, _)| *port == 1).count(), 1, "N is 10");
        // Delays are 1 ms to 10 ms; the clock begins at 1 ns.
        for (handler, parameter, value) in [
            ("min", "", "2000"),
            ("max", "", "10999"),
            ("perc", "50", "7000"),
            ("index", "", "9"),
            ("last", "", "2000"),
            ("max", "8", "3000"),
        ] {
            let read = router.read(&format!("d.{handler}"), parameter);
            assert_eq!(read, Ok(value.into()), "{handler}");
        }
        assert_eq!(router.read("d.dump_list", "").unwrap().lines().count(), 10);
        let error = Bench::error("TimestampDiff", &["x"]);
        assert_eq!(error, "RECORDER must be a valid RecordTimestamp element");
    }
}
