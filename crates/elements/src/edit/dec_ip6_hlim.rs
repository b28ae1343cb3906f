//! # DecIP6HLIM
//!
//! ## Synopsis
//! `DecIP6HLIM()`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets packets that may
//! not be forwarded; else they are dropped.
//!
//! ## Description
//! Subtracts one from the hop limit of each IPv6 packet. Packets with a hop limit of 0 or 1 leave
//! by output 1, for an `ICMP6Error`. Header annotations must be set.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets that may not be forwarded.
//!
//! ## See also
//! `DecIPTTL`, `ICMP6Error`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, handlers};

use crate::shared::common::part;
use europa_packet::{Header, Ipv6Header};

/// Counts down hop limits.
#[derive(Default)]
pub(crate) struct DecIP6HLIM {
    drops: u64,
}

impl Class for DecIP6HLIM {
    const INFO: ClassInfo =
        ClassInfo::new("DecIP6HLIM", "1/1-2").processing("a/ah").inline().keeps_long();
}

impl Element for DecIP6HLIM {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.drops += part(batch, context, |packet| {
            let header = packet.network_header_mut().and_then(Ipv6Header::parse_mut);
            header.is_some_and(|(header, _)| header.decrement_hop_limit())
        });
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_packet::Frame;
    use std::net::Ipv6Addr;

    #[test]
    fn counts_down_to_the_end() {
        for (before, output, after) in [(64, 0, 63), (2, 0, 1), (1, 1, 1), (0, 1, 0)] {
            let packet = |hops| {
                let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
                Frame::bare().ipv6(a, b).ttl(hops).udp(1, 2, b"")
            };
            let mut bench = Bench::new("DecIP6HLIM", &[]);
            let mut input = bench.arena.packet(&packet(before)).unwrap();
            input.set_network_header(0, 40);
            assert_eq!(bench.push_packets(0, vec![input]), [(output, packet(after))]);
        }
    }
}
