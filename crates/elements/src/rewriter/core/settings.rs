//! Specifications and times in the arguments of a rewriter.

use std::any::Any;
use std::time::Duration;

use europa_engine::{ArgumentSet, Arguments, ConfigError, InitContext, arguments};

use super::headers::{BACK_DATA, BACK_DONE, FORTH_DATA, FORTH_DONE, STREAM};
use super::{Kind, Rewriter, of};
use crate::rewriter::flows::{MAX_CAPACITY, Space};
use crate::rewriter::pattern::Spec;
use crate::rewriter::round_robin_ip_mapper::RoundRobinIPMapper;
use crate::rewriter::source_ip_hash_mapper::SourceIPHashMapper;
use crate::shared::annotation::Annotation;

/// Lifetimes of unused flows, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    usual: u64,
    /// TCP without data in both directions.
    no_data: u64,
    /// TCP that has ended in both directions.
    done: u64,
    /// UDP, and UDP with packets in both directions.
    udp: u64,
    udp_streaming: u64,
    guarantee: u64,
    udp_guarantee: u64,
    pub(super) reap: u64,
}

impl Timeouts {
    /// The initial settings of a rewriter of this kind.
    pub(super) fn of(kind: Kind) -> Timeouts {
        let long = if matches!(kind, Kind::TcpAndUdp | Kind::Tcp) { 24 * 3600 } else { 300 };
        Timeouts {
            usual: if kind == Kind::Address || kind == Kind::AddressPair { 7200 } else { long },
            no_data: 300,
            done: 240,
            udp: 300,
            udp_streaming: 300,
            guarantee: 5,
            udp_guarantee: 5,
            reap: 15 * 60,
        }
    }
}

/// The times that arguments give.
#[derive(Debug, Default)]
pub(crate) struct Times {
    timeout: Option<Duration>,
    tcp: Option<Duration>,
    no_data: Option<Duration>,
    done: Option<Duration>,
    udp: Option<Duration>,
    streaming: Option<Duration>,
    guarantee: Option<Duration>,
    tcp_guarantee: Option<Duration>,
    udp_guarantee: Option<Duration>,
    reap: Option<Duration>,
}

impl ArgumentSet for Times {
    arguments! { set this, given;
        keyword "TIMEOUT": Duration => this.timeout;
        keyword "TCP_TIMEOUT": Duration => this.tcp;
        keyword "TCP_NODATA_TIMEOUT": Duration => this.no_data;
        keyword "TCP_DONE_TIMEOUT": Duration => this.done;
        keyword "UDP_TIMEOUT": Duration => this.udp;
        keyword "UDP_STREAMING_TIMEOUT" | "STREAMING_TIMEOUT": Duration => this.streaming;
        keyword "GUARANTEE": Duration => this.guarantee;
        keyword "TCP_GUARANTEE": Duration => this.tcp_guarantee;
        keyword "UDP_GUARANTEE": Duration => this.udp_guarantee;
        keyword "REAP_INTERVAL" | "REAP_TIME": Duration => this.reap;
        keyword "REAP_TCP": Duration => _;
        keyword "REAP_TCP_DONE": Duration => _;
    }
}

impl ArgumentSet for Rewriter {
    arguments! { set this, given;
        let times = set Times;
        keyword "DST_ANNO": bool = true => this.set_destination;
        keyword "REPLY_ANNO": Annotation<1>, with |at| at.map(Annotation::at)
            => this.reply_annotation;
        // A number, or the name of the rewriter whose table is used.
        let capacity = keyword "CAPACITY": String;
        let more = keyword "MAPPING_CAPACITY": String;
        let texts = rest "INPUTSPEC": "drop, pass, keep, pattern or a mapper";
        then {
            this.set_times(&times);
            for word in [capacity, more].into_iter().flatten() {
                match word.parse::<usize>() {
                    Ok(most) => this.table.borrow_mut().capacity = most.min(MAX_CAPACITY),
                    Err(_) => this.host = Some(word),
                }
            }
            this.set_inputs(texts, given)?;
        }
    }
}

