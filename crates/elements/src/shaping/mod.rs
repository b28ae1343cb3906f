//! Rates and delays.

pub(crate) mod bandwidth_meter;
pub(crate) mod bandwidth_rated_splitter;
pub(crate) mod bandwidth_rated_unqueue;
pub(crate) mod bandwidth_shaper;
pub(crate) mod block;
mod bucket;
pub(crate) mod burster;
pub(crate) mod delay_shaper;
pub(crate) mod delay_unqueue;
pub(crate) mod ip_rate_monitor;
pub(crate) mod link_unqueue;
pub(crate) mod meter;
pub(crate) mod random_source;
mod rated_pull;
mod rated_split;
pub(crate) mod rated_splitter;
pub(crate) mod rated_unqueue;
pub(crate) mod round_robin_unqueue;
pub(crate) mod shaper;
pub(crate) mod timed_sink;
pub(crate) mod timed_source;
pub(crate) mod timed_unqueue;

use std::time::Duration;

use europa_engine::{ArgumentSet, ConfigError, Context, HandlerError, Packet, arguments, parse};

/// Delays packets: each waits until its time plus a delay, one after the other.
#[derive(Default)]
struct Delayed {
    delay_ns: u64,
    /// The first packet, and the time when it may leave, on the clock of packets.
    waiting: Option<(u64, Packet)>,
}

impl ArgumentSet for Delayed {
    arguments! { set this, given;
        let delay = mandatory "DELAY": Duration;
        then { this.set_delay(delay); }
    }
}

impl Delayed {
    fn set_delay(&mut self, delay: Duration) {
        self.delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    }

    /// The next packet if its time has come. Otherwise sets an alarm for that time.
    fn next(&mut self, context: &mut Context<'_>) -> Option<Packet> {
        let wall_ns = context.wall_ns();
        if self.waiting.is_none() {
            let mut batch = context.take_batch();
            context.pull(0, 1, &mut batch);
            let packet = batch.pop();
            context.give_batch(batch);
            let mut packet = packet?;
            // A packet without a time has zero seconds.
            let time_ns = match packet.timestamp_ns() {
                0..1_000_000_000 => wall_ns,
                time_ns => time_ns,
            };
            let due_ns = time_ns.saturating_add(self.delay_ns);
            packet.set_timestamp_ns(due_ns);
            self.waiting = Some((due_ns, packet));
        }
        let (due_ns, packet) = self.waiting.take()?;
        if due_ns <= wall_ns {
            return Some(packet);
        }
        self.waiting = Some((due_ns, packet));
        context.schedule(0, context.now_ns().saturating_add(due_ns - wall_ns));
        None
    }
}

/// An event at intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    pub(crate) interval_ns: u64,
    /// When it happens next.
    due_ns: u64,
}

/// Most missed ticks that are made up for. None are if the last tick was more than a second late,
/// as in Click.
const MOST_MISSED: u64 = 1000;
const MOST_LATE_NS: u64 = 1_000_000_000;

impl Ticks {
    pub(crate) fn every(interval: Duration) -> Ticks {
        Ticks { interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX), due_ns: 0 }
    }

    pub(crate) fn set(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        let interval: Duration = parse(handler, value)?;
        self.interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// The first time, if packets begin now.
    pub(crate) fn start(&mut self, now_ns: u64) -> u64 {
        self.start_at(now_ns.saturating_add(self.interval_ns))
    }

    /// The first time is this.
    pub(crate) fn start_at(&mut self, at_ns: u64) -> u64 {
        self.due_ns = at_ns;
        at_ns
    }

    /// The next time. It counts from the last due time, not from the time of the element's turn, so
    /// that the rate is exact.
    pub(crate) fn next_ns(&mut self, now_ns: u64) -> u64 {
        let most_ns = self.interval_ns.saturating_mul(MOST_MISSED).min(MOST_LATE_NS);
        if now_ns.saturating_sub(self.due_ns) > most_ns {
            self.due_ns = now_ns;
        }
        self.due_ns = self.due_ns.saturating_add(self.interval_ns.max(1));
        self.due_ns
    }
}

/// A rate over the last hundredths of a second: as in Click, each window older than [`WINDOW_NS`]
/// weighs a 16th less than the one after it.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    rate: f64,
    count: u64,
    since_ns: u64,
}

/// Shortest time over which a rate is taken.
const WINDOW_NS: u64 = 1_000_000;

impl Average {
    fn add(&mut self, count: u64, now_ns: u64) -> f64 {
        self.count += count;
        self.read(now_ns)
    }

    /// Units a second.
    fn read(&mut self, now_ns: u64) -> f64 {
        let gone = now_ns.saturating_sub(self.since_ns);
        if gone >= WINDOW_NS {
            let windows = gone as f64 / WINDOW_NS as f64;
            let weight = (15.0_f64 / 16.0).powf(windows);
            let rate = self.count as f64 * 1e9 / gone as f64;
            self.rate = self.rate * weight + rate * (1.0 - weight);
            (self.count, self.since_ns) = (0, now_ns);
        }
        self.rate
    }
}

/// Checks that the rates of a meter rise, and that it has one output more than rates.
fn check_meters(rates: &[f64], outputs: usize) -> Result<(), ConfigError> {
    if rates.is_empty() {
        return Err(ConfigError::Missing { name: "RATE" });
    }
    if !rates.is_sorted_by(|a, b| a < b) {
        return Err(ConfigError::other("rates must rise"));
    }
    match rates.len() + 1 == outputs {
        true => Ok(()),
        false => Err(ConfigError::other(format!(
            "{} rates need {} outputs",
            rates.len(),
            rates.len() + 1
        ))),
    }
}
