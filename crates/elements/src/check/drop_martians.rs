//! # DropMartians
//!
//! ## Synopsis
//! `DropMartians([ADDRESSES])`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets the martians;
//! else they are dropped.
//!
//! ## Description
//! Drops IPv4 packets whose source cannot be one host (RFC 1812 section 5.3.7): net 0, net 127,
//! multicast, class E with the limited broadcast address, and ADDRESSES. It also drops packets
//! whose destination is multicast or class E (section 4.2.2.11): a router without multicast
//! forwards none. As routes these two destinations would fill 4 MiB of a table, which takes 5 ms.
//! Header annotations must be set. Click has no such element; its `CheckIPHeader` knows a list of
//! addresses only.
//!
//! ## Arguments
//! - ADDRESSES: further bad sources, with blanks between them: the subnets' broadcast
//!   addresses, and the router's own.
//!
//! ## Handlers
//! - `drops` (read): martians.
//!
//! ## See also
//! `CheckIPHeader`

use std::net::Ipv4Addr;

use europa_engine::{
    Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments, handlers,
};
use europa_packet::{Header, Ipv4Header};

/// Drops packets from impossible sources and to groups.
#[derive(Default)]
pub(crate) struct DropMartians {
    /// In order.
    bad: Vec<u32>,
    /// A set of bits: one for the low six bits of each address.
    filter: u64,
    drops: u64,
}

impl Class for DropMartians {
    const INFO: ClassInfo =
        ClassInfo::new("DropMartians", "1/1-2").processing("a/ah").inline().keeps_long();
}

impl DropMartians {
    #[cold]
    #[inline(never)]
    fn refuse(&mut self) -> Verdict {
        self.drops += 1;
        Verdict::out(1)
    }

    #[inline(always)]
    fn may_pass(&self, packet: &Packet) -> bool {
        let header = packet.network_header().and_then(Ipv4Header::parse);
        header.is_some_and(|(header, _)| {
            let source = header.source.get();
            let net = source >> 24;
            let listed =
                self.filter >> (source & 63) & 1 != 0 && self.bad.binary_search(&source).is_ok();
            net != 0 && net != 127 && net < 224 && header.destination.get() >> 29 != 7 && !listed
        })
    }
}

impl Each for DropMartians {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if self.may_pass(packet) {
            return Verdict::ON;
        }
        self.refuse()
    }
}

impl Element for DropMartians {
    arguments! { this, given;
        let text = positional "ADDRESSES": String = String::new();
        then {
            for word in text.split_whitespace() {
                let address = given.value::<Ipv4Addr>("ADDRESSES", 0, word)?;
                this.bad.push(address.into());
            }
            this.bad.sort_unstable();
            this.filter = this.bad.iter().fold(0, |filter, address| filter | 1 << (address & 63));
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch
            .filter(|packet| self.each(packet, 0) == Verdict::ON, |packet| context.push(1, packet));
    }

    handlers! { this, context, value;
        read "drops" => this.drops;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_packet::Frame;

    fn output(source: [u8; 4], destination: [u8; 4]) -> usize {
        let bytes = Frame::bare().ipv4(source, destination).udp(1, 2, b"");
        let mut bench = Bench::new("DropMartians", &["10.0.0.255 10.0.0.1"]);
        let mut packet = bench.arena.packet(&bytes).unwrap();
        packet.set_network_header(0, 20);
        bench.push_packets(0, vec![packet])[0].0
    }

    #[test]
    fn groups_are_no_destinations() {
        for (destination, wanted) in [
            ([10, 0, 0, 1], 0),
            ([10, 0, 0, 255], 0),
            ([223, 255, 255, 255], 0),
            ([224, 0, 0, 1], 1),
            ([239, 1, 2, 3], 1),
            ([240, 0, 0, 1], 1),
            ([255; 4], 1),
        ] {
            assert_eq!(output([10, 0, 0, 2], destination), wanted, "{destination:?}");
        }
    }

    #[test]
    fn impossible_sources_are_dropped() {
        for (source, wanted) in [
            ([10, 0, 0, 2], 0),
            ([10, 0, 0, 255], 1),
            ([10, 0, 0, 1], 1),
            ([10, 1, 0, 1], 0),
            ([223, 255, 255, 255], 0),
            ([0, 1, 2, 3], 1),
            ([127, 0, 0, 1], 1),
            ([224, 0, 0, 1], 1),
            ([240, 0, 0, 1], 1),
            ([255; 4], 1),
        ] {
            assert_eq!(output(source, [10, 0, 0, 3]), wanted, "{source:?}");
        }
    }
}
