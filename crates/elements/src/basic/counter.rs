//! # Counter
//!
//! ## Synopsis
//! `Counter([COUNT_CALL, BYTE_COUNT_CALL])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Counts packets and bytes, and measures their rates over the last second or so.
//!
//! ## Arguments
//! - COUNT_CALL (keyword): `N HANDLER [VALUE]`: writes the handler when the N-th packet comes,
//!   before it goes on.
//! - BYTE_COUNT_CALL (keyword): the same when the N-th byte comes.
//!
//! ## Handlers
//! - `count_call`, `byte_count_call` (read, write): see the arguments; empty after the call.
//! - `count`, `byte_count` (read): packets and bytes since the start or the last reset.
//! - `rate`, `byte_rate`, `bit_rate` (read): the same counts a second.
//! - `reset`, `reset_counts` (write): sets all counts to zero.
//!
//! ## See also
//! `Discard`

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, HandlerError, InitContext,
    arguments, handlers, keep,
};

use crate::control::script::shift_word;
use crate::shared::handler_call::HandlerCall;

/// Counts packets.
#[derive(Default)]
pub(crate) struct Counter {
    count: u64,
    byte_count: u64,
    /// Start of the second being measured, and the count at that time.
    since_ns: u64,
    since_count: u64,
    since_bytes: u64,
    /// Packets a second, averaged over the last few seconds.
    rate: f64,
    byte_rate: f64,
    count_call: Option<Call>,
    byte_count_call: Option<Call>,
}

/// A handler to write when a count is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    at: u64,
    handler: HandlerCall,
}

impl Call {
    /// Parses `N HANDLER [VALUE]`.
    fn parse(text: &str) -> Option<Call> {
        let mut rest = text;
        let at = shift_word(&mut rest).parse().ok()?;
        Some(Call { at, handler: HandlerCall::parse(rest)? })
    }

    /// Reads the argument of this name.
    pub(crate) fn read(
        name: &'static str,
        arguments: &mut Arguments<'_>,
    ) -> Result<Option<Call>, ConfigError> {
        let Some(text) = arguments.keyword::<String>(name)? else { return Ok(None) };
        let wrong = || ConfigError::other(format!("{name}: expected 'N HANDLER [VALUE]'"));
        Call::parse(&text).map(Some).ok_or_else(wrong)
    }

    /// Whether the handlers exist.
    pub(crate) fn check(
        calls: [&Option<Call>; 2],
        context: &mut InitContext<'_>,
    ) -> Result<(), ConfigError> {
        calls.into_iter().flatten().try_for_each(|call| call.handler.check(context))
    }

    /// Parses the text written to this handler.
    fn written(handler: &str, text: &str) -> Result<Option<Call>, HandlerError> {
        let wrong = || HandlerError::value(handler, text, "'N HANDLER [VALUE]'");
        Call::parse(text).map(Some).ok_or_else(wrong)
    }

    /// Its text in handlers.
    fn shown(call: &Option<Call>) -> String {
        call.as_ref().map_or_else(String::new, |call| format!("{} {}", call.at, call.handler))
    }
}

/// Writes the handler once the count is reached, and removes the call.
pub(crate) fn call_at(call: &mut Option<Call>, count: u64, context: &mut Context<'_>) {
    if let Some(call) = call.take_if(|call| count >= call.at) {
        call.handler.write(context);
    }
}

impl Class for Counter {
    const INFO: ClassInfo = ClassInfo::new("Counter", "1/1").inline().keeps_long();
}

/// Shorter packets are no super-packets.
const FRAME: usize = 1514;
/// Shortest time over which a rate is taken.
const WINDOW_NS: u64 = 1_000_000_000;

