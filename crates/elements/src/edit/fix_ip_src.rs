//! # FixIPSrc
//!
//! ## Synopsis
//! `FixIPSrc(IPADDR)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets the source address of IP packets that have the "fix IP source" annotation to IPADDR,
//! updates the header's checksum, and clears the annotation. `ICMPError` sets this annotation: an
//! error has the address of the interface by which it leaves (RFC 1812 section 4.3.2.4), which is
//! known only after the look-up.
//!
//! ## Arguments
//! - IPADDR: address of the interface.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `ICMPError`

use std::net::Ipv4Addr;

use europa_engine::{Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments};
use europa_packet::{Header, Ipv4Header};
use europa_pool::packet::annotation::FIX_IP_SRC;

/// Sets the source address of marked packets.
#[derive(Default)]
pub(crate) struct FixIPSrc {
    address: u32,
}

impl Class for FixIPSrc {
    const INFO: ClassInfo = ClassInfo::new("FixIPSrc", "1/1").inline().keeps_long();
}

impl FixIPSrc {
    /// An element with this address.
    pub(crate) fn of(address: Ipv4Addr) -> FixIPSrc {
        FixIPSrc { address: address.into() }
    }

    /// Sets the source of a marked packet.
    #[inline(always)]
    pub(crate) fn fix_one(&self, packet: &mut Packet) {
        if packet.annotation(FIX_IP_SRC) != [0] {
            self.fix(packet);
        }
    }

    #[cold]
    fn fix(&self, packet: &mut Packet) {
        packet.set_annotation(FIX_IP_SRC, [0]);
        let header = packet.network_header_mut().and_then(Ipv4Header::parse_mut);
        if let Some((header, _)) = header {
            header.set_source(self.address);
        }
    }
}

impl Each for FixIPSrc {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if packet.annotation(FIX_IP_SRC) == [0] { Verdict::ON } else { Verdict::ALONE }
    }
}

impl Element for FixIPSrc {
    arguments! { this, given;
        mandatory "IPADDR": Ipv4Addr, with u32::from => this.address;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            self.fix_one(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::Frame;

    #[test]
    fn changes_only_what_asks_for_it() {
        let mut bench = Bench::new("FixIPSrc", &["10.0.0.1"]);
        let bytes = Frame::bare().ipv4([1, 2, 3, 4], [5, 6, 7, 8]).echo(1, 2, b"");
        let wanted = Frame::bare().ipv4([10, 0, 0, 1], [5, 6, 7, 8]).echo(1, 2, b"");
        let packets = [[0], [1]].map(|annotation| {
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 20);
            packet.set_annotation(FIX_IP_SRC, annotation);
            packet
        });
        let out = bench.push_packets(0, packets.into());
        assert_eq!(out, [(0, bytes), (0, wanted)]);
        assert!(bench.out.iter().all(|(_, packet)| packet.annotation(FIX_IP_SRC) == [0]));
    }
}
