//! # ProtocolTranslator46
//!
//! ## Synopsis
//! `ProtocolTranslator46()`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Turns IPv4 packets into IPv6 packets (RFC 2765). Addresses become those that embed them:
//! 10.0.0.1 becomes `::ffff:10.0.0.1`. ICMP messages become those of ICMPv6. Checksums are computed
//! again. The hop limit is the time to live plus 65, modulo 256, as in Click. Packets that have no
//! counterpart are dropped, among them fragments and packets with IP options. Packets start with
//! the IP header.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets that were not translated.
//!
//! ## See also
//! `ProtocolTranslator64`, `AddressTranslator`

use super::{ICMP, ICMP_BYTES, ICMP6, IP4_BYTES, IP6_BYTES, addresses4, set_checksum6};
use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::{be16, be32, grow_front, is_fragment, set};

/// Turns IPv4 packets into IPv6 packets.
#[derive(Default)]
pub(crate) struct ProtocolTranslator46 {
    drops: u64,
}

impl Class for ProtocolTranslator46 {
    const INFO: ClassInfo = ClassInfo::new("ProtocolTranslator46", "1/1").processing("h/h");
}

/// Type, code and second word of the ICMPv6 message for an ICMP message.
fn message(header: &[u8]) -> Option<([u8; 2], u32)> {
    let (kind, code) = (*header.first()?, *header.get(1)?);
    Some(match (kind, code) {
        (8, _) => ([128, 0], be32(header, 4)?),
        (0, _) => ([129, 0], be32(header, 4)?),
        (3, 2) => ([4, 1], 6),
        // IPv6 headers are longer by 20 bytes. Old routers do not state an MTU.
        (3, 4) => ([2, 0], u32::from(be16(header, 6)?.max(1260)) + 20),
        (3, 3) => ([1, 4], 0),
        (3, 5) => ([1, 2], 0),
        (3, 9 | 10) => ([1, 1], 0),
        (3, _) => ([1, 0], 0),
        (11, code) => ([3, code], 0),
        (12, _) => ([4, 0], pointer(*header.get(4)?)),
        _ => return None,
    })
}

/// The byte of an IPv6 header that corresponds to a byte of an IPv4 header.
fn pointer(byte: u8) -> u32 {
    match byte {
        0 => 0,
        2 => 4,
        8 => 7,
        9 => 6,
        12 => 8,
        16 => 24,
        _ => u32::MAX,
    }
}

/// Translates a packet. `None` if there is no equivalent.
fn translate(packet: &mut Packet) -> Option<()> {
    let data = packet.data();
    let (from, to) = addresses4(data)?;
    let total = usize::from(be16(data, 2)?);
    let sound = *data.first()? == 0x45 && (IP4_BYTES..=data.len()).contains(&total);
    if !sound || is_fragment(data) {
        return None;
    }
    let (time, protocol) = (*data.get(8)?, *data.get(9)?);
    packet.take(packet.len() - total)?;
    grow_front(packet, IP6_BYTES - IP4_BYTES)?;
    let (header, segment) = packet.data_mut().split_at_mut_checked(IP6_BYTES)?;
    let next = if protocol == ICMP { ICMP6 } else { protocol };
    header.fill(0);
    set(header, 0, [0x60]);
    // The total length had 16 bits.
    set(header, 4, ((total - IP4_BYTES) as u16).to_be_bytes());
    set(header, 6, [next, time.wrapping_add(0x40).wrapping_sub(0xff)]);
    set(header, 8, from.to_ipv6_mapped().octets());
    set(header, 24, to.to_ipv6_mapped().octets());
    if protocol == ICMP {
        let ([kind, code], word) = message(segment.get(..ICMP_BYTES)?)?;
        set(segment, 0, [kind, code]);
        set(segment, 4, word.to_be_bytes());
    }
    set_checksum6(header, segment, next);
    packet.set_network_header(0, IP6_BYTES);
    Some(())
}

impl Element for ProtocolTranslator46 {
    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.drops += retain(batch, |packet| translate(packet).is_some());
        context.forward(0, batch);
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::ip64::{embedded, payload6, set_checksum4};
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn packets_there_and_back_are_the_same() {
        for (protocol, segment) in [
            (17, &[0, 7, 0, 8, 0, 11, 0, 0, b'a', b'b', b'c'][..]),
            (6, &[0, 7, 0, 8, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 2, 1, 0, 0, 0, 0, 0, b'a']),
            (1, &[8, 0, 0, 0, 1, 2, 0, 3, b'x']),
            (1, &[3, 3, 0, 0, 0, 0, 0, 0]),
        ] {
            let mut packet = ip_packet(0x0100_0001, 0x0200_0002, 9, segment);
            packet[6] = 0x40;
            packet[9] = protocol;
            crate::shared::fields::set_ip_checksum(&mut packet);
            let (header, part) = packet.split_at_mut(20);
            set_checksum4(header, part, protocol);
            let mut bench = Bench::new("ProtocolTranslator46", &[]);
            let out = bench.push(0, &[&packet]);
            let middle = out[0].1.clone();
            assert_eq!(payload6(&middle), Some(segment.len()));
            assert_eq!(middle[7], 9u8.wrapping_add(65));
            let mut bench = Bench::new("ProtocolTranslator64", &[]);
            let back = bench.push(0, &[&middle])[0].1.clone();
            packet[8] = 9 + 65;
            crate::shared::fields::set_ip_checksum(&mut packet);
            assert_eq!(back, packet, "{protocol}");
        }
    }

    #[test]
    fn what_has_no_counterpart_is_dropped() {
        let mut fragment = ip_packet(1, 2, 9, b"abcdefgh");
        fragment[7] = 1;
        let mut bench = Bench::new("ProtocolTranslator46", &[]);
        assert!(bench.push(0, &[&fragment, b"E"]).is_empty());
        assert_eq!(bench.router.read("e.drops", ""), Ok("2".into()));
        for (text, wanted) in
            [("::1.2.3.4", true), ("::ffff:1.2.3.4", true), ("2001::1", false), ("::", false)]
        {
            assert_eq!(embedded(text.parse().unwrap()).is_some(), wanted, "{text}");
        }
    }
}