impl Rewriter {
    /// Takes the times that arguments give, in seconds.
    fn set_times(&mut self, times: &Times) {
        let udp = self.kind == Kind::Udp;
        let own = &mut self.timeouts;
        let set = |place: &mut u64, time: Option<Duration>| {
            *place = time.map_or(*place, |time| time.as_secs());
        };
        for time in [times.timeout, times.tcp] {
            set(&mut own.usual, time);
        }
        if udp {
            set(&mut own.udp, times.timeout);
        }
        set(&mut own.no_data, times.no_data);
        set(&mut own.done, times.done);
        set(&mut own.udp, times.udp);
        own.udp_streaming = own.udp;
        set(&mut own.udp_streaming, times.streaming);
        set(&mut own.guarantee, times.guarantee);
        if udp {
            set(&mut own.udp_guarantee, times.guarantee);
        }
        set(&mut own.guarantee, times.tcp_guarantee);
        set(&mut own.udp_guarantee, times.udp_guarantee);
        set(&mut own.reap, times.reap);
    }

    /// Takes the specifications of the inputs.
    fn set_inputs(
        &mut self,
        texts: Vec<(usize, &str)>,
        arguments: &mut Arguments<'_>,
    ) -> Result<(), ConfigError> {
        let (inputs, mut texts) = (arguments.inputs(), texts);
        // Earlier versions of Click had `ICMPPingRewriter(SADDR, DADDR)`.
        let pair = match texts.as_slice() {
            [(_, from), (_, to)] if inputs == 1 && self.kind == Kind::Ping => {
                Some(format!("pattern {from} - {to} - 0 1"))
            }
            _ => None,
        };
        if let Some(pair) = &pair {
            texts = vec![(0, pair.as_str())];
        }
        if texts.len() != inputs {
            let message = format!("need {inputs} arguments, one per input port");
            return Err(ConfigError::other(message));
        }
        let (outputs, names) = (arguments.outputs(), arguments.names().clone());
        for (index, text) in texts {
            match Spec::parse(text, outputs, &names) {
                Ok(spec) => self.specs.push(spec),
                Err(error) => {
                    arguments.error(ConfigError::at(index, format!("input spec {index}: {error}")));
                }
            }
        }
        self.failures = vec![0; self.specs.len()];
        self.owner = self.table.borrow_mut().own();
        Ok(())
    }

    pub(crate) fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        for (input, spec) in self.specs.iter_mut().enumerate() {
            let Spec::Mapper(name, number) = spec else { continue };
            *number = context.find(name);
            let is_mapper =
                number.and_then(|number| context.element(number)).is_some_and(|element| {
                    let element: &mut dyn Any = element;
                    element.is::<RoundRobinIPMapper>() || element.is::<SourceIPHashMapper>()
                });
            if !is_mapper {
                let message = match number {
                    Some(_) => "element is not an IPMapper",
                    None => "unknown specification",
                };
                return Err(ConfigError::at(input, format!("input spec {input}: {message}")));
            }
        }
        if let Some(host) = &self.host {
            let found = context.find(host).and_then(|index| context.element(index));
            let found = found.and_then(of);
            let host = found.ok_or_else(|| ConfigError::other("bad MAPPING_CAPACITY"))?;
            self.table = host.table.clone();
            self.owner = self.table.borrow_mut().own();
        }
        self.set_alarm(context.now_ns(), |timer, at_ns| context.schedule(timer, at_ns));
        Ok(())
    }

    pub(super) fn guarantee(&self, space: Space) -> u64 {
        let udp = space as u8 == 17 || self.kind == Kind::Udp;
        if udp { self.timeouts.udp_guarantee } else { self.timeouts.guarantee }
    }

    /// Seconds that a flow in this state is kept.
    pub(super) fn keep(&self, space: Space, state: u8) -> u64 {
        let times = &self.timeouts;
        let both = |a, b| state & (a | b) == a | b;
        let udp = self.kind == Kind::Udp || self.kind == Kind::TcpAndUdp && space as u8 == 17;
        match self.kind {
            _ if udp && both(STREAM, BACK_DATA) => times.udp_streaming,
            _ if udp => times.udp,
            Kind::TcpAndUdp | Kind::Tcp if both(FORTH_DONE, BACK_DONE) => times.done,
            Kind::TcpAndUdp | Kind::Tcp if !both(FORTH_DATA, BACK_DATA) => times.no_data,
            _ => times.usual,
        }
    }
}
