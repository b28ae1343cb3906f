//! # FastUDPFlows
//!
//! ## Synopsis
//! `FastUDPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, keywords])`
//!
//! ## Ports
//! One output, push or pull.
//!
//! ## Description
//! Makes UDP packets of several flows with fixed Ethernet and IP headers. Ports are random; a flow
//! gets new ones after FLOWSIZE packets. IP header and destination address annotations are set.
//!
//! ## Arguments
//! - RATE: packets a second; 0 for as many as the next elements take.
//! - LIMIT: stop after this many; negative for never.
//! - LENGTH: bytes of a frame, at least 60.
//! - SRCETH, SRCIP, DSTETH, DSTIP: addresses.
//! - FLOWS: number of flows.
//! - FLOWSIZE: packets of a flow before its ports change.
//! - BURST (keyword): packets in a turn, default 32.
//! - FLOWBURST (keyword): packets of one flow in a row, default 1.
//! - CHECKSUM (keyword): whether packets have a UDP checksum; default true.
//! - SEQUENTIAL (keyword): flows take turns and ports count up, instead of both being random;
//!   default false.
//! - DUPLICATE (keyword): accepted; each packet has bytes of its own.
//! - ACTIVE (keyword): whether to make packets; default true.
//! - STOP (keyword): stop the router once LIMIT is reached; default false.
//!
//! ## Handlers
//! - `count` (read): packets made.
//! - `rate` (read, write): reading gives the average rate once LIMIT is reached, else 0; writing
//!   sets RATE.
//! - `active` (write): ACTIVE; true begins again.
//! - `reset` (write): begins again.
//!
//! ## See also
//! `FastUDPSource`, `ReplayUnqueue`

use std::net::Ipv4Addr;

use super::{Pace, SHORTEST, Span, Template};
use crate::prelude::*;
use crate::shared::random::Random;

/// Most flows, whose frames are kept.
const MOST_FLOWS: usize = 1 << 20;

/// A flow: its frame, its ports and packets since these changed.
struct Flow {
    frame: Vec<u8>,
    ports: [u16; 2],
    count: u32,
}

/// Makes packets of several flows.
#[derive(Default)]
pub(crate) struct FastUDPFlows {
    template: Template,
    flows: Vec<Flow>,
    number: usize,
    size: u32,
    burst: usize,
    row: u32,
    sequential: bool,
    active: bool,
    stop: bool,
    limit: Option<u64>,
    pace: Pace,
    /// The flow of the last packet, and packets of it in a row.
    last: (usize, u32),
    next: usize,
    count: u64,
    span: Span,
}

impl Class for FastUDPFlows {
    const INFO: ClassInfo = ClassInfo::new("FastUDPFlows", "0/1");
}

fn random_ports() -> [u16; 2] {
    [0, 0].map(|_: u16| Random.below(0xffff) as u16)
}

impl FastUDPFlows {
    fn left(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.count))
    }

    fn reset(&mut self) {
        self.count = 0;
        self.span = Span::default();
        self.pace = Pace { rate: self.pace.rate, ..Pace::default() };
    }

    /// The flow of the next packet.
    fn choose(&mut self) -> usize {
        let (last, row) = self.last;
        if row > 0 && row < self.row {
            self.last = (last, row + 1);
            return last;
        }
        let flow = if self.sequential {
            self.next = (self.next + 1) % self.number.max(1);
            self.next
        } else {
            Random.below(self.number as u32) as usize
        };
        self.last = (flow, 1);
        flow
    }

    /// Adds up to `most` packets to `batch`; returns how many.
    fn make(&mut self, most: usize, batch: &mut Batch, context: &mut Context<'_>) -> usize {
        let now_ns = context.now_ns();
        if !self.active {
            return 0;
        }
        let most = most.min(batch.room()).min(usize::try_from(self.left()).unwrap_or(most));
        let allowed = self.pace.allows(most, now_ns);
        for made in 0..allowed {
            let index = self.choose();
            let (sequential, size) = (self.sequential, self.size);
            let Some(flow) = self.flows.get_mut(index) else { return made };
            if flow.count >= size {
                flow.ports = match sequential {
                    true => flow.ports.map(|port| port.wrapping_add(1) % 0xffff),
                    false => random_ports(),
                };
                self.template.set_ports(&mut flow.frame, flow.ports);
                flow.count = 0;
            }
            let Some(mut packet) = context.arena().packet(&flow.frame) else { return made };
            flow.count += 1;
            self.template.annotate(&mut packet);
            // There is room.
            let _ = batch.push(packet);
            self.count += 1;
            self.pace.sent(1, now_ns);
            if self.count == 1 {
                self.span.first_ns = now_ns;
            }
            if self.left() == 0 {
                self.span.last_ns = now_ns.max(1);
                if self.stop {
                    context.stop();
                }
            }
        }
        allowed
    }
}