impl Counter {
    /// Closes the window if it is over. Older windows weigh half as much each.
    fn measure(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.since_ns);
        if passed < WINDOW_NS {
            return;
        }
        let seconds = passed as f64 / 1e9;
        let weight = 0.5_f64.powf(seconds);
        let rate = (self.count - self.since_count) as f64 / seconds;
        let byte_rate = (self.byte_count - self.since_bytes) as f64 / seconds;
        self.rate = self.rate * weight + rate * (1.0 - weight);
        self.byte_rate = self.byte_rate * weight + byte_rate * (1.0 - weight);
        (self.since_ns, self.since_count, self.since_bytes) = (now_ns, self.count, self.byte_count);
    }

    /// Itself, with rates as of now.
    fn measured(&mut self, context: &Context<'_>) -> &Counter {
        self.measure(context.now_ns());
        self
    }

    fn reset(&mut self, context: &Context<'_>) {
        *self = Counter {
            since_ns: context.now_ns(),
            count_call: self.count_call.take(),
            byte_count_call: self.byte_count_call.take(),
            ..Counter::default()
        };
    }
}

impl Element for Counter {
    arguments! { this, given;
        keyword "COUNT_CALL": "'N HANDLER [VALUE]'", by Call::read => this.count_call;
        keyword "BYTE_COUNT_CALL": "'N HANDLER [VALUE]'", by Call::read => this.byte_count_call;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        Call::check([&self.count_call, &self.byte_count_call], context)
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.measure(context.now_ns());
        self.count += batch.len() as u64;
        self.byte_count += batch.iter().map(|packet| packet.len() as u64).sum::<u64>();
        // Super-packets count as their segments.
        for packet in batch.iter().filter(|packet| packet.len() > FRAME && packet.is_long()) {
            self.count += packet.frames() - 1;
            self.byte_count += packet.wire_bytes() - packet.len() as u64;
        }
        if self.count_call.is_some() || self.byte_count_call.is_some() {
            call_at(&mut self.count_call, self.count, context);
            call_at(&mut self.byte_count_call, self.byte_count, context);
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        read "byte_count" => this.byte_count;
        read "rate" => this.measured(context).rate;
        read "byte_rate" => this.measured(context).byte_rate;
        read "bit_rate" => this.measured(context).byte_rate * 8.0;
        both "count_call" => Call::shown(&this.count_call), set {
            this.count_call = Call::written("count_call", value)?;
        };
        both "byte_count_call" => Call::shown(&this.byte_count_call), set {
            this.byte_count_call = Call::written("byte_count_call", value)?;
        };
        button "reset" => this.reset(context);
        button "reset_counts" [UNCOMMON] => this.reset(context);
    }

    keep! { this, old;
        then {
            let calls = (this.count_call.take(), this.byte_count_call.take());
            *this = std::mem::take(old);
            (this.count_call, this.byte_count_call) = calls;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_packets_bytes_and_rates() {
        let mut bench = Bench::new("Counter", &[]);
        for second in 0..20 {
            bench.now_ns = second * 1_000_000_000;
            bench.push(0, &[b"abc", b"d"]);
        }
        for (handler, value) in [("count", "40"), ("byte_count", "80")] {
            assert_eq!(bench.router.read(&format!("e.{handler}"), ""), Ok(value.into()));
        }
        let rate: f64 = bench.router.read("e.bit_rate", "").unwrap().parse().unwrap();
        assert!((rate - 32.0).abs() < 0.1, "{rate}");
        bench.router.write("e.reset", "").unwrap();
        assert!(bench.router.write("e.count_call", "x").is_err());
        for (calls, packets) in [("3 e.reset now", 1), ("", 3)] {
            if !calls.is_empty() {
                bench.router.write("e.count_call", calls).unwrap();
            }
            bench.push(0, &vec![&b"x"[..]; packets]);
            assert_eq!(bench.router.read("e.count_call", ""), Ok(calls.into()));
        }
        assert_eq!(
            Bench::error("Counter", &["COUNT_CALL 5"]),
            "COUNT_CALL: expected 'N HANDLER [VALUE]'"
        );
        for (call, error) in [
            ("5 foo.bar", "no element named 'foo'"),
            ("5 sink.bar", "no 'sink.bar' write handler"),
            ("5 sink.name x", "no 'sink.name' write handler"),
        ] {
            let argument = format!("COUNT_CALL {call}");
            assert_eq!(Bench::error("Counter", &[&argument]), error);
        }
        assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
    }
}
