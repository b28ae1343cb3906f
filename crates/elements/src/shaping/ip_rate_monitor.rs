//! # IPRateMonitor
//!
//! ## Synopsis
//! `IPRateMonitor(TYPE, RATIO, THRESH [, MEMORY, ANNO])`
//!
//! ## Ports
//! One or two inputs, as many outputs; push or pull.
//!
//! ## Description
//! Measures rates of packets or bytes by address: packets of input 0 by their source, packets of
//! input 1 by their destination. It first counts by the first byte of addresses. Where a rate
//! exceeds THRESH, it also counts by the next byte. Packets need the IP header annotation, and get
//! the rates of their address as annotations.
//!
//! ## Arguments
//! - TYPE: `PACKETS` or `BYTES`.
//! - RATIO: part of the packets that is measured, 0 to 1.
//! - THRESH: rate a second above which addresses are counted separately.
//! - MEMORY: kilobytes that may be used, at least 100; default 0, for 64 megabytes.
//! - ANNO: whether packets get annotations; default true.
//!
//! ## Handlers
//! - `look` (read): first eighths of a second since the last reset, then a line for each address or
//!   part of one: the part, and the rates of inputs 0 and 1.
//! - `thresh` (read): THRESH.
//! - `mem` (read): bytes in use.
//! - `memmax` (write): MEMORY.
//! - `anno_level` (write): `ADDRESS LEVEL SECONDS`: for this time, count no further than LEVEL (0
//!   to 3) below ADDRESS.
//! - `reset` (write): forgets all rates.
//!
//! ## See also
//! `Block`, `AggregateCounter`

use std::net::Ipv4Addr;

use crate::prelude::*;
use crate::shared::fields::{be16, bytes, network};
use crate::shared::random::Random;

/// Positions of the annotations of the two rates.
pub(crate) const FORWARD_RATE: usize = 20;
const REVERSE_RATE: usize = 24;

/// Number of counting periods in a second.
const PERIODS: u64 = 8;
const PERIOD_NS: u64 = 1_000_000_000 / PERIODS;
/// The weight of a period in the average is one divided by this.
const STABILITY: f64 = 32.0;
/// Levels: bytes of an address.
const LEVELS: usize = 4;
/// Memory if the configuration sets no bound, and the smallest allowed bound, in kilobytes.
const MOST_KILOBYTES: usize = 64 << 10;
const LEAST_KILOBYTES: usize = 100;

/// An average over periods, for each input.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// By input: packets or bytes a second.
    rates: [f64; 2],
    counts: [f64; 2],
    period: u64,
}

impl Average {
    /// Closes periods that have ended.
    fn advance(&mut self, period: u64) {
        let gone = period.saturating_sub(self.period);
        if gone == 0 {
            return;
        }
        for (rate, count) in self.rates.iter_mut().zip(&mut self.counts) {
            *rate += (std::mem::take(count) * PERIODS as f64 - *rate) / STABILITY;
            // Nothing came in the others.
            *rate *= (1.0 - 1.0 / STABILITY).powf((gone - 1) as f64);
        }
        self.period = period;
    }

    fn rate(&self, input: usize) -> f64 {
        self.rates.get(input).copied().unwrap_or(0.0)
    }
}

/// The counts of one value of an address's byte.
#[derive(Default)]
struct Counter {
    average: Average,
    next: Option<Box<Level>>,
    /// Until this time, addresses below are not counted separately.
    closed_until: u64,
}

/// Counters of a byte, by its value.
struct Level(Vec<Option<Counter>>);

const LEVEL_BYTES: usize = 256 * size_of::<Option<Counter>>();

impl Default for Level {
    fn default() -> Level {
        Level(std::iter::repeat_with(|| None).take(256).collect())
    }
}

/// Measures rates by address.
#[derive(Default)]
pub(crate) struct IPRateMonitor {
    packets: bool,
    ratio: f64,
    threshold: f64,
    most_bytes: usize,
    annotates: bool,
    base: Level,
    levels: usize,
    reset_period: u64,
}