impl Element for FastUDPFlows {
    arguments! { this, given;
        mandatory "RATE": u32 => this.pace.rate;
        mandatory "LIMIT": i64, with |limit| u64::try_from(limit).ok() => this.limit;
        let length = mandatory "LENGTH": u16;
        mandatory "SRCETH": [u8; 6] => this.template.source.0;
        let source = mandatory "SRCIP": Ipv4Addr;
        mandatory "DSTETH": [u8; 6] => this.template.destination.0;
        let destination = mandatory "DSTIP": Ipv4Addr;
        mandatory "FLOWS": usize => this.number;
        mandatory "FLOWSIZE": u32 => this.size;
        keyword "BURST": usize = 32 => this.burst;
        keyword "FLOWBURST": u32 = 1 => this.row;
        keyword "CHECKSUM": bool = true => this.template.checksum;
        keyword "SEQUENTIAL": bool = false => this.sequential;
        keyword "DUPLICATE": bool => _;
        keyword "ACTIVE": bool = true => this.active;
        keyword "STOP": bool = false => this.stop;
        then {
            if usize::from(length) < SHORTEST {
                given.warn("packet length < 60, defaulting to 60");
            }
            this.template.length = usize::from(length);
            this.template.source.1 = source.octets();
            this.template.destination.1 = destination.octets();
            if !(1..=MOST_FLOWS).contains(&this.number) {
                return Err(ConfigError::other(format!("FLOWS must be between 1 and {MOST_FLOWS}")));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let flow = || {
            let ports = random_ports();
            Flow { frame: self.template.frame(ports), ports, count: 0 }
        };
        self.flows = std::iter::repeat_with(flow).take(self.number).collect();
        if context.is_push_output(0) {
            context.add_task(1024);
        }
        Ok(())
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.make(max, batch, context);
    }

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, context: &mut Context<'_>) -> bool {
        self.active && self.left() > 0 && self.pace.allows(1, context.now_ns()) > 0
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        let mut batch = context.take_batch();
        let count = self.make(self.burst, &mut batch, context);
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        if count == 0 && self.active && self.left() > 0 {
            // The timer wakes the router; the task runs in the same round.
            context.schedule(0, self.pace.next_ns());
        }
        count > 0
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "rate" => this.span.rate(this.count), set { this.pace = Pace { rate: parse("rate", value)?, ..Pace::default() }; };
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
    use std::collections::HashSet;

    use crate::testing::Bench;

    fn bench(start: [&str; 2], end: &[&str]) -> Bench {
        let addresses = ["2:0:0:0:0:1", "1.0.0.1", "2:0:0:0:0:2", "2.0.0.2"];
        Bench::new("FastUDPFlows", &[&start[..], &["100"], &addresses[..], end].concat())
    }

    fn flows(out: &[(usize, Vec<u8>)]) -> HashSet<Vec<u8>> {
        out.iter().map(|(_, frame)| frame[34..38].to_vec()).collect()
    }

    #[test]
    fn flows_change_their_ports() {
        let mut bench = bench(["0", "100"], &["5", "10", "SEQUENTIAL true"]);
        let out = bench.run();
        assert_eq!(out.len(), 100);
        assert!(out.iter().all(|(_, frame)| frame.len() == 100));
        // Each of five flows had 20 packets, ten of them with the same ports.
        assert_eq!(flows(&out).len(), 10);
    }

    #[test]
    fn one_flow_stays_one() {
        let mut bench = bench(["0", "50"], &["1", "50", "STOP true"]);
        assert_eq!(flows(&bench.run()).len(), 1);
        assert!(bench.router.is_stopped());
        assert_eq!(
            Bench::error(
                "FastUDPFlows",
                &["0", "1", "60", "1:1:1:1:1:1", "1.1.1.1", "1:1:1:1:1:1", "1.1.1.1", "0", "1"]
            ),
            "FLOWS must be between 1 and 1048576"
        );
    }
}
