//! Specifications and times that a rewriter is given.

use std::any::Any;

use europa_engine::{Arguments, ConfigError, InitContext};

use super::headers::{BACK_DATA, BACK_DONE, FORTH_DATA, FORTH_DONE, STREAM};
use super::{Kind, Rewriter, of};
use crate::rewriter::flows::{MAX_CAPACITY, Space};
use crate::rewriter::pattern::Spec;
use crate::rewriter::round_robin_ip_mapper::RoundRobinIPMapper;
use crate::rewriter::source_ip_hash_mapper::SourceIPHashMapper;
use crate::shared::common::annotation_keyword;

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

impl Rewriter {
    pub(crate) fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let times = &mut self.timeouts;
        let mut streaming = false;
        let seconds = |arguments: &mut Arguments<'_>, name| -> Result<Option<u64>, ConfigError> {
            Ok(arguments.keyword::<std::time::Duration>(name)?.map(|time| time.as_secs()))
        };
        let udp = self.kind == Kind::Udp;
        for name in [
            "TIMEOUT",
            "TCP_TIMEOUT",
            "TCP_NODATA_TIMEOUT",
            "TCP_DONE_TIMEOUT",
            "UDP_TIMEOUT",
            "UDP_STREAMING_TIMEOUT",
            "STREAMING_TIMEOUT",
            "GUARANTEE",
            "TCP_GUARANTEE",
            "UDP_GUARANTEE",
            "REAP_INTERVAL",
            "REAP_TIME",
            "REAP_TCP",
            "REAP_TCP_DONE",
        ] {
            let Some(time) = seconds(arguments, name)? else { continue };
            match name {
                "TIMEOUT" if udp => (times.usual, times.udp) = (time, time),
                "TIMEOUT" | "TCP_TIMEOUT" => times.usual = time,
                "TCP_NODATA_TIMEOUT" => times.no_data = time,
                "TCP_DONE_TIMEOUT" => times.done = time,
                "UDP_TIMEOUT" => times.udp = time,
                "UDP_STREAMING_TIMEOUT" | "STREAMING_TIMEOUT" => {
                    times.udp_streaming = time;
                    streaming = true;
                }
                "GUARANTEE" if udp => (times.guarantee, times.udp_guarantee) = (time, time),
                "GUARANTEE" | "TCP_GUARANTEE" => times.guarantee = time,
                "UDP_GUARANTEE" => times.udp_guarantee = time,
                "REAP_INTERVAL" | "REAP_TIME" => times.reap = time,
                _ => {}
            }
        }
        if !streaming {
            times.udp_streaming = times.udp;
        }
        self.set_destination = arguments.keyword("DST_ANNO")?.unwrap_or(true);
        self.reply_annotation = annotation_keyword(arguments, "REPLY_ANNO", 1)?;
        for name in ["CAPACITY", "MAPPING_CAPACITY"] {
            if let Some(word) = arguments.keyword::<String>(name)? {
                match word.parse::<usize>() {
                    Ok(most) => self.table.borrow_mut().capacity = most.min(MAX_CAPACITY),
                    Err(_) => self.host = Some(word),
                }
            }
        }
        let inputs = arguments.inputs();
        let mut texts = arguments.rest();
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
