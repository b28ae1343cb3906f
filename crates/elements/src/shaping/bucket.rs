//! Rates: how many packets may pass, and when the next one may.

use std::time::Duration;

use europa_engine::{
    Argument, ArgumentSet, Arguments, ConfigError, HandlerError, Packet, arguments, parse,
};

use crate::shared::values::Bandwidth;

/// Time step in which buckets fill.
const TICK_NS: u64 = 1_000_000;
const TICKS: u128 = 1000;

/// Bytes that a bucket needs before a packet may pass: more than any packet has.
const THRESHOLD_BYTES: u64 = 131_072;

/// The size of a burst.
#[derive(Clone, Copy, Debug)]
enum Burst {
    /// The tokens of this many milliseconds.
    Milliseconds(u128),
    Size(u64),
}

/// A token bucket with Click's arithmetic, so that counts agree. Its fill is a fraction of its
/// size, in 32 bits unless the rate needs more. It fills a thousand times a second, each time by
/// slightly too little, because quotients are rounded down. It begins full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Tokens a second.
    rate: u64,
    burst: Burst,
    /// Tokens that a packet needs, in addition to those of a burst.
    threshold: u64,
    /// Units of a full bucket, and units of one token.
    full: u64,
    scale: u64,
    a_tick: u64,
    contents: u64,
    tick: u64,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket::new(0, Burst::Size(1), 0)
    }
}

/// The arguments of a bucket of packets, or of bytes.
#[derive(Debug, Default)]
struct Given {
    rate: u64,
    duration: Option<Duration>,
    size: Option<u64>,
}

/// The arguments of a bucket of packets.
#[derive(Debug, Default)]
struct Packets(Given);

impl ArgumentSet for Packets {
    arguments! { set this, given;
        mandatory "RATE": u64 => this.0.rate;
        keyword "BURST_DURATION": Duration => this.0.duration;
        keyword "BURST_SIZE": u64 => this.0.size;
    }
}

/// The arguments of a bucket of bytes.
#[derive(Debug, Default)]
struct Bytes(Given);

impl ArgumentSet for Bytes {
    arguments! { set this, given;
        mandatory "RATE": Bandwidth => Bandwidth(this.0.rate);
        keyword "BURST_DURATION": Duration => this.0.duration;
        keyword "BURST_BYTES": u64 => this.0.size;
    }
}

/// The arguments of either.
#[derive(Debug, Default)]
pub(crate) struct BucketArguments<const BYTES: bool>(Given);

impl<const BYTES: bool> ArgumentSet for BucketArguments<BYTES> {
    const ARGUMENTS: &'static [Argument] =
        if BYTES { Bytes::ARGUMENTS } else { Packets::ARGUMENTS };

    fn read_arguments(&mut self, given: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.0 = match BYTES {
            true => given.read_set::<Bytes>()?.0,
            false => given.read_set::<Packets>()?.0,
        };
        if self.0.duration.is_some() && self.0.size.is_some() {
            return Err(ConfigError::other("cannot specify both BURST_DURATION and BURST_SIZE"));
        }
        Ok(())
    }
}

impl<const BYTES: bool> BucketArguments<BYTES> {
    /// The bucket.
    pub(crate) fn bucket(&self) -> Bucket {
        let Given { rate, duration, size } = self.0;
        let burst = match size {
            Some(size) => Burst::Size(size),
            None => Burst::Milliseconds(duration.map_or(20, |time| time.as_millis())),
        };
        Bucket::new(rate, burst, if BYTES { THRESHOLD_BYTES } else { 0 })
    }
}

impl Bucket {
    fn new(rate: u64, burst: Burst, threshold: u64) -> Bucket {
        let (full, contents) = (u64::MAX, u64::MAX);
        let (scale, a_tick, tick) = (1, 0, 0);
        let mut bucket = Bucket { rate, burst, threshold, full, scale, a_tick, contents, tick };
        bucket.set_rate(rate);
        bucket
    }

    /// The rate as a handler says it.
    pub(crate) fn rate_text<const BYTES: bool>(&self) -> String {
        match BYTES {
            true => Bandwidth(self.rate).to_string(),
            false => self.rate.to_string(),
        }
    }

    /// Sets another rate from a handler; the fill of the bucket stays.
    pub(crate) fn write_rate<const BYTES: bool>(
        &mut self,
        value: &str,
    ) -> Result<(), HandlerError> {
        self.set_rate(match BYTES {
            true => parse::<Bandwidth>("rate", value)?.0,
            false => parse("rate", value)?,
        });
        Ok(())
    }

