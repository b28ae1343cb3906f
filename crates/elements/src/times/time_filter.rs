//! # TimeFilter
//!
//! ## Synopsis
//! `TimeFilter([START, START_AFTER, END, END_AFTER, INTERVAL, STOP, END_CALL])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Lets packets pass whose times are from START up to END. Others leave by output 1, or are
//! dropped.
//!
//! ## Arguments
//! - START (keyword): seconds since 1970; START_AFTER: seconds since the first packet; START_DELAY:
//!   seconds since the router started. Give one of them; default is no bound.
//! - END, END_AFTER, END_DELAY (keywords): the same for the end; INTERVAL: seconds since the start.
//! - STOP (keyword): stop the router at the first packet after the end; default false.
//! - END_CALL (keyword): `HANDLER [VALUE]`, written at the first packet after the end; `$t` in the
//!   value is the packet's time. If that moves the end, the packet is checked again.
//!
//! ## Handlers
//! - `start`, `end`, `interval` (read, write): the bounds, once they are known.
//! - `extend_interval` (write): moves the end by this many seconds.
//!
//! ## See also
//! `TimeRange`, `SetTimestamp`

use crate::prelude::*;
use crate::shared::handler_call::HandlerCall;
use crate::shared::values::Time;

/// A bound in its given form.
#[derive(Clone, Copy, Default)]
enum Bound {
    #[default]
    None,
    At(Time),
    AfterFirst(Time),
    AfterStart(Time),
    /// Only for the end.
    Interval(Time),
}

/// Passes packets by time.
pub(crate) struct TimeFilter {
    from: Bound,
    to: Bound,
    /// The bounds as times, once the first packet has arrived.
    start: Time,
    end: Time,
    known: bool,
    begun: Time,
    stop: bool,
    end_call: Option<HandlerCall>,
    /// Whether the element has reported that the end was reached.
    told: bool,
}

impl Default for TimeFilter {
    fn default() -> TimeFilter {
        TimeFilter {
            from: Bound::None,
            to: Bound::None,
            start: Time(0),
            end: Time(i64::MAX),
            known: false,
            begun: Time(0),
            stop: false,
            end_call: None,
            told: false,
        }
    }
}

impl Class for TimeFilter {
    const INFO: ClassInfo = ClassInfo::new("TimeFilter", "1/1-2").processing("a/ah");
}

impl TimeFilter {
    fn settle(&mut self, first: Time) {
        let resolve = |bound: Bound, start: Time, otherwise: Time, begun: Time| match bound {
            Bound::None => otherwise,
            Bound::At(time) => time,
            Bound::AfterFirst(time) => Time(first.0.saturating_add(time.0)),
            Bound::AfterStart(time) => Time(begun.0.saturating_add(time.0)),
            Bound::Interval(time) => Time(start.0.saturating_add(time.0)),
        };
        self.start = resolve(self.from, Time(0), Time(0), self.begun);
        self.end = resolve(self.to, self.start, Time(i64::MAX), self.begun);
        self.known = true;
    }

    fn passes(&mut self, packet: &Packet, context: &mut Context<'_>) -> bool {
        let time = Time::of(packet.timestamp_ns());
        if !self.known {
            self.settle(time);
        }
        while time >= self.end && !std::mem::replace(&mut self.told, true) {
            let end = self.end;
            if self.stop {
                context.stop();
            }
            if let Some(call) = &self.end_call {
                call.write_with("t", &time.to_string(), context);
            }
            // If the handler's value was written to this element, it applies at once.
            for (handler, value) in context.take_writes() {
                if let Err(error) = self.write(&handler, &value, context) {
                    context.log(&format!("{}: {error}", context.name()));
                }
            }
            if self.end <= end {
                break;
            }
        }
        time >= self.start && time < self.end
    }
}

/// The bound that is given; an error if there are several.
fn one<const N: usize>(bounds: [Option<Bound>; N]) -> Result<Bound, ConfigError> {
    let mut given = bounds.into_iter().flatten();
    match (given.next(), given.next()) {
        (_, Some(_)) => Err(ConfigError::other("give one start and one end")),
        (bound, None) => Ok(bound.unwrap_or_default()),
    }
}

impl Element for TimeFilter {
    arguments! { this, given;
        let start = positional "START": Time;
        let end = positional "END": Time;
        let start_after = keyword "START_AFTER": Time;
        let start_delay = keyword "START_DELAY": Time;
        let end_after = keyword "END_AFTER": Time;
        let end_delay = keyword "END_DELAY": Time;
        let interval = keyword "INTERVAL": Time;
        keyword "STOP": bool = false => this.stop;
        keyword "END_CALL": "'HANDLER [VALUE]'", by HandlerCall::read => this.end_call;
        then {
            if this.stop && this.end_call.is_some() {
                return Err(ConfigError::other("END_CALL and STOP are mutually exclusive"));
            }
            this.from = one([
                start.map(Bound::At),
                start_after.map(Bound::AfterFirst),
                start_delay.map(Bound::AfterStart),
            ])?;
            this.to = one([
                end.map(Bound::At),
                end_after.map(Bound::AfterFirst),
                end_delay.map(Bound::AfterStart),
                interval.map(Bound::Interval),
            ])?;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.end_call.as_ref().map_or(Ok(()), |call| call.check(context))
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if self.begun == Time(0) {
            self.begun = Time::of(context.wall_ns());
        }
        let mut out = context.take_batch();
        for packet in batch.drain() {
            match self.passes(&packet, context) {
                // As many as came fit.
                true => drop(out.push(packet)),
                false => context.push(1, packet),
            }
        }
        batch.append(&mut out);
        context.give_batch(out);
    }

    handlers! { this, context, value;
        both "start" => this.start, set { this.from = Bound::At(parse("start", value)?); this.known = false; };
        both "end" => this.end, set { this.to = Bound::At(parse("end", value)?); this.known = false; this.told = false; };
        both "interval" => Time(this.end.0.saturating_sub(this.start.0)), set {
            let time: Time = parse("interval", value)?;
            this.end = Time(this.start.0.saturating_add(time.0));
            this.told = false;
        };
        write "extend_interval" => {
            let time: Time = parse("extend_interval", value)?;
            this.end = Time(this.end.0.saturating_add(time.0));
            this.told = false;
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn bounds_may_be_relative() {
        for (arguments, passed) in [
            (&["3", "5"][..], vec![3, 4]),
            (&["START 3"], vec![3, 4, 5, 6]),
            (&["END 4"], vec![2, 3]),
            (&["START_AFTER 1", "INTERVAL 2"], vec![3, 4]),
            (&["END_AFTER 2"], vec![2, 3]),
        ] {
            let mut bench = Bench::with_outputs("TimeFilter", arguments, 1);
            let packets = [2, 3, 4, 5, 6].map(|seconds: u8| {
                let mut packet = bench.arena.packet(&[seconds]).unwrap();
                packet.set_timestamp_ns(u64::from(seconds) * 1_000_000_000);
                packet
            });
            let out = bench.push_packets(0, packets.into());
            assert_eq!(
                out.iter().map(|(_, data)| data[0]).collect::<Vec<_>>(),
                passed,
                "{arguments:?}"
            );
        }
    }
}