impl Class for IPRateMonitor {
    const INFO: ClassInfo = ClassInfo::new("IPRateMonitor", "1-2/1-2").flow("#/#");
}

fn period(now_ns: u64) -> u64 {
    now_ns / PERIOD_NS
}

impl IPRateMonitor {
    fn memory(&self) -> usize {
        (self.levels + 1) * LEVEL_BYTES
    }

    fn set_memory(&mut self, kilobytes: usize) {
        let most = if kilobytes == 0 { MOST_KILOBYTES } else { kilobytes.max(LEAST_KILOBYTES) };
        self.most_bytes = most.saturating_mul(1024);
    }

    /// Counts a packet of an address. Returns the rates after it.
    fn count(&mut self, address: [u8; LEVELS], value: f64, input: usize, now: u64) -> [f64; 2] {
        let may_grow = self.memory() + LEVEL_BYTES <= self.most_bytes;
        let (threshold, mut grown, mut rates) = (self.threshold, 0, [0.0; 2]);
        let mut level = &mut self.base;
        for (depth, byte) in address.iter().enumerate() {
            let Some(place) = level.0.get_mut(usize::from(*byte)) else { break };
            let counter = place.get_or_insert_with(|| Counter {
                average: Average { period: now, ..Average::default() },
                ..Counter::default()
            });
            counter.average.advance(now);
            if let Some(count) = counter.average.counts.get_mut(input) {
                *count += value;
            }
            rates = counter.average.rates;
            let closed = counter.closed_until > now;
            if counter.next.is_none()
                && depth + 1 < LEVELS
                && counter.average.rate(input) > threshold
                && may_grow
                && !closed
                && grown == 0
            {
                counter.next = Some(Box::default());
                grown = 1;
            }
            match &mut counter.next {
                Some(next) if !closed => level = next,
                _ => break,
            }
        }
        self.levels += grown;
        rates
    }

    fn measure(&mut self, input: usize, batch: &mut Batch, now_ns: u64) {
        let now = period(now_ns);
        for packet in batch {
            let chosen =
                self.ratio >= 1.0 || f64::from(Random.next() >> 16) / 65536.0 <= self.ratio;
            let Some((header, _)) = network(packet).filter(|_| chosen) else { continue };
            let at = if input == 0 { 12 } else { 16 };
            let Some(address) = bytes::<4>(header, at) else { continue };
            let value = if self.packets { 1.0 } else { f64::from(be16(header, 2).unwrap_or(0)) };
            let rates = self.count(address, value, input, now);
            if self.annotates {
                let [forward, reverse] = rates.map(|rate| (rate as i32).to_ne_bytes());
                packet.set_annotation(FORWARD_RATE, forward);
                packet.set_annotation(REVERSE_RATE, reverse);
            }
        }
    }

    /// For a time, does not count separately below a level of an address.
    fn close(&mut self, text: &str, now: u64) -> Result<(), HandlerError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || HandlerError::Other("expecting ADDRESS LEVEL SECONDS".to_owned());
        let [address, depth, seconds] = words.as_slice() else { return Err(wrong()) };
        let address: Ipv4Addr = parse("anno_level", address)?;
        let depth: usize = parse("anno_level", depth)?;
        let seconds: u64 = parse("anno_level", seconds)?;
        if depth >= LEVELS {
            return Err(wrong());
        }
        let mut level = &mut self.base;
        for (at, byte) in address.octets().iter().enumerate() {
            let Some(Some(counter)) = level.0.get_mut(usize::from(*byte)) else { return Ok(()) };
            if at == depth {
                counter.closed_until = now + seconds.saturating_mul(PERIODS);
                return Ok(());
            }
            let Some(next) = &mut counter.next else { return Ok(()) };
            level = next;
        }
        Ok(())
    }
}

/// Lines of a level: parts of addresses, and their rates.
fn lines(level: &Level, indent: &str, parts: &str, now: u64, text: &mut String) {
    for (byte, counter) in level.0.iter().enumerate() {
        let Some(counter) = counter else { continue };
        let mut average = counter.average;
        average.advance(now);
        if average.rates.iter().all(|rate| *rate <= 0.0) {
            continue;
        }
        let own = if parts.is_empty() { byte.to_string() } else { format!("{parts}.{byte}") };
        let [forward, reverse] = average.rates;
        *text += &format!("{indent}{own}\t{forward:.3}\t{reverse:.3}\n");
        if let Some(next) = &counter.next {
            lines(next, &format!("{indent}\t"), &own, now, text);
        }
    }
}