    fn set_rate(&mut self, rate: u64) {
        let size = match self.burst {
            Burst::Size(size) => size,
            Burst::Milliseconds(time) => saturated(u128::from(rate).saturating_mul(time) / 1000),
        };
        // The tokens of a tick must fit.
        let least = saturated(u128::from(rate).div_ceil(TICKS)).max(1);
        let capacity = size.saturating_add(self.threshold).max(least);
        self.rate = rate;
        let wide = rate.max(capacity) > u64::from(u32::MAX);
        self.full = if wide { u64::MAX } else { u64::from(u32::MAX) };
        self.contents = self.contents.min(self.full);
        self.scale = self.full / capacity;
        let a_tick = saturated(u128::from(rate) * u128::from(self.scale) / TICKS);
        self.a_tick = a_tick.max(u64::from(rate > 0));
    }

    fn least(&self) -> Option<u64> {
        self.threshold.max(1).checked_mul(self.scale)
    }

    /// Whether a packet may pass now.
    pub(crate) fn has(&mut self, now_ns: u64) -> bool {
        let tick = now_ns / TICK_NS;
        let gone = tick.saturating_sub(self.tick);
        self.tick = self.tick.max(tick);
        let more = self.a_tick.saturating_mul(gone);
        self.contents = self.contents.saturating_add(more).min(self.full);
        self.least().is_some_and(|least| least <= self.contents)
    }

    /// Takes the cost of a packet.
    pub(crate) fn take_for<const BYTES: bool>(&mut self, packet: &Packet) {
        self.take(if BYTES { packet.len() as u64 } else { 1 });
    }

    fn take(&mut self, tokens: u64) {
        self.contents = self.contents.saturating_sub(tokens.saturating_mul(self.scale));
    }

    /// The time when [`Bucket::has`] will be true; call it just after `has` returned false. `None`
    /// if never.
    pub(crate) fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let missing = self.least()?.saturating_sub(self.contents).max(1);
        let ticks = (missing - 1).checked_div(self.a_tick)? + 1;
        Some(now_ns.saturating_add(ticks.saturating_mul(TICK_NS)))
    }
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Even gaps: the delay of a late packet is compensated, up to a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gaps {
    /// Units a second.
    pub(crate) rate: u64,
    next_ns: u64,
}

impl Gaps {
    pub(crate) fn new(rate: u64) -> Gaps {
        Gaps { rate, next_ns: 0 }
    }

    pub(crate) fn allows(&self, now_ns: u64) -> bool {
        self.rate > 0 && self.next_ns <= now_ns
    }

    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    pub(crate) fn count(&mut self, units: u64, now_ns: u64) {
        let gap = u128::from(units) * 1_000_000_000 / u128::from(self.rate.max(1));
        let from = match self.next_ns {
            0 => now_ns,
            next_ns => next_ns.max(now_ns.saturating_sub(1_000_000_000)),
        };
        self.next_ns = from.saturating_add(u64::try_from(gap).unwrap_or(u64::MAX));
    }

    pub(crate) fn reset(&mut self) {
        self.next_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_kept() {
        // A bucket that holds just one burst loses the tokens that arrive while it is full.
        for (rate, burst, passed) in [(2, 1, 20), (2, 50, 69), (100, 1, 909), (1000, 10, 10_008)] {
            let mut bucket = Bucket::new(rate, Burst::Size(burst), 0);
            let mut count = 0;
            for step in 0..100_000u64 {
                if bucket.has(step * 100_000) {
                    bucket.take(1);
                    count += 1;
                }
            }
            assert!((passed..=passed + 2).contains(&count), "{rate} {burst}: {count}");
        }
        let mut bucket = Bucket::new(10, Burst::Size(1), 0);
        assert!(bucket.has(5));
        bucket.take(1);
        let next_ns = bucket.next_ns(5).unwrap();
        assert!(!bucket.has(next_ns - TICK_NS) && bucket.has(next_ns), "{next_ns}");
        let mut idle = Bucket::new(0, Burst::Size(1), 0);
        idle.take(1);
        assert_eq!(idle.next_ns(0), None);
        let mut gaps = Gaps::new(100);
        let count = (0..1000u64).filter(|step| {
            let now_ns = step * 1_000_000;
            let allowed = gaps.allows(now_ns);
            if allowed {
                gaps.count(1, now_ns);
            }
            allowed
        });
        assert_eq!(count.count(), 100);
    }
}
