//! # IPOutputCombo
//!
//! ## Synopsis
//! `IPOutputCombo(COLOR, IPADDR, MTU)`
//!
//! ## Ports
//! One push input, five push outputs.
//!
//! ## Description
//! Combines the last steps of a router for a packet: `DropBroadcasts -> PaintTee(COLOR) ->
//! IPGWOptions(IPADDR) -> FixIPSrc(IPADDR) -> DecIPTTL -> CheckLength(MTU)`. Packets that pass
//! leave by output 0. Copies of packets with this colour leave by output 1, packets with bad
//! options by output 2, and packets with an expired time to live by output 3. Packets that are too
//! long leave by output 4, for an `IPFragmenter`.
//!
//! ## Arguments
//! - COLOR: paint of the packets that came in by the interface where they leave.
//! - IPADDR: the router's address on the outgoing interface.
//! - MTU: in bytes.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `IPInputCombo`, `IPFragmenter`, `ICMPError`

use std::net::Ipv4Addr;

use europa_engine::PacketType;

use crate::edit::dec_ip_ttl::decrement;
use crate::edit::fix_ip_src::FixIPSrc;
use crate::forward::ip_gw_options::IPGWOptions;
use crate::prelude::*;

/// Checks and changes packets before they are sent.
#[derive(Default)]
pub(crate) struct IPOutputCombo {
    colour: u8,
    options: IPGWOptions,
    source: FixIPSrc,
    mtu: usize,
}

impl Class for IPOutputCombo {
    const INFO: ClassInfo =
        ClassInfo::new("IPOutputCombo", "1/5").processing("h/h").inline().keeps_long();
}

impl IPOutputCombo {
    /// The output of a packet that is not a broadcast.
    fn output(&self, packet: &mut Packet, milliseconds: u32) -> usize {
        if !self.options.work(packet, milliseconds) {
            return 2;
        }
        self.source.fix_one(packet);
        match decrement(packet, true) {
            false => 3,
            true if packet.is_longer_than(self.mtu) => 4,
            true => 0,
        }
    }
}

impl Element for IPOutputCombo {
    arguments! { this, given;
        mandatory "COLOR": u8 => this.colour;
        let address = mandatory "IPADDR": Ipv4Addr;
        mandatory "MTU": usize => this.mtu;
        then {
            this.options = IPGWOptions::of(address);
            this.source = FixIPSrc::of(address);
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let milliseconds = IPGWOptions::milliseconds(context);
        for packet in batch.iter().filter(|packet| packet.paint() == self.colour) {
            if !is_broadcast(packet)
                && let Some(copy) = packet.try_clone()
            {
                context.push(1, copy);
            }
        }
        context.push_each(batch, |packet| {
            (!is_broadcast(packet)).then(|| self.output(packet, milliseconds))
        });
    }
}

fn is_broadcast(packet: &Packet) -> bool {
    matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast)
}

#[cfg(test)]
mod tests {
    use europa_engine::PacketType;

    use crate::testing::{Bench, ip_packet};

    #[test]
    fn every_packet_has_its_output() {
        let arguments = ["7", "10.0.0.1", "30"];
        let mut bench = Bench::try_new("IPOutputCombo", &arguments, None, Some(5)).unwrap();
        let packet = |ttl, payload: &[u8]| ip_packet(0x0a00_0002, 0x0a00_0102, ttl, payload);
        let mut wrong = packet(9, b"");
        wrong.splice(20..20, [7, 0, 0, 0]);
        wrong[0] = 0x46;
        for (bytes, paint, kind, outputs) in [
            (packet(9, b""), 0, PacketType::Host, &[0][..]),
            (packet(9, b""), 7, PacketType::Host, &[1, 0]),
            (packet(9, b""), 7, PacketType::Broadcast, &[]),
            (packet(1, b""), 0, PacketType::Host, &[3]),
            (packet(9, b"more than 10"), 0, PacketType::Host, &[4]),
            (wrong, 0, PacketType::Host, &[2]),
        ] {
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, usize::from(bytes[0] & 15) * 4);
            packet.set_paint(paint);
            packet.set_packet_type(kind);
            let out = bench.push_packets(0, vec![packet]);
            assert_eq!(out.iter().map(|(port, _)| *port).collect::<Vec<_>>(), outputs);
            if outputs == [0] {
                assert_eq!(out[0].1, ip_packet(0x0a00_0002, 0x0a00_0102, 8, b""));
            }
        }
    }
}
