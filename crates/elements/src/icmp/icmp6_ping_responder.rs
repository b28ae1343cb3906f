//! # ICMP6PingResponder
//!
//! ## Synopsis
//! `ICMP6PingResponder([keywords])`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets all packets that
//! are no echo requests; else they are dropped.
//!
//! ## Description
//! Expects IPv6 packets with their header annotations set. Turns ICMPv6 echo requests into
//! replies: addresses swapped, hop limit 64, destination annotation set. Requests with extension
//! headers, to groups, from no address or with a wrong checksum count as other packets.
//!
//! The paint annotation stays unchanged: it may say by which interface a reply to a link-local
//! address has to leave.
//!
//! ## Arguments
//! - ANYCAST: `ADDRESS OWN ADDRESS OWN ...`: replies to requests to the anycast address ADDRESS come
//!   from OWN.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `ICMPPingResponder`, `ICMP6Error`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, Packet, arguments};
use europa_packet::icmp6::Icmp6Type;
use europa_packet::{Header, Icmp6Header, IpProtocol, Ipv6Header, Ipv6Packet, checksum};
use europa_pool::packet::annotation::DST_IP6;

use crate::shared::common::Anycast;

/// Answers pings.
#[derive(Default)]
pub(crate) struct ICMP6PingResponder {
    anycast: Anycast,
}

impl Class for ICMP6PingResponder {
    const INFO: ClassInfo =
        ClassInfo::new("ICMP6PingResponder", "1/1-2").processing("a/ah").inline().keeps_long();
}

const HOP_LIMIT: u8 = 64;

/// Changes an echo request into its reply.
fn reply(packet: &mut Packet, anycast: &Anycast) -> Option<()> {
    let whole = Ipv6Packet::parse(packet.network_header()?).ok()?;
    let (icmp, _) = Icmp6Header::parse(whole.payload)?;
    let header = whole.header;
    let (source, destination) = (header.source_addr(), header.destination_addr());
    let length = whole.payload.len() as u32;
    let sum = checksum::pseudo_v6(source, destination, IpProtocol::ICMP6, length)
        + checksum::sum(whole.payload);
    if header.next_header != IpProtocol::ICMP6
        || icmp.kind != Icmp6Type::ECHO_REQUEST
        || destination.is_multicast()
        || source.is_multicast()
        || source.is_unspecified()
        || !sum.is_valid()
    {
        return None;
    }
    let (header, rest) = Ipv6Header::parse_mut(packet.network_header_mut()?)?;
    let (icmp, _) = Icmp6Header::parse_mut(rest)?;
    let word = |kind: Icmp6Type, code: u8| u16::from_be_bytes([kind.0, code]);
    let old = word(icmp.kind, icmp.code);
    (icmp.kind, icmp.code) = (Icmp6Type::ECHO_REPLY, 0);
    // Swapping addresses does not change the sum.
    let mut check = checksum::update_u16(icmp.checksum.get(), old, word(icmp.kind, 0));
    (header.source, header.destination) = (header.destination, header.source);
    if let Some(own) = anycast.own(destination) {
        for (old, new) in destination.segments().into_iter().zip(own.segments()) {
            check = checksum::update_u16(check, old, new);
        }
        header.source = own.octets();
    }
    icmp.checksum.set(check);
    header.hop_limit = HOP_LIMIT;
    let destination = header.destination;
    packet.set_annotation(DST_IP6, destination);
    Some(())
}

impl Element for ICMP6PingResponder {
    arguments! { this, given;
        keyword "ANYCAST": "pairs of addresses", by Anycast::read => this.anycast;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch.filter(
            |packet| reply(packet, &self.anycast).is_some(),
            |packet| context.push(1, packet),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_packet::Frame;
    use std::net::Ipv6Addr;

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn packet(from: &str, to: &str, kind: u8, hops: u8) -> Vec<u8> {
        let message = [kind, 0, 0, 0, 1, 2, 3, 4, b'x', b'y', b'z'];
        Frame::bare().ipv6(address(from), address(to)).ttl(hops).icmp6(&message)
    }

    #[test]
    fn requests_become_replies() {
        let (a, own, any) = ("2001:db8::9", "2001:db8::1", "2001:db8::");
        let asked = packet(a, own, 128, 3);
        let mut damaged = asked.clone();
        damaged[50] ^= 1;
        for (name, bytes, wanted) in [
            ("request", asked.clone(), Some(packet(own, a, 129, 64))),
            ("to an anycast address", packet(a, any, 128, 3), Some(packet(own, a, 129, 64))),
            ("reply", packet(a, own, 129, 3), None),
            ("to a group", packet(a, "ff02::1", 128, 3), None),
            ("from nobody", packet("::", own, 128, 3), None),
            ("short", asked[..44].to_vec(), None),
            ("damaged", damaged, None),
        ] {
            let mut bench = Bench::new("ICMP6PingResponder", &["ANYCAST 2001:db8:: 2001:db8::1"]);
            let mut input = bench.arena.packet(&bytes).unwrap();
            input.set_network_header(0, 40);
            let wanted = wanted.map_or((1, bytes), |bytes| (0, bytes));
            assert_eq!(bench.push_packets(0, vec![input]), [wanted], "{name}");
        }
    }
}
