//! # ICMPPingResponder
//!
//! ## Synopsis
//! `ICMPPingResponder()`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets all packets that
//! are no echo requests; else they are dropped.
//!
//! ## Description
//! Expects IP packets with their header annotations set. Turns ICMP echo requests into replies:
//! addresses swapped, TTL 255, no fragment bits, destination annotation set, paint cleared.
//! Fragments, requests from or to addresses that are not unicast, and requests with a wrong
//! checksum count as other packets.
//!
//! Replies keep the options of the IP header (RFC 1122 section 3.2.2.6), but source routes are not
//! reversed.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `ICMPError`, `ICMP6PingResponder`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, Packet};
use europa_packet::icmp::IcmpType;
use europa_packet::{Header, IcmpHeader, IpProtocol, Ipv4Header, Ipv4Packet, checksum};

/// Answers pings.
#[derive(Default)]
pub(crate) struct ICMPPingResponder;

impl Class for ICMPPingResponder {
    const INFO: ClassInfo =
        ClassInfo::new("ICMPPingResponder", "1/1-2").processing("a/ah").inline().keeps_long();
}

/// Whether the address is valid for a single host as source or destination.
fn is_unicast(address: u32) -> bool {
    address != 0 && address >> 28 < 0xe
}

/// Changes an echo request into its reply.
fn reply(packet: &mut Packet) -> Option<()> {
    let whole = Ipv4Packet::parse(packet.network_header()?).ok()?;
    let (icmp, _) = IcmpHeader::parse(whole.payload)?;
    let header = whole.header;
    if header.protocol != IpProtocol::ICMP
        || icmp.kind != IcmpType::ECHO_REQUEST
        || header.is_fragment()
        || !is_unicast(header.source.get())
        || !is_unicast(header.destination.get())
        || !checksum::verify(whole.payload)
    {
        return None;
    }
    let header_len = header.header_len();
    let bytes = packet.network_header_mut()?;
    let icmp = IcmpHeader::at_mut(bytes, header_len)?;
    let old = u16::from_be_bytes([icmp.kind.0, icmp.code]);
    (icmp.kind, icmp.code) = (IcmpType::ECHO_REPLY, 0);
    // The incremental update cannot tell 0 from 0xffff; 0xffff is right if all other words are 0,
    // too.
    icmp.checksum.set(checksum::udp(checksum::update_u16(icmp.checksum.get(), old, 0)));
    let header = Ipv4Header::at_mut(bytes, 0)?;
    // Swapping words does not change the sum.
    (header.source, header.destination) = (header.destination, header.source);
    let mut check = header.checksum.get();
    check = checksum::update_u16(check, header.flags_fragment.get(), 0);
    let word = |ttl: u8| u16::from_be_bytes([ttl, IpProtocol::ICMP.0]);
    check = checksum::update_u16(check, word(header.ttl), word(255));
    header.flags_fragment.set(0);
    header.ttl = 255;
    header.checksum.set(check);
    let destination = header.destination.get();
    packet.set_dst_ip(destination);
    packet.set_paint(0);
    Some(())
}

impl Element for ICMPPingResponder {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch.filter(|packet| reply(packet).is_some(), |packet| context.push(1, packet));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_packet::{Frame, ipv4};

    const A: [u8; 4] = [10, 0, 0, 2];
    const OWN: [u8; 4] = [10, 0, 0, 1];

    fn ping(bytes: &[u8]) -> (usize, Vec<u8>) {
        let mut bench = Bench::new("ICMPPingResponder", &[]);
        let mut packet = bench.arena.packet(bytes).unwrap();
        packet.set_network_header(0, 20);
        packet.set_paint(7);
        let out = bench.push_packets(0, vec![packet]).pop().unwrap();
        if out.0 == 0 {
            assert_eq!((bench.out[0].1.dst_ip(), bench.out[0].1.paint()), (0x0a00_0002, 0));
        }
        out
    }

    #[test]
    fn requests_become_replies() {
        let replied = |payload: &[u8]| {
            let echo = Frame::bare().ipv4(OWN, A).ttl(255).id(7).echo(3, 4, payload);
            let mut message = echo[20..].to_vec();
            message[0] = 0;
            Frame::bare().ipv4(OWN, A).ttl(255).id(7).icmp(&message)
        };
        for length in [0, 1, 2, 56, 1472] {
            let payload = vec![0x5a; length];
            let asked = Frame::bare()
                .ipv4(A, OWN)
                .id(7)
                .flags_fragment(ipv4::DONT_FRAGMENT)
                .echo(3, 4, &payload);
            assert_eq!(ping(&asked), (0, replied(&payload)), "{length} bytes");
        }
    }

    #[test]
    fn anything_else_is_not_answered() {
        let good = || Frame::bare().ipv4(A, OWN);
        let mut damaged = good().echo(1, 2, b"abc");
        damaged[30] ^= 1;
        for (name, bytes) in [
            ("UDP", good().udp(8, 8, b"x")),
            ("reply", good().icmp(&[0, 0, 0, 0, 0, 0, 0, 0])),
            ("fragment", good().flags_fragment(ipv4::MORE_FRAGMENTS).echo(1, 2, b"abc")),
            ("to a group", Frame::bare().ipv4(A, [224, 0, 0, 1]).echo(1, 2, b"abc")),
            ("from nowhere", Frame::bare().ipv4([0; 4], OWN).echo(1, 2, b"abc")),
            ("short", good().icmp(&[8, 0, 0, 0, 0, 0, 0])),
            ("damaged", damaged),
        ] {
            assert_eq!(ping(&bytes), (1, bytes.clone()), "{name}");
        }
    }
}
