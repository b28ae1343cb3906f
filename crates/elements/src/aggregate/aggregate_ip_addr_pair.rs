//! # AggregateIPAddrPair
//!
//! ## Synopsis
//! `AggregateIPAddrPair([TIMEOUT, REAP])`
//!
//! ## Ports
//! One input, push or pull; one output of the same kind, and an optional second push output for
//! packets without an IPv4 header.
//!
//! ## Description
//! Numbers pairs of IPv4 addresses from 1 on, and sets the aggregate annotation of packets to the
//! number of their pair, in both directions. The paint is 0 for the direction of the pair's first
//! packet, else 1. Packets need the IP header annotation. When a million pairs are known, the
//! element forgets the pairs whose last packet is the oldest.
//!
//! ## Arguments
//! - TIMEOUT (keyword): a pair gets another number after this many seconds (of the packets' time)
//!   without packets; default 0: never.
//! - REAP (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `clear` (write): forgets all pairs.
//! - `count` (read): pairs known.
//!
//! ## See also
//! `AggregateIPFlows`, `AggregateIP`

use std::collections::HashMap;
use std::time::Duration;

use crate::prelude::*;
use crate::shared::common::part;
use crate::shared::fields::{Annotations, be32, network};

/// Most pairs.
const MOST: usize = 1 << 20;

/// The state of a pair.
#[derive(Clone, Copy)]
struct Pair {
    number: u32,
    /// The pair's first packet was sent by the higher address.
    reverse: bool,
    last_ns: u64,
}

/// Numbers pairs of addresses.
#[derive(Default)]
pub(crate) struct AggregateIPAddrPair {
    timeout_ns: u64,
    /// By lower and higher address.
    pairs: HashMap<[u32; 2], Pair>,
    last: u32,
}

impl Class for AggregateIPAddrPair {
    const INFO: ClassInfo = ClassInfo::new("AggregateIPAddrPair", "1/1-2").processing("a/ah");
}

impl AggregateIPAddrPair {
    /// Removes the older half of all pairs.
    #[cold]
    fn make_room(&mut self) {
        let mut times: Vec<u64> = self.pairs.values().map(|pair| pair.last_ns).collect();
        let middle = times.len() / 2;
        let (_, bar, _) = times.select_nth_unstable(middle);
        let bar = *bar;
        self.pairs.retain(|_, pair| pair.last_ns > bar);
        if self.pairs.len() > MOST / 2 {
            self.pairs.clear();
        }
    }

    /// Sets the annotations of a packet. `false` if it has no IPv4 header.
    fn mark(&mut self, packet: &mut Packet, now_ns: u64) -> bool {
        let addresses = network(packet)
            .filter(|(header, _)| header.first().is_some_and(|byte| byte >> 4 == 4))
            .and_then(|(header, _)| Some((be32(header, 12)?, be32(header, 16)?)));
        let Some((from, to)) = addresses else { return false };
        let time_ns = match packet.timestamp_ns() {
            0 => now_ns,
            time_ns => time_ns,
        };
        let is_reverse = from > to;
        let key = if is_reverse { [to, from] } else { [from, to] };
        if self.pairs.len() >= MOST && !self.pairs.contains_key(&key) {
            self.make_room();
        }
        let (timeout_ns, last) = (self.timeout_ns, &mut self.last);
        let mut new = || {
            *last = last.checked_add(1).unwrap_or(1);
            Pair { number: *last, reverse: is_reverse, last_ns: time_ns }
        };
        let pair = self.pairs.entry(key).or_insert_with(&mut new);
        if timeout_ns > 0 && time_ns.saturating_sub(pair.last_ns) > timeout_ns {
            *pair = new();
        }
        pair.last_ns = time_ns;
        let (number, paint) = (pair.number, u8::from(pair.reverse != is_reverse));
        packet.set_aggregate(number);
        packet.set_paint(paint);
        true
    }
}

impl Element for AggregateIPAddrPair {
    arguments! { this, given;
        let timeout = keyword "TIMEOUT": Duration = Duration::ZERO;
        keyword "REAP": Duration => _;
        then {
            this.timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.wall_ns();
        part(batch, context, |packet| self.mark(packet, now_ns));
    }

    handlers! { this, context, value;
        read "count" => this.pairs.len();
        button "clear" => this.pairs.clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations as _;
    use crate::testing::{Bench, ip_packet};

    fn mark(bench: &mut Bench, from: u32, to: u32, second: u64) -> (u32, u8) {
        let mut packet = bench.arena.packet(&ip_packet(from, to, 9, b"")).unwrap();
        packet.set_network_header(0, 20);
        packet.set_timestamp_ns(second * 1_000_000_000);
        assert_eq!(bench.push_packets(0, vec![packet])[0].0, 0);
        (bench.out[0].1.aggregate(), bench.out[0].1.paint())
    }

    #[test]
    fn pairs_have_numbers_and_directions() {
        let mut bench = Bench::new("AggregateIPAddrPair", &["TIMEOUT 10"]);
        assert_eq!(mark(&mut bench, 2, 1, 1), (1, 0));
        assert_eq!(mark(&mut bench, 1, 2, 2), (1, 1));
        assert_eq!(mark(&mut bench, 1, 3, 3), (2, 0));
        assert_eq!(mark(&mut bench, 1, 2, 20), (3, 0), "after the timeout it is another");
        assert_eq!(bench.router.read("e.count", ""), Ok("2".into()));
        assert_eq!(bench.push(0, &[b"no header"]), [(1, b"no header".to_vec())]);
        bench.router.write("e.clear", "").unwrap();
        assert_eq!(mark(&mut bench, 1, 2, 21), (4, 0));
    }
}