impl Element for IPRateMonitor {
    arguments! { this, given;
        let kind = mandatory "TYPE": String;
        mandatory "RATIO": f64 => this.ratio;
        let threshold = mandatory "THRESH": u32;
        let memory = positional "MEMORY": usize = 0;
        positional "ANNO": bool = true => this.annotates;
        then {
            this.packets = match kind.to_ascii_uppercase().as_str() {
                "PACKETS" => true,
                "BYTES" => false,
                _ => {
                    let message = "monitor type should be \"PACKETS\" or \"BYTES\"";
                    return Err(ConfigError::at(0, message));
                }
            };
            if !(0.0..=1.0).contains(&this.ratio) {
                return Err(ConfigError::other("ratio must be between 0 and 1"));
            }
            this.threshold = f64::from(threshold) * this.ratio;
            this.set_memory(memory);
            if given.inputs() != given.outputs() {
                return Err(ConfigError::other("needs as many outputs as inputs"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.reset_period = period(context.now_ns());
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.measure(port, batch, context.now_ns());
        context.forward(port, batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        context.pull(port, max, &mut own);
        self.measure(port, &mut own, context.now_ns());
        batch.append(&mut own);
        context.give_batch(own);
    }

    handlers! { this, context, value;
        read "look" => {
            let now = period(context.now_ns());
            let mut text = format!("{}\n", now.saturating_sub(this.reset_period));
            lines(&this.base, "", "", now, &mut text);
            text
        };
        read "thresh" => this.threshold;
        read "mem" => this.memory();
        write "memmax" => this.set_memory(parse("memmax", value)?);
        write "anno_level" => this.close(value, period(context.now_ns()))?;
        button "reset" => {
            this.base = Level::default();
            this.levels = 0;
            this.reset_period = period(context.now_ns());
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    fn push(bench: &mut Bench, input: usize, from: u32, to: u32) -> i32 {
        let mut packet = bench.arena.packet(&ip_packet(from, to, 9, b"")).unwrap();
        packet.set_network_header(0, 20);
        assert_eq!(bench.push_packets(input, vec![packet])[0].0, input);
        i32::from_ne_bytes(bench.out[0].1.annotation(super::FORWARD_RATE))
    }

    #[test]
    fn busy_addresses_are_told_apart() {
        let mut bench = Bench::with_inputs("IPRateMonitor", &["PACKETS", "1", "50", "100000"], 2);
        let mut rate = 0;
        // Twenty seconds with a hundred packets each, from one address.
        for step in 0..2000u64 {
            bench.now_ns = step * 10_000_000;
            rate = push(&mut bench, 0, 0x0a01_0203, 0x1400_0001);
            if step % 100 == 0 {
                push(&mut bench, 1, 1, 0x0a01_0203);
                push(&mut bench, 0, 0x0b00_0001, 2);
            }
        }
        assert!((80..=100).contains(&rate), "{rate}");
        let look = bench.router.read("e.look", "").unwrap();
        let parts: Vec<&str> =
            look.lines().skip(1).filter_map(|line| line.trim_start().split('\t').next()).collect();
        assert_eq!(parts, ["10", "10.1", "10.1.2", "10.1.2.3", "11"], "{look}");
        bench.router.write("e.reset", "").unwrap();
        bench.router.write("e.anno_level", "10.0.0.0 0 100").unwrap();
        assert_eq!(bench.router.read("e.look", ""), Ok("0\n".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, error) in [
            (["X", "1", "5"], "monitor type should be \"PACKETS\" or \"BYTES\""),
            (["BYTES", "1.5", "5"], "ratio must be between 0 and 1"),
        ] {
            assert_eq!(Bench::error("IPRateMonitor", &arguments), error);
        }
    }
}
