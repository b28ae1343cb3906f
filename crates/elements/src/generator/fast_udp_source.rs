//! # FastUDPSource
//!
//! ## Synopsis
//! `FastUDPSource(RATE, LIMIT, LENGTH, SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT [, CHECKSUM,
//! INTERVAL, ACTIVE])`
//!
//! ## Ports
//! One pull output.
//!
//! ## Description
//! Makes UDP packets with fixed Ethernet, IP and UDP headers and a payload of zeros. IP header and
//! destination address annotations are set.
//!
//! ## Arguments
//! - RATE: packets a second; 0 for as many as are pulled.
//! - LIMIT: stop after this many; negative for never.
//! - LENGTH: bytes of a frame, at least 60.
//! - SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT: addresses and ports.
//! - CHECKSUM: whether packets have a UDP checksum; default true.
//! - INTERVAL: increment both ports after this many packets; default 0: never.
//! - ACTIVE: whether to make packets; default true.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `rate` (read, write): reading gives the average rate once LIMIT is reached, else 0; writing
//!   sets RATE.
//! - `limit` (write): LIMIT.
//! - `active` (write): ACTIVE; true begins again.
//! - `reset` (write): begins again.
//!
//! ## See also
//! `FastUDPFlows`, `InfiniteSource`, `RatedSource`

use std::net::Ipv4Addr;

use super::{Pace, SHORTEST, Span, Template};
use crate::prelude::*;
use crate::shared::values::Port;

/// Makes UDP packets with fixed headers.
#[derive(Default)]
pub(crate) struct FastUDPSource {
    template: Template,
    ports: [u16; 2],
    frame: Vec<u8>,
    pace: Pace,
    limit: Option<u64>,
    interval: u64,
    active: bool,
    count: u64,
    span: Span,
}

impl Class for FastUDPSource {
    const INFO: ClassInfo = ClassInfo::new("FastUDPSource", "0/1").processing("l/l");
}

impl FastUDPSource {
    fn left(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.count))
    }

    fn reset(&mut self) {
        self.count = 0;
        self.span = Span::default();
        self.pace = Pace { rate: self.pace.rate, ..Pace::default() };
        self.frame = self.template.frame(self.ports);
    }

    /// Counts a packet that was made, and changes the ports if that is due.
    fn made(&mut self, now_ns: u64) {
        self.pace.sent(1, now_ns);
        self.count += 1;
        if self.count == 1 {
            self.span.first_ns = now_ns;
        }
        if self.left() == 0 {
            self.span.last_ns = now_ns.max(1);
        }
        if self.interval > 0 && self.count.is_multiple_of(self.interval) {
            let more = (self.count / self.interval) as u16;
            let ports = self.ports.map(|port| port.wrapping_add(more));
            self.template.set_ports(&mut self.frame, ports);
        }
    }
}

impl Element for FastUDPSource {
    arguments! { this, given;
        mandatory "RATE": u32 => this.pace.rate;
        mandatory "LIMIT": i64, with |limit| u64::try_from(limit).ok() => this.limit;
        let length = mandatory "LENGTH": u16;
        mandatory "SRCETH": [u8; 6] => this.template.source.0;
        let source = mandatory "SRCIP": Ipv4Addr;
        mandatory "SPORT": Port => Port(this.ports[0]);
        mandatory "DSTETH": [u8; 6] => this.template.destination.0;
        let destination = mandatory "DSTIP": Ipv4Addr;
        mandatory "DPORT": Port => Port(this.ports[1]);
        positional "CHECKSUM": bool = true => this.template.checksum;
        positional "INTERVAL": u64 = 0 => this.interval;
        positional "ACTIVE": bool = true => this.active;
        then {
            if usize::from(length) < SHORTEST {
                given.warn("packet length < 60, defaulting to 60");
            }
            this.template.length = usize::from(length);
            this.template.source.1 = source.octets();
            this.template.destination.1 = destination.octets();
            this.reset();
        }
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        if !self.active {
            return;
        }
        let most = max.min(batch.room()).min(usize::try_from(self.left()).unwrap_or(max));
        for _ in 0..self.pace.allows(most, now_ns) {
            let Some(mut packet) = context.arena().packet(&self.frame) else { return };
            self.template.annotate(&mut packet);
            // There is room.
            let _ = batch.push(packet);
            self.made(now_ns);
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "rate" => this.span.rate(this.count), set { this.pace = Pace { rate: parse("rate", value)?, ..Pace::default() }; };
        write "limit" => this.limit = u64::try_from(parse::<i64>("limit", value)?).ok();
        write "active" => {
            this.active = parse("active", value)?;
            if this.active {
                this.reset();
            }
        };
        button "reset" => this.reset();
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::{Frame, MacAddr};

    use crate::testing::Bench;

    const ADDRESSES: [&str; 6] = ["2:0:0:0:0:1", "1.0.0.1", "10", "2:0:0:0:0:2", "2.0.0.2", "20"];

    fn bench(start: [&str; 3], end: &[&str]) -> Bench {
        Bench::new("FastUDPSource", &[&start, &ADDRESSES[..], end].concat())
    }

    #[test]
    fn frames_are_as_others_make_them() {
        let mut bench = bench(["0", "3", "60"], &["true", "2"]);
        let from = MacAddr([2, 0, 0, 0, 0, 1]);
        let to = MacAddr([2, 0, 0, 0, 0, 2]);
        let frame = |ports: [u16; 2]| {
            let frame = Frame::new(from, to).ipv4([1, 0, 0, 1], [2, 0, 0, 2]).ttl(250);
            frame.udp(ports[0], ports[1], &[0; 18])
        };
        let expected: Vec<Vec<u8>> =
            [[10, 20], [10, 20], [11, 21]].map(|ports| frame(ports).to_vec()).into();
        assert_eq!(bench.pull(10), expected);
        assert!(bench.pull(10).is_empty());
        bench.router.write("e.reset", "").unwrap();
        assert_eq!(bench.pull(10).len(), 3);
    }

    #[test]
    fn the_rate_is_kept() {
        let mut bench = bench(["1000", "-1", "60"], &[]);
        let mut count = 0;
        for millisecond in 0..100 {
            bench.now_ns = millisecond * 1_000_000;
            count += bench.pull(32).len();
        }
        assert_eq!(count, 100);
        assert_eq!(bench.router.read("e.count", ""), Ok("100".into()));
    }
}
