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
//! - `extend_interval` (write): moves the end by so many seconds.
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

/// Makes a bound of a time.
type Kind = fn(Time) -> Bound;

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
    /// Whether it has reported that the end was reached.
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
            // A write of the handler to this element counts at once.
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

impl Element for TimeFilter {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.stop = arguments.keyword("STOP")?.unwrap_or(false);
        let mut given = [0; 2];
        let kinds: [(&str, usize, Kind); 5] = [
            ("START_AFTER", 0, Bound::AfterFirst),
            ("START_DELAY", 0, Bound::AfterStart),
            ("END_AFTER", 1, Bound::AfterFirst),
            ("END_DELAY", 1, Bound::AfterStart),
            ("INTERVAL", 1, Bound::Interval),
        ];
        for (name, which, bound) in kinds {
            if let Some(time) = arguments.keyword(name)? {
                *(if which == 0 { &mut self.from } else { &mut self.to }) = bound(time);
                given[which] += 1;
            }
        }
        if let Some(time) = arguments.positional("START")? {
            self.from = Bound::At(time);
            given[0] += 1;
        }
        if let Some(time) = arguments.positional("END")? {
            self.to = Bound::At(time);
            given[1] += 1;
        }
        self.end_call =
            HandlerCall::parse(&arguments.keyword::<String>("END_CALL")?.unwrap_or_default());
        if self.stop && self.end_call.is_some() {
            return Err(ConfigError::other("END_CALL and STOP are mutually exclusive"));
        }
        if given.iter().any(|count| *count > 1) {
            return Err(ConfigError::other("give one start and one end"));
        }
        arguments.finish()
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
